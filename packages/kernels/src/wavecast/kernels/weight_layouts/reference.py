"""Both layouts of expert weights in plain torch: the two references that exist, side by side."""

from __future__ import annotations

import torch

from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference


def quantize_weight_layouts_reference(
    weight: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool
) -> tuple[Quantized, Quantized]:
    """Quantize ``weight`` (E, K, N) with a scale per expert and n, and with one per expert and k.

    Returns:
        what `quantize_expert_weights_reference` and `quantize_weight_transpose_reference` return.
    """
    return (
        quantize_expert_weights_reference(weight, fmt, power_of_two=power_of_two),
        quantize_weight_transpose_reference(weight, fmt, power_of_two=power_of_two),
    )
