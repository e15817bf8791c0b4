"""FP8 quantization of expert weights: checks, allocation and launch."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import check_weight
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.rowwise.api import launch_fused


def columns_as_rows(weight: torch.Tensor) -> torch.Tensor:
    """A view of a K-contiguous (E, K, N) weight as (E * N, K): its columns are rows in memory."""
    experts, k, n = weight.shape
    return weight.transpose(1, 2).view(experts * n, k)


def allocate_expert_weights(weight: torch.Tensor, dtype: torch.dtype) -> Quantized:
    """Values in the weight's layout, and (E, 1, N) scales and inverses."""
    experts, k, n = weight.shape
    return Quantized(
        values=torch.empty((experts, n, k), dtype=dtype, device=weight.device).transpose(1, 2),
        scale=torch.empty((experts, 1, n), dtype=torch.float32, device=weight.device),
        inverse=torch.empty((experts, 1, n), dtype=torch.float32, device=weight.device),
    )


def launch_rows(weight: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Launch the row-wise kernel on the columns; ``out`` as `allocate_expert_weights` makes it."""
    launch_fused(columns_as_rows(weight), out, conversion)


EXPERT_WEIGHTS = Quantizer(
    check=check_weight, allocate=allocate_expert_weights, reference=quantize_expert_weights_reference
)


def quantize_expert_weights(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize expert weights with one scale per expert and n, in one launch, keeping their layout.

    Reads each value once for K up to 65,536 (32,768 on NVIDIA), twice beyond. Accesses are wide where K is a multiple
    of 16, and value by value where not.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (E, K, N) with the strides of the weight; scale and inverse (E, 1, N). NaN stays NaN, +-Inf saturates and
        does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return EXPERT_WEIGHTS.run(launch_rows, weight, format=format, power_of_two=power_of_two)
