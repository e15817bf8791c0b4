"""Row-wise FP8 quantization: checks, allocation and launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch

from wavecast.kernels.checks import check_row_major, check_tensor
from wavecast.kernels.device import Path, launch_device, route
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.rowwise.baseline import launch_separate_kernels
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel
from wavecast.kernels.rowwise.plan import RowwisePlan, plan_rowwise
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference


class RowwiseQuantized(NamedTuple):
    """A quantized (M, K) matrix.

    Attributes:
        values: (M, K) FP8, row-major.
        scale: (M, 1) fp32, the factor that was multiplied in.
        inverse: (M, 1) fp32, 1 / scale, what a GEMM multiplies its result by.
    """

    values: torch.Tensor
    scale: torch.Tensor
    inverse: torch.Tensor


class RowwiseLaunch(Protocol):
    """Fills allocated outputs from a checked input with at least one row."""

    def __call__(
        self,
        x: torch.Tensor,
        values: torch.Tensor,
        scale: torch.Tensor,
        inverse: torch.Tensor,
        *,
        fmt: Fp8Format,
        power_of_two: bool,
        arch: str | None,
    ) -> None: ...


def launch_plan(
    plan: RowwisePlan,
    x: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    maximum: float,
    power_of_two: bool,
) -> None:
    """Launch the fused kernel as planned, on allocated outputs.

    Args:
        plan: made for the shape of ``x``.
        x: (M, K), rows contiguous, any row stride; M >= 1.
        values: M * K FP8 values, contiguous.
        scale, inverse: M fp32 values each, contiguous.
        maximum: what the scale maps the amax to, and the clamp.
        power_of_two: round scales down to a power of two.
    """
    m, k = x.shape
    grid = (plan.programs,)
    if plan.resident:
        rowwise_resident_kernel[grid](
            x, values, scale, inverse, m, k, x.stride(0),
            FP8_MAX=maximum, EPS=EPS, POWER_OF_TWO=power_of_two,
            BLOCK_M=plan.block_m, BLOCK_K=plan.block_k, VECTOR=plan.vector, num_warps=plan.num_warps,
        )  # fmt: skip
    else:
        rowwise_streaming_kernel[grid](
            x, values, scale, inverse, k, x.stride(0),
            FP8_MAX=maximum, EPS=EPS, POWER_OF_TWO=power_of_two,
            BLOCK_K=plan.block_k, VECTOR=plan.vector, num_warps=plan.num_warps,
        )  # fmt: skip


def launch_fused(
    x: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    arch: str | None,
) -> None:
    """The one-launch form on allocated outputs; see `RowwiseQuantized` for shapes."""
    plan = plan_rowwise(*x.shape, dtype=x.dtype, arch=arch)
    launch_plan(plan, x, values, scale, inverse, maximum=fmt.max, power_of_two=power_of_two)


def _quantize(x: torch.Tensor, launch: RowwiseLaunch, *, fmt: Fp8Format | None, power_of_two: bool) -> RowwiseQuantized:
    check_tensor("x", x, ndim=2)
    check_row_major("x", x)
    way = route(x, format=fmt)
    if way.path is Path.REFERENCE:
        return RowwiseQuantized(*quantize_rowwise_reference(x, way.format, power_of_two=power_of_two))
    m, k = x.shape
    out = RowwiseQuantized(
        values=torch.empty((m, k), dtype=way.format.dtype, device=x.device),
        scale=torch.empty((m, 1), dtype=torch.float32, device=x.device),
        inverse=torch.empty((m, 1), dtype=torch.float32, device=x.device),
    )
    if m:
        with launch_device(x):
            launch(x, *out, fmt=way.format, power_of_two=power_of_two, arch=way.arch)
    return out


def quantize_rowwise(
    x: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> RowwiseQuantized:
    """Quantize each row of a matrix with its own scale, in one launch.

    Reads each value once for rows of up to 65,536 values (32,768 on NVIDIA), twice beyond. Accesses are wide where K
    and the row stride are multiples of 16, and value by value where not.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values, scale and inverse; see `RowwiseQuantized`. NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout or device; no format known.
    """
    return _quantize(x, launch_fused, fmt=format, power_of_two=power_of_two)


def separate_kernels(
    x: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> RowwiseQuantized:
    """The same result through four launches and an fp32 intermediate; arguments as `quantize_rowwise`."""
    return _quantize(x, launch_separate_kernels, fmt=format, power_of_two=power_of_two)


VARIANTS: dict[str, Callable[..., RowwiseQuantized]] = {
    "separate-kernels": separate_kernels,
    "wavecast": quantize_rowwise,
}
"""Catalogue name to operator, the baseline first; all take the arguments of `quantize_rowwise`."""
