"""The part of 2/π that the reduction of a large angle needs: what sine and cosine in double precision begin with.

The bits are computed, not tabulated. As the ISA text has it, a segment of 53 bits begins where the angle's exponent
says. LLVM, which folds the instruction after comparing with GPUs, takes 1,184 bits of 2/π, gives 0 for a segment that
does not lie within them, and quiets a NaN.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F64, I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import is_nan, power_of_two, quieted, raw_bits
from wavecast.simulator.execute.registry import vector

_WORDS = 37
_SEGMENT = 53
# Exponent fields: up to the first one every angle takes the same bits; from the second on the result is scaled up, so
# that it is not subnormal.
_FIRST_EXPONENT, _SCALED_EXPONENT, _SCALE = 1077, 1968, 128


def two_over_pi(words: int) -> list[int]:
    """The first 32-bit words of the fraction of 2/π."""
    bits = 32 * words + 64
    one = 1 << bits

    def inverse_tangent(n: int) -> int:
        """arctan(1/n), by its series."""
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    # Machin's formula.
    pi = 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
    fraction = (2 * one * one // pi) >> 64
    return [fraction >> 32 * (words - 1 - index) & 0xFFFFFFFF for index in range(words)]


@vector("v_trig_preop_f64", "f64", "f64 i32")
def _(e: Emitter, angle: ir.Value, segment: ir.Value) -> ir.Value:
    bits = raw_bits(e, angle)
    exponent = e.convert(e.b.and_(e.b.lshr(bits, e.like(bits, 52)), e.like(bits, 0x7FF)), I32)
    beyond = e.intrinsic(
        "llvm.smax", exponent.type, [e.b.sub(exponent, e.like(exponent, _FIRST_EXPONENT)), e.like(exponent, 0)]
    )
    first = e.b.mul(e.b.and_(segment, e.like(segment, 31)), e.like(segment, _SEGMENT))
    shift = e.b.add(first, beyond)
    index = e.b.lshr(shift, e.like(shift, 5))
    words = two_over_pi(_WORDS)
    high = ir.Constant(lanes_of(I64), [0] * segment.type.count)
    low = e.like(shift, 0)
    for number in range(_WORDS - 2):
        here = e.b.icmp_unsigned("==", index, e.like(index, number))
        high = e.select(here, e.like(high, words[number] << 32 | words[number + 1]), high)
        low = e.select(here, e.like(low, words[number + 2]), low)
    within = e.convert(e.b.and_(shift, e.like(shift, 31)), I64)
    # Two shifts, because one by 32 may be one by the whole width.
    filled = e.b.lshr(e.b.lshr(e.convert(low, I64), e.like(high, 1)), e.b.sub(e.like(high, 31), within))
    top = e.b.lshr(e.b.or_(e.b.shl(high, within), filled), e.like(high, 64 - _SEGMENT))
    value = e.b.uitofp(top, lanes_of(F64))
    scaled = e.b.icmp_unsigned(">=", exponent, e.like(exponent, _SCALED_EXPONENT))
    scale = e.b.sub(e.select(scaled, e.like(shift, _SCALE - _SEGMENT), e.like(shift, -_SEGMENT)), shift)
    # A power below the normal ones takes two steps, of which the first is exact; what is beyond both is a power of 0.
    limit = e.intrinsic("llvm.smax", scale.type, [scale, e.like(scale, -900)])
    rest = e.intrinsic("llvm.smax", scale.type, [e.b.sub(scale, limit), e.like(scale, -900)])
    partial = e.b.fmul(value, power_of_two(e, e.convert(limit, I64, signed=True)))
    result = e.b.fmul(partial, power_of_two(e, e.convert(rest, I64, signed=True)))
    return e.select(is_nan(e, angle), quieted(e, angle), result)
