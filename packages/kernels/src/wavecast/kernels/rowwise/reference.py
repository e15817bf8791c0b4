"""Row-wise quantization in plain torch on the CPU: the definition that the kernels are compared with byte for byte."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def quantize_rowwise_reference(x: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
    """Quantize each row of ``x`` (M, K) with its own scale.

    Returns:
        values (M, K) of ``fmt.dtype``, row-major; scale (M, 1) fp32, the factor multiplied in; inverse (M, 1) fp32.
    """
    padded = torch.nn.functional.pad(finite_abs(x), (0, 1))  # a zero column: a row of no values has amax 0
    scale = scale_from_amax(padded.amax(dim=1, keepdim=True), fmt, power_of_two=power_of_two)
    return Quantized(quantize(x, scale, fmt).contiguous(), scale, inverse_of(scale))
