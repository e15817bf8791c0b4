"""The names and signatures of ``torch.ops.symm_mem``'s fused operators, carried out by this package.

PyTorch's ``scale`` is what a product is multiplied by, which is called an inverse here. Whether the overlapped path is
taken is PyTorch's to say as long as ``WAVECAST_ASYNC_TP`` is not set: where its own variable,
``TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP``, is in the environment (with any value, as PyTorch reads it), the overlapped
path is taken where it is possible, elsewhere the decomposed one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.kernels.all_gather_matmul.api import all_gather_matmul
from wavecast.kernels.async_tp.selection import alias_setting_from
from wavecast.kernels.matmul_reduce_scatter.api import matmul_reduce_scatter


def fused_all_gather_matmul(
    A: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    gather_dim: int,
    group_name: str,
    *,
    return_A: bool = True,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """`all_gather_matmul` with the signature of ``torch.ops.symm_mem.fused_all_gather_matmul``."""
    return all_gather_matmul(
        A, Bs, group_name, gather_dim=gather_dim, return_gathered=return_A, setting=alias_setting_from()
    )


def fused_all_gather_scaled_matmul(
    A: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    A_scale: torch.Tensor,
    B_scales: Sequence[torch.Tensor],
    gather_dim: int,
    group_name: str,
    biases: Sequence[torch.Tensor | None],
    result_scales: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype | None],
    use_fast_accum: Sequence[bool],
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """`all_gather_matmul` with the signature of ``torch.ops.symm_mem.fused_all_gather_scaled_matmul``.

    ``use_fast_accum`` has no influence.

    Raises:
        ValueError: a result scale is given; results are not FP8 here.
    """
    if any(scale is not None for scale in result_scales):
        raise ValueError(
            "result_scales has a scale; wanted is None each: results are not FP8; quantize them afterwards"
        )
    gathered, outs = all_gather_matmul(
        A,
        Bs,
        group_name,
        gather_dim=gather_dim,
        a_inverse=A_scale,
        b_inverses=B_scales,
        biases=biases,
        out_dtypes=[torch.bfloat16 if dtype is None else dtype for dtype in out_dtypes],
        setting=alias_setting_from(),
    )
    assert gathered is not None
    return gathered, outs


def fused_matmul_reduce_scatter(
    A: torch.Tensor,
    B: torch.Tensor,
    reduce_op: str,
    scatter_dim: int,
    group_name: str,
) -> torch.Tensor:
    """`matmul_reduce_scatter` with the signature of ``torch.ops.symm_mem.fused_matmul_reduce_scatter``."""
    return matmul_reduce_scatter(
        A, B, group_name, reduce_op=reduce_op, scatter_dim=scatter_dim, setting=alias_setting_from()
    )
