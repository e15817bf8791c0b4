"""The names and signatures that torchao's users call for FP8 training, over the operators of `wavecast.kernels`.

A program changes its import lines alone: what it takes from ``torchao.float8``, from ``torchao.quantization`` and from
``torchao.prototype.moe_training`` with its ``config``, ``utils`` and ``kernels`` is here under the same name. The
contract is torchao at commit 36027d82. The docstrings say where results differ, those of `quantizers` for all
quantizers. Not here: MXFP8 and NVFP4, FP8 all-gather, emulation, inference.
"""

from __future__ import annotations

from wavecast.kernels.torchao.configs import (
    CastConfig,
    Float8GemmConfig,
    Float8LinearConfig,
    Float8LinearRecipeName,
    Float8TrainingOpConfig,
    Float8TrainingRecipe,
    ScalingGranularity,
    ScalingType,
    _auto_filter_for_recipe,
)
from wavecast.kernels.torchao.linear import (
    Float8Linear,
    convert_to_float8_training,
    precompute_float8_dynamic_scale_for_fsdp,
)
from wavecast.kernels.torchao.moe import (
    Float8TrainingWeightWrapperTensor,
    _quantize_then_scaled_grouped_mm,
    _to_fp8_rowwise_then_scaled_grouped_mm,
    quantize_,
)
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
    "CastConfig",
    "Float8GemmConfig",
    "Float8Linear",
    "Float8LinearConfig",
    "Float8LinearRecipeName",
    "Float8TrainingOpConfig",
    "Float8TrainingRecipe",
    "Float8TrainingWeightWrapperTensor",
    "ScalingGranularity",
    "ScalingType",
    "_auto_filter_for_recipe",
    "_quantize_then_scaled_grouped_mm",
    "_to_fp8_rowwise_then_scaled_grouped_mm",
    "convert_to_float8_training",
    "precompute_float8_dynamic_scale_for_fsdp",
    "quantize_",
    "triton_fp8_colwise_3d_scale_and_cast",
    "triton_fp8_per_group_colwise_scales",
    "triton_fp8_per_group_colwise_scales_dual",
    "triton_fp8_per_group_rowwise_scales",
    "triton_fp8_rowwise_2d_scale_and_cast",
    "triton_fp8_rowwise_3d_transpose_rhs",
    "triton_fp8_rowwise_3d_transpose_rhs_fused_reduction",
]
