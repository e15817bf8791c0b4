"""The numerics policy in plain torch on the CPU: the arithmetic that `_device_helpers` states for the device.

Divisions are tensor by tensor: torch computes ``scalar / tensor`` as a reciprocal times a scalar, which is not the
correctly rounded quotient. Values are clamped before a cast, since torch's FP8 casts do not agree on overflow.
"""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format

EPS = 1e-12
"""Smallest amax that a scale is computed from: keeps the scale of an all-zero or tiny group finite."""

_EXPONENT_MASK = 0x7F800000


def finite_abs(x: torch.Tensor) -> torch.Tensor:
    """|x| as fp32 where ``x`` is finite, else 0."""
    magnitude = x.to(torch.float32).abs()
    return torch.where(magnitude < float("inf"), magnitude, torch.zeros_like(magnitude))


def floor_to_power_of_two(x: torch.Tensor) -> torch.Tensor:
    """Largest power of two <= ``x``, for positive normal fp32 ``x``."""
    return (x.view(torch.int32) & _EXPONENT_MASK).view(torch.float32)


def scale_from_amax(amax: torch.Tensor, fmt: Fp8Format, *, power_of_two: bool) -> torch.Tensor:
    """fp32 ``fmt.max / max(amax, EPS)``, optionally rounded down to a power of two."""
    floor = torch.maximum(amax, torch.full_like(amax, EPS))
    scale = torch.full_like(floor, fmt.max) / floor
    return floor_to_power_of_two(scale) if power_of_two else scale


def inverse_of(scale: torch.Tensor) -> torch.Tensor:
    """fp32 ``1 / scale``, correctly rounded."""
    return torch.ones_like(scale) / scale


def quantize(x: torch.Tensor, scale: torch.Tensor, fmt: Fp8Format) -> torch.Tensor:
    """``cast(clamp(x * scale))`` in fp32, round to nearest even; NaN stays NaN, +-Inf saturates."""
    y = x.to(torch.float32) * scale
    return y.clamp(-fmt.max, fmt.max).to(fmt.dtype)
