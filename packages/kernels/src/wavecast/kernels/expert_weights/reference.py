"""Expert weight quantization in plain torch on the CPU: the definition, compared byte for byte."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def quantize_expert_weights_reference(weight: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
    """Quantize ``weight`` (E, K, N) with one scale per expert and n.

    Returns:
        values (E, K, N) of ``fmt.dtype`` with strides (K * N, 1, K); scale (E, 1, N) fp32; inverse (E, 1, N) fp32.
    """
    padded = torch.nn.functional.pad(finite_abs(weight), (0, 0, 0, 1))  # a zero in K: an empty column has amax 0
    scale = scale_from_amax(padded.amax(dim=1, keepdim=True), fmt, power_of_two=power_of_two)
    values = quantize(weight, scale, fmt)
    return Quantized(values.transpose(1, 2).contiguous().transpose(1, 2), scale, inverse_of(scale))
