"""Products over a tensor-parallel group with a derivative: gathered before, or scattered after.

Each is the other's derivative with respect to its left operand, so that both passes overlap with their transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from wavecast.kernels import group_ops


def all_gather_matmul(
    a_shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    group: dist.ProcessGroup | str,
    *,
    gather_dim: int = 0,
) -> list[torch.Tensor]:
    """``gathered(a_shard) @ b`` for each ``b``, differentiable in all of them.

    The gathered matrix is kept for the backward pass if a right operand needs a gradient.

    Args:
        a_shard: this rank's part, (…, K), bf16 or fp16.
        bs: (K, N) each; this rank's columns of a weight, for example.
        group: process group, or its name.
        gather_dim: along which dimension parts follow each other; not the last.

    Returns:
        (…, N) each, in the dtype of ``a_shard``.

    Raises:
        ValueError: wrong rank, dtype, shape or device.
    """
    if gather_dim % a_shard.ndim == a_shard.ndim - 1:
        raise ValueError(
            f"gather_dim is {gather_dim}, the dimension that is summed over, which has no derivative here; use "
            "wavecast.kernels.all_gather_matmul, or gather another dimension"
        )
    return list(_AllGatherMatmul.apply(a_shard, _name(group), gather_dim, *bs))


def matmul_reduce_scatter(
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | str,
    *,
    scatter_dim: int = 0,
) -> torch.Tensor:
    """This rank's part of the sum of ``a @ b`` over the ranks, differentiable in both.

    Args:
        a: (…, K), bf16 or fp16.
        b: (K, N); this rank's rows of a weight, for example.
        group: process group, or its name.
        scatter_dim: along which dimension of ``a`` the parts follow each other.

    Returns:
        (…, N), in the dtype of ``a``.

    Raises:
        ValueError: wrong rank, dtype, shape or device.
    """
    part: torch.Tensor = _MatmulReduceScatter.apply(a, b, _name(group), scatter_dim)
    return part


def _name(group: dist.ProcessGroup | str) -> str:
    return group if isinstance(group, str) else group.group_name


def _gather(
    a_shard: torch.Tensor, bs: Sequence[torch.Tensor], name: str, dim: int, *, gathered: bool
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    nothing = [None] * len(bs)
    dtypes = [a_shard.dtype] * len(bs)
    whole, outs = group_ops.all_gather_matmul(a_shard, list(bs), name, dim, None, nothing, nothing, dtypes, gathered)
    return whole, outs


def _scatter(a: torch.Tensor, b: torch.Tensor, name: str, dim: int) -> torch.Tensor:
    part: torch.Tensor = group_ops.matmul_reduce_scatter(a, b, name, "sum", dim, None, None, a.dtype)
    return part


def _grad_right(a: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """Gradient (K, N) of the right operand of ``a @ b``."""
    return a.reshape(-1, a.shape[-1]).t() @ grad.reshape(-1, grad.shape[-1])


class _AllGatherMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_shard: torch.Tensor, name: str, dim: int, *bs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        needed = any(ctx.needs_input_grad[3:])
        whole, outs = _gather(a_shard, bs, name, dim, gathered=needed)
        ctx.save_for_backward(whole, *bs)
        ctx.name, ctx.dim = name, dim
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        whole, *bs = ctx.saved_tensors
        grad_shard = None
        if ctx.needs_input_grad[0]:  # one sum over the columns of all right operands
            together = grads[0] if len(bs) == 1 else torch.cat(grads, -1)
            right = bs[0].t() if len(bs) == 1 else torch.cat([b.t() for b in bs])
            grad_shard = _scatter(together, right, ctx.name, ctx.dim)
        grad_bs = [
            _grad_right(whole, grad) if needed else None
            for grad, needed in zip(grads, ctx.needs_input_grad[3:], strict=True)
        ]
        return grad_shard, None, None, *grad_bs


class _MatmulReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, name: str, dim: int) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.name, ctx.dim = name, dim
        return _scatter(a, b, name, dim)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        whole, (grad_a,) = _gather(grad, [b.t()], ctx.name, ctx.dim, gathered=ctx.needs_input_grad[1])
        grad_b = _grad_right(a, whole) if whole is not None else None
        return grad_a if ctx.needs_input_grad[0] else None, grad_b, None, None
