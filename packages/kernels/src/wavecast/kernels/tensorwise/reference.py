"""Tensor-wise quantization in plain torch on the CPU: the definition that the kernels are compared with."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax
from wavecast.kernels.tensorwise.layout import values_like


def quantize_tensorwise_reference(x: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> Quantized:
    """Quantize ``x`` with one scale.

    Returns:
        values of ``fmt.dtype`` in the shape and order of ``x``, without gaps; scale and inverse, both () fp32.
    """
    zero = torch.zeros(1, device=x.device)  # a tensor of no values has amax 0
    padded = torch.cat([finite_abs(x).reshape(-1), zero])
    scale = scale_from_amax(padded.amax(), fmt, power_of_two=power_of_two)
    values = values_like(x, fmt.dtype)
    values.copy_(quantize(x, scale, fmt))
    return Quantized(values, scale, inverse_of(scale))
