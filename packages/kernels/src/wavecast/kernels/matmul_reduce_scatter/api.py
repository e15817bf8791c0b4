"""Matmul+reduce-scatter over a group: checks, the choice of a path, allocation and launch."""

from __future__ import annotations

import os
from functools import partial

import torch
import torch.distributed as dist

from wavecast.kernels.all_gather_matmul.api import facts_of
from wavecast.kernels.async_tp.checked import CheckedCalls, CheckedWay, described
from wavecast.kernels.async_tp.groups import group_of, workspace_of
from wavecast.kernels.async_tp.messages import reduced_chunk
from wavecast.kernels.async_tp.products import sum_in_fp32
from wavecast.kernels.async_tp.selection import (
    CODE_VARIABLE,
    VARIABLE,
    Setting,
    Way,
    code_from,
    select_way,
    setting_from,
)
from wavecast.kernels.device import launch_device
from wavecast.kernels.grouped_gemm.operands import route_operands
from wavecast.kernels.matmul_reduce_scatter.call import ScatterCall
from wavecast.kernels.matmul_reduce_scatter.operands import Parts, as_parts, check_parts
from wavecast.kernels.matmul_reduce_scatter.plan import window_bytes

REDUCTIONS = ("sum", "avg")

_checked = CheckedCalls()


def matmul_reduce_scatter(
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | str,
    *,
    reduce_op: str = "sum",
    scatter_dim: int = 0,
    a_inverse: torch.Tensor | None = None,
    b_inverse: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    setting: Setting | str | None = None,
) -> torch.Tensor:
    """Multiply, sum over all ranks, and keep this rank's part of the sum.

    Ranks exchange fp32 sums, to which the scales have been applied; a result is rounded once. Every rank of the group
    makes the call with equal shapes.

    Args:
        a: (…, K): bf16, fp16 or FP8.
        b: (K, N), dtype of ``a``.
        group: process group, or its name.
        reduce_op: ``sum`` or ``avg``.
        scatter_dim: along which dimension of ``a`` the parts follow each other in the order of ranks; not the last.
        a_inverse: fp32 inverse scales of FP8 operands: () or a's shape with K = 1.
        b_inverse: fp32 inverse scales of FP8 operands: () or (1, N).
        out_dtype: bf16, fp16 or fp32; by default a's, for FP8 bf16.
        setting: ``0`` (decomposed), ``1`` (overlapped, or an error), ``auto``; by default that of the environment
            variable ``WAVECAST_ASYNC_TP``.

    Returns:
        This rank's part, in ``a``'s dimensions, with N for K.

    Raises:
        ValueError: wrong rank, dtype, shape or device, a size that the ranks do not divide, or another reduction.
            (`WAVECAST_ASYNC_TP_CODE` asks for the kernel in HIP: the same where that cannot do it.)
        RuntimeError: the overlapped path is asked for and not possible.
        SignalTimeoutError: a kernel of an earlier call has given up waiting for a rank.
    """
    if reduce_op not in REDUCTIONS:
        raise ValueError(f"reduce_op is {reduce_op!r}; wanted is one of {', '.join(REDUCTIONS)}")
    group = group_of(group)
    if out_dtype is None:
        out_dtype = torch.bfloat16 if a.dtype.itemsize == 1 else a.dtype
    ranks, asked = group.size(), os.environ.get(VARIABLE) if setting is None else setting
    signature = (
        id(group), ranks, asked, os.environ.get(CODE_VARIABLE), scatter_dim, reduce_op, described(a), described(b),
        described(a_inverse), described(b_inverse), out_dtype,
    )  # fmt: skip
    way = _checked.get(signature)
    if way is None:
        check_parts(a, b, ranks, scatter_dim, a_inverse, b_inverse, out_dtype)
    parts = as_parts(a, b, ranks, scatter_dim, a_inverse, b_inverse)
    average = reduce_op == "avg"
    if way is None:
        wanted = setting_from() if setting is None else Setting(setting)
        chosen = select_way(facts_of(parts.a, b.shape[1], group), wanted)
        way = CheckedWay(chosen, None)
        if chosen.way is Way.OVERLAPPED:
            way.route = route_operands(parts.a, b, parts.a_inverse, parts.b_inverse)
            way.make = partial(ScatterCall, out_dtype=out_dtype, average=average, code=code_from())
            way.window_bytes = window_bytes(parts.rows, b.shape[1], ranks)
        _checked.keep(signature, way)
    way.tell("matmul_reduce_scatter")
    if way.chosen.way is Way.OVERLAPPED:
        with launch_device(parts.a):
            call: ScatterCall = way.call_over(workspace_of(group, way.window_bytes))
            return parts.unfolded(call(parts, b))
    total = decomposed_matmul_reduce_scatter(parts, b, group)
    if average:
        total /= ranks
    return parts.unfolded(total.to(out_dtype))


def decomposed_matmul_reduce_scatter(parts: Parts, b: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    """fp32 (rows, N): each rank's part is multiplied, and sent while the next one is."""

    def partial(rank: int) -> torch.Tensor:
        return sum_in_fp32(parts.a[parts.part(rank)], b, parts.inverse_of(rank), parts.b_inverse)

    return reduced_chunk(partial, group)
