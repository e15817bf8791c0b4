# ruff: noqa: SIM108 - device code takes tensors for which Triton has no useful annotation,
# and branches on constexprs are chosen when compiling, which early returns and conditional expressions are not.
"""Device functions that every quantizer kernel shares, so that the numerics policy is written once.

The policy itself is described in ``docs/concepts/numerics.md``; `wavecast.kernels.reference_ops` is the same
arithmetic in plain torch.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.target_info import is_cuda

from wavecast.kernels.formats import FORMATS


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
    """clamp(x * scale) to +-FP8_MAX in fp32, with NaN kept: Triton's plain clamp would turn NaN into -FP8_MAX.

    CUDA devices have a minimum and a maximum that keep NaN; on CDNA3 each would be three instructions, where the plain
    ones of a clamp are one together.
    """
    y = x.to(tl.float32) * scale
    if is_cuda():
        keep: tl.constexpr = tl.PropagateNan.ALL
        y = tl.minimum(tl.maximum(y, -FP8_MAX, propagate_nan=keep), FP8_MAX, propagate_nan=keep)
    else:
        y = tl.where(y == y, tl.minimum(tl.maximum(y, -FP8_MAX), FP8_MAX), y)
    return y


@triton.constexpr_function
def cast_saturates(FP8_MAX, dtype):
    """Whether the cast to dtype itself clamps to +-FP8_MAX and keeps NaN, as CUDA's conversion instructions do."""
    return is_cuda() and any(fmt.triton_dtype == dtype and fmt.max == FP8_MAX for fmt in FORMATS)


@triton.jit
def quantize(x, scale, FP8_MAX: tl.constexpr, dtype: tl.constexpr):
    """cast(clamp(x * scale)), with the clamp left to the cast where that does it."""
    if cast_saturates(FP8_MAX, dtype):
        y = x.to(tl.float32) * scale
    else:
        y = scale_and_saturate(x, scale, FP8_MAX)
    return y.to(dtype)


@triton.jit
def larger(a, b):
    """Combine function of a maximum that keeps the element type (`tl.max` widens 16-bit integers)."""
    return tl.maximum(a, b)


@triton.jit
def zero_key(dtype: tl.constexpr):
    """The `magnitude_key` of 0 for an input dtype: the smallest key that a finite value has."""
    if dtype == tl.float32:
        key: tl.constexpr = 0x00800000
    elif dtype == tl.bfloat16:
        key: tl.constexpr = 0x0080
    else:
        key: tl.constexpr = 0x0400
    return key


@triton.jit
def magnitude_key(x):
    """Signed integer, as wide as x, that orders |x| over the finite values and is negative for Inf and NaN.

    The bits of |x| plus one unit of the exponent: only the all-ones exponent overflows into the sign. A maximum of
    keys is a maximum of finite magnitudes, without a comparison, and without an fp32 copy of x that the compiler
    would keep in registers until x is scaled.
    """
    if x.dtype == tl.float32:
        bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    else:
        bits = x.to(tl.int16, bitcast=True) & 0x7FFF
    # Back to the width of x: Triton 3.6 adds in 32 bits, where nothing overflows.
    return (bits + zero_key(x.dtype)).to(bits.dtype)


@triton.jit
def magnitude_of_key(key, dtype: tl.constexpr):
    """The fp32 magnitude behind an int32 `magnitude_key` of a value of type dtype; 0 for the keys of Inf and NaN."""
    bits = tl.maximum(key - zero_key(dtype), 0)
    if dtype == tl.float32:
        magnitude = bits.to(tl.float32, bitcast=True)
    else:
        magnitude = bits.to(tl.int16).to(dtype, bitcast=True).to(tl.float32)
    return magnitude


@triton.jit
def inside(index, start, end):
    """start <= index < end for int32 values with start <= end, as one unsigned comparison."""
    return (index - start).to(tl.uint32, bitcast=True) < (end - start).to(tl.uint32, bitcast=True)


@triton.jit
def issued_here(x, ON_GFX: tl.constexpr):
    """x, as a value that the compiler knows nothing of and cannot make earlier than the memory accesses before it.

    An empty volatile assembly statement: no instruction, but one register a value (or pair of 16-bit values) that is
    defined here. Schedulers that would start the arithmetic of many pieces at once, for parallelism within a wave, so
    finish one before the next, and need the registers of one. x is spread over lanes; on other targets it is returned
    as it is.
    """
    if ON_GFX:
        x = tl.inline_asm_elementwise(
            "", "=v,0", [x], dtype=x.dtype, is_pure=False, pack=32 // x.dtype.primitive_bitwidth
        )
    return x


@triton.jit
def issued_here_scalar(x, ON_GFX: tl.constexpr):
    """`issued_here` for an int32 that is the same in all lanes and is to stay in a scalar register."""
    if ON_GFX:
        x = tl.inline_asm_elementwise("", "=s,0", [x], dtype=x.dtype, is_pure=False, pack=1)
    return x
