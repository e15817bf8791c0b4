"""The names and signatures of ``torch.ops.symm_mem``'s fused operators, carried out by this package.

PyTorch's ``scale`` is what a product is multiplied by, which is called an inverse here. Whether the overlapped path is
taken is PyTorch's to say as long as ``WAVECAST_ASYNC_TP`` is not set: where its own variable,
``TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP``, is in the environment (with any value, as PyTorch reads it), the overlapped
path is taken where it is possible, elsewhere the decomposed one.
"""

from __future__ import annotations

import math
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


def fused_scaled_matmul_reduce_scatter(
    A: torch.Tensor,
    B: torch.Tensor,
    A_scale: torch.Tensor,
    B_scale: torch.Tensor,
    reduce_op: str,
    orig_scatter_dim: int,
    scatter_dim_after_maybe_reshape: int,
    group_name: str,
    output_shape: Sequence[int],
    bias: torch.Tensor | None = None,
    result_scale: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """`matmul_reduce_scatter` with the signature of ``torch.ops.symm_mem.fused_scaled_matmul_reduce_scatter``.

    The product has ``output_shape`` (of all ranks) and is scattered along ``orig_scatter_dim`` of it; ``A`` may have
    its leading dimensions or all of them in one. The scatter dimension after a reshape follows from these, and
    ``use_fast_accum`` has no influence.

    Raises:
        ValueError: a bias or a result scale is given, which every rank would add to or apply to its part of the sum; or
            ``output_shape`` is not the product's.
    """
    for name, given in (("bias", bias), ("result_scale", result_scale)):
        if given is not None:
            raise ValueError(f"{name} is given; wanted is None: apply it to the result, once for all ranks")
    lead, rows = tuple(output_shape[:-1]), A.numel() // A.shape[-1]
    if math.prod(lead) != rows or output_shape[-1] != B.shape[1]:
        raise ValueError(
            f"output_shape is {tuple(output_shape)} for a product of {rows} rows and {B.shape[1]} columns; wanted is "
            "the shape of the whole product, before it is scattered"
        )
    return matmul_reduce_scatter(
        A.reshape(*lead, A.shape[-1]),
        B,
        group_name,
        reduce_op=reduce_op,
        scatter_dim=orig_scatter_dim,
        a_inverse=A_scale.reshape(() if A_scale.numel() == 1 else (*lead, 1)),
        b_inverse=B_scale,
        out_dtype=torch.bfloat16 if out_dtype is None else out_dtype,
        setting=alias_setting_from(),
    )
