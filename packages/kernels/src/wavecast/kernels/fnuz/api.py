"""The wrong-maximum experiment: checks, allocation and launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from wavecast.kernels.checks import check_row_major, check_tensor
from wavecast.kernels.device import Path, launch_device, route
from wavecast.kernels.fnuz.baseline import WRONG_MAXIMUM
from wavecast.kernels.fnuz.plan import plan_rowwise
from wavecast.kernels.fnuz.reference import damage_fractions, quantize_fnuz_reference
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.rowwise.api import RowwiseQuantized, launch_plan


@dataclass(frozen=True, slots=True)
class Damage:
    """What a quantization did to the finite values of its input.

    Attributes:
        clipped_fraction: share that was cut to the largest value of the format, in 0..1.
        nan_fraction: share that became NaN, in 0..1.
    """

    clipped_fraction: float
    nan_fraction: float


def quantize_fnuz(x: torch.Tensor, *, maximum: float, power_of_two: bool = False) -> RowwiseQuantized:
    """Quantize each row of a matrix to e4m3fnuz, scaling and clamping to a maximum that the caller names.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        maximum: 240 is right; a larger one loses the largest values of each row.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (M, K) e4m3fnuz, scale and inverse (M, 1).

    Raises:
        ValueError: wrong rank, dtype, layout or device; ``maximum`` is not positive.
    """
    check_tensor("x", x, ndim=2)
    check_row_major("x", x)
    if not maximum > 0:
        raise ValueError(f"maximum is {maximum}; a positive value is wanted, {E4M3FNUZ.max} for {E4M3FNUZ.name}")
    way = route(x, format=E4M3FNUZ)
    if way.path is Path.REFERENCE:
        return RowwiseQuantized(*quantize_fnuz_reference(x, maximum=maximum, power_of_two=power_of_two))
    m, k = x.shape
    out = RowwiseQuantized(
        values=torch.empty((m, k), dtype=E4M3FNUZ.dtype, device=x.device),
        scale=torch.empty((m, 1), dtype=torch.float32, device=x.device),
        inverse=torch.empty((m, 1), dtype=torch.float32, device=x.device),
    )
    if m:
        plan = plan_rowwise(m, k, dtype=x.dtype, arch=way.arch)
        with launch_device(x):
            launch_plan(plan, x, *out, maximum=maximum, power_of_two=power_of_two)
    return out


def max_448(x: torch.Tensor, *, power_of_two: bool = False) -> RowwiseQuantized:
    """The bug: the maximum of e4m3fn with e4m3fnuz values; arguments as `quantize_fnuz`."""
    return quantize_fnuz(x, maximum=WRONG_MAXIMUM, power_of_two=power_of_two)


def max_240(x: torch.Tensor, *, power_of_two: bool = False) -> RowwiseQuantized:
    """The fix: the maximum of the format itself; arguments as `quantize_fnuz`."""
    return quantize_fnuz(x, maximum=E4M3FNUZ.max, power_of_two=power_of_two)


def damage(x: torch.Tensor, quantized: RowwiseQuantized) -> Damage:
    """Compare a result with its input (both are brought to the CPU)."""
    clipped, invalid = damage_fractions(x.cpu(), quantized.values.cpu(), quantized.scale.cpu())
    return Damage(clipped_fraction=clipped, nan_fraction=invalid)


VARIANTS: dict[str, Callable[..., RowwiseQuantized]] = {
    "max-448": max_448,
    "max-240": max_240,
}
"""Catalogue name to operator, the baseline first; all take ``x`` and ``power_of_two``."""
