"""Transposing FP8 quantization of expert weights: checks, allocation and launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
import triton.language as tl

from wavecast.kernels.checks import check_fits_int32, check_tensor
from wavecast.kernels.device import Path, launch_device, route
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.weight_transpose.baseline import launch_atomic
from wavecast.kernels.weight_transpose.kernel import transpose_strip_kernel
from wavecast.kernels.weight_transpose.plan import plan_weight_transpose
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

_KEYS = {torch.bfloat16: tl.int16, torch.float16: tl.int16, torch.float32: tl.int32}
"""Integer type of a value's magnitude key, as wide as the value."""


class TransposedWeight(NamedTuple):
    """A quantized and transposed (E, K, N) weight.

    Attributes:
        values: (E, N, K) FP8 with strides (N * K, 1, N): N is contiguous in memory.
        scale: (E, K) fp32, the factor that was multiplied in.
        inverse: (E, K) fp32, 1 / scale.
    """

    values: torch.Tensor
    scale: torch.Tensor
    inverse: torch.Tensor


class TransposeLaunch(Protocol):
    """Fills allocated outputs from a checked weight with at least one scale."""

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


def check_column_major(name: str, weight: torch.Tensor) -> None:
    """Check that a (E, K, N) weight is K-contiguous with strides (K * N, 1, K), sizes of 1 aside.

    Raises:
        ValueError: another layout.
    """
    _, k, n = weight.shape
    wanted = (k * n, 1, k)
    for size, given, want in zip(weight.shape, weight.stride(), wanted, strict=True):
        if size > 1 and given != want and weight.numel():
            raise ValueError(
                f"{name} has strides {weight.stride()} for shape {tuple(weight.shape)}; wanted are {wanted}, K "
                "contiguous; call .transpose(1, 2).contiguous().transpose(1, 2)"
            )


def launch_strips(
    weight: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    arch: str | None,
) -> None:
    """The one-launch form on allocated outputs; see `TransposedWeight` for shapes."""
    experts, k, n = weight.shape
    plan = plan_weight_transpose(experts, k, n, dtype=weight.dtype, arch=arch)
    packed = plan.pack == 4
    words = values.transpose(1, 2).view(torch.int32 if packed else torch.uint8)
    transpose_strip_kernel[(plan.programs,)](
        weight, words, scale, inverse, k, n, plan.programs,
        FP8=fmt.triton_dtype, FP8_MAX=fmt.max, EPS=EPS, POWER_OF_TWO=power_of_two,
        WORD=tl.int32 if packed else tl.uint8,
        KEY=_KEYS[weight.dtype],
        BLOCK_N=plan.block_n, BLOCK_K=plan.block_k,
        RESIDENT_BLOCKS=plan.resident_blocks, STREAMED=plan.streamed, PACK=plan.pack,
        SHARERS=plan.sharers, XCDS=plan.xcds, num_warps=plan.num_warps, num_stages=1,
    )  # fmt: skip


def _quantize(
    weight: torch.Tensor, launch: TransposeLaunch, *, fmt: Fp8Format | None, power_of_two: bool
) -> TransposedWeight:
    check_tensor("weight", weight, ndim=3)
    check_column_major("weight", weight)
    experts, k, n = weight.shape
    check_fits_int32("K * N of one expert", k * n)
    way = route(weight, format=fmt)
    if way.path is Path.REFERENCE:
        reference = quantize_weight_transpose_reference(weight, way.format, power_of_two=power_of_two)
        return TransposedWeight(*reference)
    out = TransposedWeight(
        values=torch.empty((experts, k, n), dtype=way.format.dtype, device=weight.device).transpose(1, 2),
        scale=torch.empty((experts, k), dtype=torch.float32, device=weight.device),
        inverse=torch.empty((experts, k), dtype=torch.float32, device=weight.device),
    )
    if experts and k:
        with launch_device(weight):
            launch(weight, *out, fmt=way.format, power_of_two=power_of_two, arch=way.arch)
    return out


def quantize_weight_transpose(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> TransposedWeight:
    """Quantize expert weights with one scale per expert and k, and transpose them in memory, in one launch.

    Deterministic: no atomics. Reads each value once for N up to 5,120 (bf16; 2,560 for fp32); of a longer N, the rows
    beyond are read twice, the second time from the caches; see `TransposePlan.read_bytes`.
    Loads are wide where K is a multiple of 16, stores where N is; other sizes are right, but slower.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values, scale and inverse; see `TransposedWeight`. NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return _quantize(weight, launch_strips, fmt=format, power_of_two=power_of_two)


def atomic_acq_rel(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> TransposedWeight:
    """The same result by atomics with Triton's default order; arguments as `quantize_weight_transpose`."""
    launch = partial(launch_atomic, semantics="acq_rel")
    return _quantize(weight, launch, fmt=format, power_of_two=power_of_two)


def atomic_relaxed(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> TransposedWeight:
    """The same result by relaxed atomics; arguments as `quantize_weight_transpose`."""
    launch = partial(launch_atomic, semantics="relaxed")
    return _quantize(weight, launch, fmt=format, power_of_two=power_of_two)


VARIANTS: dict[str, Callable[..., TransposedWeight]] = {
    "atomic-acq-rel": atomic_acq_rel,
    "atomic-relaxed": atomic_relaxed,
    "wavecast": quantize_weight_transpose,
}
"""Catalogue name to operator, the baseline first; all take the arguments of `quantize_weight_transpose`."""
