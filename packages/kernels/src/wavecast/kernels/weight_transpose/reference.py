"""Transposing weight quantization in plain torch on the CPU: the definition, compared byte for byte."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def quantize_weight_transpose_reference(weight: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
    """Quantize ``weight`` (E, K, N) with one scale per expert and k, and transpose it.

    Returns:
        values (E, N, K) of ``fmt.dtype`` with strides (N * K, 1, N); scale (E, K) fp32; inverse (E, K) fp32.
    """
    padded = torch.nn.functional.pad(finite_abs(weight), (0, 1))  # a zero in N: an empty row has amax 0
    scale = scale_from_amax(padded.amax(dim=2), fmt, power_of_two=power_of_two)
    values = quantize(weight, scale[:, :, None], fmt).contiguous()
    return Quantized(values.transpose(1, 2), scale, inverse_of(scale))
