"""torchao's FP8 quantizers for training with experts: its names, argument orders, shapes and defaults, our kernels.

What is the same: the layouts of the values, the shapes of the scales (per-group ones flat, ``column + N * group``), and
that the scale is the factor multiplied in, not its reciprocal. The bytes of the values and the scales are the same for
all finite bf16 and fp16 inputs: torchao divides in fp64 and rounds to fp32, we divide in fp32, and the two quotients
are equal for every fp32 amax, since fp64 has more than twice the digits of fp32. For fp32 inputs with scales rounded to
powers of two they are the same but for an amax within about 3e-6 of ``max / 2**k``, where a logarithm rounds to the
neighbouring power; ours is rounded down exactly.

What differs, in every function here:

* NaN stays NaN; torchao's clamp makes it -max.
* An infinity becomes +-max and does not enter the amax; in torchao the scale of its row, column or group becomes 0.
* Rows (columns) from ``offsets[-1]`` on are zero bytes; torchao leaves them unwritten.
* Groups may have any sizes; torchao's one-pass column-wise kernel skips rows of a group that is longer than its tile.
* Nothing is autotuned: a new number of tokens costs no search.
* Tensors must have the layout that the docstring names; an error says what to call. torchao follows any strides.
* ``output_dtype`` is obeyed as in torchao, whose default is e4m3fn: on gfx942 pass ``torch.float8_e4m3fnuz``.
"""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group import colwise_per_group
from wavecast.kernels.expert_weights import quantize_expert_weights
from wavecast.kernels.formats import format_of
from wavecast.kernels.rowwise import quantize_rowwise
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.weight_transpose import quantize_weight_transpose
from wavecast.kernels.wgrad_copies import wgrad_operands

Pair = tuple[torch.Tensor, torch.Tensor]


def triton_fp8_rowwise_2d_scale_and_cast(
    hp_tensor: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """Quantize each row of (M, K); see `quantize_rowwise`.

    Args:
        hp_tensor: (M, K) bf16, fp16 or fp32; rows contiguous.
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values (M, K), row-major; scale (M, 1), the factor multiplied in.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `quantize_rowwise`.
    """
    done = quantize_rowwise(hp_tensor, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2)
    return done.values, done.scale


def triton_fp8_colwise_3d_scale_and_cast(
    hp_tensor: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """Quantize expert weights with a scale per expert and n; see `quantize_expert_weights`.

    Args:
        hp_tensor: (E, K, N) with K contiguous, strides (K * N, 1, K).
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values (E, K, N), strides as given; scale (E, 1, N), the factor multiplied in.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `quantize_expert_weights`.
    """
    done = quantize_expert_weights(hp_tensor, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2)
    return done.values, done.scale


def triton_fp8_rowwise_3d_transpose_rhs(
    hp_tensor: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """Quantize expert weights with a scale per expert and k, and transpose; see `quantize_weight_transpose`.

    One launch without atomics, where torchao takes a fill and two kernels.

    Args:
        hp_tensor: (E, K, N) with K contiguous, strides (K * N, 1, K).
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values (E, N, K) with strides (N * K, 1, N); scale (E, K), the factor multiplied in.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `quantize_weight_transpose`.
    """
    done = quantize_weight_transpose(hp_tensor, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2)
    return done.values, done.scale


def triton_fp8_rowwise_3d_transpose_rhs_fused_reduction(
    hp_tensor: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """`triton_fp8_rowwise_3d_transpose_rhs`: torchao has a second kernel with the same result, we have one kernel."""
    return triton_fp8_rowwise_3d_transpose_rhs(hp_tensor, output_dtype, round_scales_to_power_of_2)


def triton_fp8_per_group_rowwise_scales(
    hp_tensor: torch.Tensor,
    offsets: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """Quantize each row of each group of columns; see `quantize_rowwise_per_group`.

    torchao's kernel stores values of different rows at the same addresses; this one gives what its documentation says.

    Args:
        hp_tensor: (M, K); rows contiguous.
        offsets: (G,) int32 end offsets of the groups along K.
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values (M, K), row-major; scale (M * G,), that of row m in group g at ``m + M * g``, the factor multiplied in.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `quantize_rowwise_per_group`.
    """
    done = quantize_rowwise_per_group(
        hp_tensor, offsets, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2
    )
    return done.values, done.scale.reshape(-1)


def triton_fp8_per_group_colwise_scales(
    hp_tensor: torch.Tensor,
    offsets: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> Pair:
    """Quantize each column of each group of rows; see `colwise_per_group`.

    Args:
        hp_tensor: (K, N); rows contiguous.
        offsets: (G,) int32 end offsets of the groups along K.
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values (K, N), column-major, strides (1, K); scale (N * G,), that of column n in group g at ``n + N * g``, the
        factor multiplied in.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `colwise_per_group`.
    """
    done = colwise_per_group(
        hp_tensor, offsets, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2
    )
    return done.values, done.scale.reshape(-1)


def triton_fp8_per_group_colwise_scales_dual(
    hp_tensor_1: torch.Tensor,
    hp_tensor_2: torch.Tensor,
    offsets: torch.Tensor,
    output_dtype: torch.dtype = torch.float8_e4m3fn,
    round_scales_to_power_of_2: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """`triton_fp8_per_group_colwise_scales` of two matrices with the same groups; see `wgrad_operands`.

    Args:
        hp_tensor_1: (K, N1); rows contiguous.
        hp_tensor_2: (K, N2); rows contiguous.
        offsets: (G,) int32 end offsets of the groups along K.
        output_dtype: FP8 dtype.
        round_scales_to_power_of_2: round scales down to powers of two.

    Returns:
        values and scale of the first, then values and scale of the second.

    Raises:
        ValueError: ``output_dtype`` is not FP8; else as `wgrad_operands`.
    """
    one, two = wgrad_operands(
        hp_tensor_1, hp_tensor_2, offsets, format=format_of(output_dtype), power_of_two=round_scales_to_power_of_2
    )
    return one.values, one.scale.reshape(-1), two.values, two.scale.reshape(-1)
