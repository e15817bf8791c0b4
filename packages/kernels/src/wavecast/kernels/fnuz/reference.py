"""The wrong-maximum experiment in plain torch on the CPU, and the measure of its damage."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import E4M3FNUZ, Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.reference_ops import EPS, finite_abs, floor_to_power_of_two, inverse_of

ROUNDING = 1 + 2.0**-22
"""How far ``amax * (maximum / amax)`` may lie above ``maximum``: the quotient and the product are rounded to fp32."""


def quantize_fnuz_reference(
    x: torch.Tensor, fmt: Fp8Format = E4M3FNUZ, *, maximum: float, power_of_two: bool, saturating: bool = True
) -> Quantized:
    """Quantize each row of ``x`` (M, K) with scale and clamp made for ``maximum``, whatever the format's own is.

    Args:
        x: the input.
        fmt: the format of the result.
        maximum: what the amax is mapped to.
        power_of_two: round each scale down to a power of two.
        saturating: whether the conversion turns what it cannot hold into +-fmt.max (as compiled Triton code on
            gfx942 does) or into NaN (as an unguarded conversion does).

    Returns:
        values (M, K) of ``fmt.dtype``; scale (M, 1) fp32; inverse (M, 1) fp32.
    """
    amax = torch.nn.functional.pad(finite_abs(x), (0, 1)).amax(dim=1, keepdim=True)
    floor = torch.maximum(amax, torch.full_like(amax, EPS))
    scale = torch.full_like(floor, maximum) / floor
    if power_of_two:
        scale = floor_to_power_of_two(scale)
    y = (x.to(torch.float32) * scale).clamp(-maximum, maximum)
    if saturating:
        y = y.clamp(-fmt.max, fmt.max)
    return Quantized(y.to(fmt.dtype), scale, inverse_of(scale))


def damage_fractions(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> tuple[float, float]:
    """Fractions of the finite inputs that came out clipped, and NaN.

    Clipped is a finite input whose scaled magnitude exceeds the largest value of e4m3fnuz (by more than the rounding of
    the scale) and that was stored as that value.
    """
    decoded = values.to(torch.float32)
    finite = torch.isfinite(x.to(torch.float32))
    scaled = (x.to(torch.float32) * scale).abs()
    clipped = finite & (decoded.abs() == E4M3FNUZ.max) & (scaled > E4M3FNUZ.max * ROUNDING)
    invalid = finite & decoded.isnan()
    count = max(int(finite.sum()), 1)
    return int(clipped.sum()) / count, int(invalid.sum()) / count
