"""FP8 quantization of expert weights: checks, allocation and launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from wavecast.kernels.checks import check_fits_int32, check_tensor
from wavecast.kernels.device import Path, launch_device, route
from wavecast.kernels.expert_weights.baseline import launch_five_kernels, launch_two_pass
from wavecast.kernels.expert_weights.plan import plan_expert_weights
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.rowwise.api import launch_plan
from wavecast.kernels.weight_transpose.api import check_column_major


class ExpertWeights(NamedTuple):
    """A quantized (E, K, N) weight.

    Attributes:
        values: (E, K, N) FP8 with strides (K * N, 1, K): K is contiguous in memory, as in the input.
        scale: (E, 1, N) fp32, the factor that was multiplied in.
        inverse: (E, 1, N) fp32, 1 / scale.
    """

    values: torch.Tensor
    scale: torch.Tensor
    inverse: torch.Tensor


class ExpertWeightsLaunch(Protocol):
    """Fills allocated outputs from a checked weight with at least one column."""

    def __call__(
        self,
        weight: torch.Tensor,
        values: torch.Tensor,
        scale: torch.Tensor,
        inverse: torch.Tensor,
        *,
        fmt: Fp8Format,
        power_of_two: bool,
        arch: str | None,
    ) -> None: ...


def launch_rows(
    weight: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    arch: str | None,
) -> None:
    """The one-launch form on allocated outputs: the E * N columns are contiguous rows of K values in memory."""
    experts, k, n = weight.shape
    plan = plan_expert_weights(experts, k, n, dtype=weight.dtype, arch=arch)
    rows = weight.transpose(1, 2).view(experts * n, k)
    launch_plan(plan, rows, values, scale, inverse, maximum=fmt.max, power_of_two=power_of_two)


def _quantize(
    weight: torch.Tensor, launch: ExpertWeightsLaunch, *, fmt: Fp8Format | None, power_of_two: bool
) -> ExpertWeights:
    check_tensor("weight", weight, ndim=3)
    check_column_major("weight", weight)
    experts, k, n = weight.shape
    check_fits_int32("K * N of one expert", k * n)
    way = route(weight, format=fmt)
    if way.path is Path.REFERENCE:
        return ExpertWeights(*quantize_expert_weights_reference(weight, way.format, power_of_two=power_of_two))
    out = ExpertWeights(
        values=torch.empty((experts, n, k), dtype=way.format.dtype, device=weight.device).transpose(1, 2),
        scale=torch.empty((experts, 1, n), dtype=torch.float32, device=weight.device),
        inverse=torch.empty((experts, 1, n), dtype=torch.float32, device=weight.device),
    )
    if experts and n:
        with launch_device(weight):
            launch(weight, *out, fmt=way.format, power_of_two=power_of_two, arch=way.arch)
    return out


def quantize_expert_weights(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ExpertWeights:
    """Quantize expert weights with one scale per expert and n, in one launch, keeping their layout.

    Reads each value once for K up to 65,536 (32,768 on NVIDIA), twice beyond. Accesses are wide where K is a multiple
    of 16, and value by value where not.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values, scale and inverse; see `ExpertWeights`. NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return _quantize(weight, launch_rows, fmt=format, power_of_two=power_of_two)


def five_kernels(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ExpertWeights:
    """The same result through five launches and an fp32 copy; arguments as `quantize_expert_weights`."""
    return _quantize(weight, launch_five_kernels, fmt=format, power_of_two=power_of_two)


def fused(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ExpertWeights:
    """The same result in one launch that walks over K twice; arguments as `quantize_expert_weights`."""
    return _quantize(weight, launch_two_pass, fmt=format, power_of_two=power_of_two)


VARIANTS: dict[str, Callable[..., ExpertWeights]] = {
    "five-kernels": five_kernels,
    "fused": fused,
    "wavecast": quantize_expert_weights,
}
"""Catalogue name to operator, the baseline first; all take the arguments of `quantize_expert_weights`."""
