"""The names and signatures that torchao's users call for FP8 training, over the operators of `wavecast.kernels`.

A program changes its import lines alone: what it takes from ``torchao.prototype.moe_training.kernels`` is here under
the same name. The contract is torchao at commit 36027d82; `quantizers` says where results differ.
"""

from __future__ import annotations

from wavecast.kernels.torchao.quantizers import (
    triton_fp8_colwise_3d_scale_and_cast,
    triton_fp8_per_group_colwise_scales,
    triton_fp8_per_group_colwise_scales_dual,
    triton_fp8_per_group_rowwise_scales,
    triton_fp8_rowwise_2d_scale_and_cast,
    triton_fp8_rowwise_3d_transpose_rhs,
    triton_fp8_rowwise_3d_transpose_rhs_fused_reduction,
)

__all__ = [
    "triton_fp8_colwise_3d_scale_and_cast",
    "triton_fp8_per_group_colwise_scales",
    "triton_fp8_per_group_colwise_scales_dual",
    "triton_fp8_per_group_rowwise_scales",
    "triton_fp8_rowwise_2d_scale_and_cast",
    "triton_fp8_rowwise_3d_transpose_rhs",
    "triton_fp8_rowwise_3d_transpose_rhs_fused_reduction",
]
