"""The wrong-maximum experiment: checks, allocation and launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

import torch

from wavecast.kernels.fnuz.reference import damage_fractions, quantize_fnuz_reference
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.rowwise.api import ROWWISE, launch_fused


@dataclass(frozen=True, slots=True)
class Damage:
    """What a quantization did to the finite values of its input.

    Attributes:
        clipped_fraction: share that was cut to the largest value of the format, in 0..1.
        nan_fraction: share that became NaN, in 0..1.
    """

    clipped_fraction: float
    nan_fraction: float


def quantize_fnuz(x: torch.Tensor, *, maximum: float, power_of_two: bool = False) -> Quantized:
    """Quantize each row of a matrix to e4m3fnuz, scaling and clamping to a maximum that the caller names.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        maximum: 240 is right; a larger one loses the largest values of each row.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (M, K) e4m3fnuz, scale and inverse (M, 1).

    Raises:
        ValueError: wrong rank, dtype, layout or device; ``maximum`` is not positive and finite.
    """
    if not (maximum > 0 and isfinite(maximum)):
        raise ValueError(f"maximum is {maximum}; a positive finite value is wanted, {E4M3FNUZ.max} for {E4M3FNUZ.name}")

    def launch(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
        launch_fused(x, out, replace(conversion, maximum=maximum))

    to_maximum = replace(ROWWISE, reference=partial(quantize_fnuz_reference, maximum=maximum))
    return to_maximum.run(launch, x, format=E4M3FNUZ, power_of_two=power_of_two)


def damage(x: torch.Tensor, quantized: Quantized) -> Damage:
    """Compare a result with its input (both are brought to the CPU)."""
    clipped, invalid = damage_fractions(x.cpu(), quantized.values.cpu(), quantized.scale.cpu())
    return Damage(clipped_fraction=clipped, nan_fraction=invalid)
