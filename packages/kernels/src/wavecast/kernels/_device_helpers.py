# ruff: noqa: ANN001, ANN202 - device code takes tensors for which Triton has no useful annotation.
"""Device functions that every quantizer kernel shares, so that the numerics policy is written once.

The policy itself is described in ``docs/concepts/numerics.md``; `wavecast.kernels.reference_ops` is the same
arithmetic in plain torch.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def finite_abs(x):
    """|x| in fp32 where x is finite, else 0: what may enter an amax. NaN fails the comparison, as Inf does."""
    magnitude = tl.abs(x.to(tl.float32))
    return tl.where(magnitude < float("inf"), magnitude, 0.0)


@triton.jit
def floor_to_power_of_two(x):
    """Largest power of two that is <= x, for positive normal fp32 x: clears the mantissa bits.

    Not ``exp2(floor(log2(x)))``: a hardware log2 that is one ulp low at an exact power of two would halve the result.
    """
    return (x.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)


@triton.jit
def scale_from_amax(amax, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr):
    """FP8_MAX / max(amax, EPS), correctly rounded, optionally rounded down to a power of two. Always finite, > 0."""
    floor = tl.maximum(amax, EPS)
    scale = tl.div_rn(tl.full(floor.shape, FP8_MAX, tl.float32), floor)
    if POWER_OF_TWO:
        scale = floor_to_power_of_two(scale)
    return scale


@triton.jit
def inverse_of(scale):
    """1 / scale, correctly rounded: the factor that a GEMM multiplies its result by."""
    return tl.div_rn(tl.full(scale.shape, 1.0, tl.float32), scale)


@triton.jit
def scale_and_saturate(x, scale, FP8_MAX: tl.constexpr):
    """clamp(x * scale) to +-FP8_MAX in fp32, with NaN kept: Triton's plain clamp would turn NaN into -FP8_MAX."""
    y = x.to(tl.float32) * scale
    clamped = tl.minimum(tl.maximum(y, -FP8_MAX), FP8_MAX)
    return tl.where(y == y, clamped, y)
