"""FP8 quantization of expert weights in both layouts: checks, allocation and launches."""

from __future__ import annotations

from typing import NamedTuple

import torch

from wavecast.kernels.checks import check_weight
from wavecast.kernels.dual_layout.api import launch_batches
from wavecast.kernels.expert_weights.api import allocate_expert_weights, columns_as_rows
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.weight_layouts.reference import quantize_weight_layouts_reference
from wavecast.kernels.weight_transpose.api import allocate_weight_transpose


class WeightLayouts(NamedTuple):
    """Expert weights quantized for both directions of a layer.

    Attributes:
        columns: values (E, K, N) with K contiguous, scale and inverse (E, 1, N).
        transposed: values (E, N, K) with N contiguous, scale and inverse (E, K).
    """

    columns: Quantized
    transposed: Quantized


def allocate_weight_layouts(weight: torch.Tensor, dtype: torch.dtype) -> WeightLayouts:
    """The outputs of both operators."""
    return WeightLayouts(allocate_expert_weights(weight, dtype), allocate_weight_transpose(weight, dtype))


def weight_layouts_result(weight: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool) -> WeightLayouts:
    """The reference's result."""
    return WeightLayouts(*quantize_weight_layouts_reference(weight, fmt, power_of_two=power_of_two))


def launch_weights(weight: torch.Tensor, out: WeightLayouts, conversion: Conversion) -> None:
    """Launch the kernels of the dual layout on the weight's matrices; ``out`` as `allocate_weight_layouts` makes it."""
    columns, transposed = tuple(out.columns), tuple(out.transposed)
    launch_batches(columns_as_rows(weight), None, columns, transposed, conversion, batches=weight.shape[0])


WEIGHT_LAYOUTS = Quantizer(check=check_weight, allocate=allocate_weight_layouts, reference=weight_layouts_result)


def quantize_weight_layouts(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> WeightLayouts:
    """Quantize expert weights with one scale per expert and n, and, transposed, with one per expert and k.

    Deterministic, no synchronisation with the host. Bytes equal those of `quantize_expert_weights` and
    `quantize_weight_transpose`.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the native one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        ``columns``: values (E, K, N) with the strides of the weight, scale and inverse (E, 1, N). ``transposed``:
        values (E, N, K) with strides (N * K, 1, N), scale and inverse (E, K).

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return WEIGHT_LAYOUTS.run(launch_weights, weight, format=format, power_of_two=power_of_two)
