"""Quantized operands of the GEMMs of a layer: what a recipe makes of an activation, a gradient or a weight.

In a GEMM both operands have the summed dimension contiguous. So an activation or gradient (tokens, features) is needed
row-major where features are summed over and column-major where tokens are; a weight (E, K, N) with K contiguous in the
forward pass, and with N contiguous for the gradient of the input.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from wavecast.kernels import ops
from wavecast.kernels.training.recipe import Recipe


class Operand(NamedTuple):
    """One operand of a GEMM: FP8 values, and fp32 inverse scales in a shape that the GEMM takes, or (), one for all."""

    values: torch.Tensor
    inverse: torch.Tensor


class Quantization(NamedTuple):
    """How operands are quantized.

    Attributes:
        recipe: which scales.
        format: name of the FP8 format.
        power_of_two: round scales down to powers of two.
    """

    recipe: Recipe
    format: str
    power_of_two: bool


def quantize_tokens(
    x: torch.Tensor, offs: torch.Tensor | None, how: Quantization, *, rows: bool, columns: bool
) -> tuple[Operand | None, Operand | None]:
    """Quantize an activation or gradient in the layouts that are needed, by one operator for both.

    Args:
        x: (M, K) bf16, fp16 or fp32; copied if its rows are not contiguous.
        offs: (G,) int32 end offsets of groups of rows; used where ROWWISE wants columns, None elsewhere.
        how: see `Quantization`.
        rows: whether the first result is wanted.
        columns: whether the second is.

    Returns:
        row-major (M, K) with (M, 1) inverse scales, and column-major (M, K) with (G, K) inverse scales; either is None
        if it is not wanted. With TENSORWISE the inverse is () and the second a transposed copy of the first's bytes.
    """
    if not (rows or columns):
        return None, None
    x = rows_contiguous(x)
    options = {"format": how.format, "power_of_two": how.power_of_two}
    if how.recipe is Recipe.TENSORWISE:
        values, _, inverse = ops.quantize_tensorwise(x, **options)
        return (
            Operand(values, inverse) if rows else None,
            Operand(ops.copy_transposed(values).t(), inverse) if columns else None,
        )
    if not columns:
        values, _, inverse = ops.quantize_rowwise(x, **options)
        return Operand(values, inverse), None
    assert offs is not None
    if not rows:
        values, _, inverse = ops.colwise_per_group(x, offs, **options)
        return None, Operand(values, inverse)
    values, _, inverse, column_values, _, column_inverse = ops.quantize_dual_layout(x, offs, **options)
    return Operand(values, inverse), Operand(column_values, column_inverse)


def quantize_weight(weight: torch.Tensor, how: Quantization, *, transposed: bool) -> tuple[Operand, Operand | None]:
    """Quantize a weight for the forward pass and, if it is wanted, for the gradient of the input.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous.
        how: see `Quantization`.
        transposed: whether the second result is wanted.

    Returns:
        (E, K, N) with K contiguous and (E, 1, N) inverse scales, and (E, N, K) with N contiguous and (E, K) inverse
        scales, or None. With TENSORWISE the inverse is () and the second a transposed copy of the first's bytes.
    """
    options = {"format": how.format, "power_of_two": how.power_of_two}
    if how.recipe is Recipe.TENSORWISE:
        values, _, inverse = ops.quantize_tensorwise(weight, **options)
        return (
            Operand(values, inverse),
            Operand(ops.copy_transposed(values.transpose(1, 2)).transpose(1, 2), inverse) if transposed else None,
        )
    if not transposed:
        values, _, inverse = ops.quantize_expert_weights(weight, **options)
        return Operand(values, inverse), None
    values, _, inverse, transposed_values, _, transposed_inverse = ops.quantize_weight_layouts(weight, **options)
    return Operand(values, inverse), Operand(transposed_values, transposed_inverse)


def rows_contiguous(x: torch.Tensor) -> torch.Tensor:
    """``x`` (M, K) itself if its rows are contiguous and do not overlap, else a contiguous copy."""
    return x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous()


def autocast(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` in the dtype of an active autocast region of its device, as `torch.nn.Linear` takes it."""
    device_type = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(device_type)) if torch.is_autocast_enabled(device_type) else tensor
