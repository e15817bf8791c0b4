"""The three steps that make a correctly rounded division out of a reciprocal and fused multiply-adds.

``v_div_scale`` moves operands out of the way of overflow and denormals and notes in a mask that it did, ``v_div_fmas``
undoes it after the last multiply-add, ``v_div_fixup`` puts in the special cases. Three points where the ISA text leaves
room are settled by what the sequence must give. A quotient and a reciprocal that are both denormal scale the
denominator down (up would overflow). ``v_div_fmas`` rounds once, after scaling by 2**±64 (2**±128 in double precision),
up if the third source is at least 2. ``v_div_fixup`` takes an infinite or NaN quotient of ordinary operands, which is
what the refinement makes of an overflow, for infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, F64, I1, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import is_nan, magnitude, quieted, rarely, raw_bits
from wavecast.simulator.execute.registry import vector
from wavecast.simulator.program.instruction import VCC


@dataclass(frozen=True, slots=True)
class _Format:
    """What the scaling steps need to know of a float format.

    Attributes:
        fraction: Stored fraction bits.
        width: All bits.
        scale: Exponent of the scaling factor.
        near_limit: Difference of the exponents from which the quotient may overflow.
        tiny: Biased exponent up to which a numerator is scaled up.
        underflow: Difference of the exponents below which the quotient is zero.
    """

    fraction: int
    width: int
    scale: int
    near_limit: int
    tiny: int
    underflow: int

    @property
    def bias(self) -> int:
        return (1 << (self.width - self.fraction - 2)) - 1


_FORMATS = {F32: _Format(23, 32, 64, 96, 23, -150), F64: _Format(52, 64, 128, 768, 53, -1075)}


def _exponent(e: Emitter, value: ir.Value, format_: _Format) -> ir.Value:
    """The biased exponent."""
    bits = raw_bits(e, value)
    return e.b.and_(e.b.lshr(bits, e.like(bits, format_.fraction)), e.like(bits, 2 * format_.bias + 1))


def _equals(e: Emitter, value: ir.Value, number: float) -> ir.Value:
    return e.b.fcmp_ordered("==", value, e.like(value, number))


@vector("v_div_scale_f32", "f32 mask", "f32 f32 f32")
@vector("v_div_scale_f64", "f64 mask", "f64 f64 f64")
def _(e: Emitter, value: ir.Value, denominator: ir.Value, numerator: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``value`` is one of the other two, scaled if the division needs it; the mask tells v_div_fmas to scale back."""
    format_ = _FORMATS[value.type.element]
    b, bias = e.b, format_.bias
    up, down = (b.fmul(value, e.like(value, 2.0**power)) for power in (format_.scale, -format_.scale))
    above, below = _exponent(e, numerator, format_), _exponent(e, denominator, format_)
    size = magnitude(e, denominator)
    zero = b.or_(_equals(e, numerator, 0.0), _equals(e, denominator, 0.0))
    overflow = b.icmp_signed(">=", b.sub(above, below), e.like(above, format_.near_limit))
    denormal = b.icmp_unsigned("==", below, e.like(below, 0))
    huge = b.and_(
        b.fcmp_ordered(">", size, e.like(size, 2.0 ** (bias - 1))),
        b.fcmp_ordered("<", size, e.like(size, float("inf"))),
    )
    # |numerator / denominator| below the normal range, without dividing: the product is exact or infinite.
    small = b.fcmp_ordered("<", b.fmul(magnitude(e, numerator), e.like(size, 2.0 ** (bias - 1))), size)
    tiny = b.icmp_unsigned("<=", above, e.like(above, format_.tiny))
    is_denominator = b.fcmp_ordered("==", value, denominator)
    is_numerator = b.fcmp_ordered("==", value, numerator)

    result = e.select(tiny, up, value)
    result = e.select(small, e.select(is_numerator, up, value), result)
    result = e.select(huge, e.select(b.and_(small, b.not_(is_denominator)), value, down), result)
    result = e.select(denormal, up, result)
    result = e.select(overflow, e.select(is_denominator, up, value), result)
    result = e.select(zero, e.like(value, float("nan")), result)
    scaled = b.or_(overflow, b.and_(small, b.not_(denormal)))
    return result, b.and_(scaled, b.not_(zero))


def _scaled_back_single(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value, power: ir.Value) -> ir.Value:
    """(a * b + c) * power; double precision in between leaves the rounding to single precision as the only one."""
    wide = lanes_of(F64)
    total = e.intrinsic("llvm.fma", wide, [e.b.fpext(value, wide) for value in (a, b, c)])
    return e.b.fptrunc(e.b.fmul(total, e.b.fpext(power, wide)), lanes_of(F32))


def _scaled_back_double(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value, power: ir.Value) -> ir.Value:
    """(a * b + c) * power with one rounding.

    A result in the denormal range is rounded to its grid before it is scaled, which then is exact: ``c`` is split into
    a multiple of the grid and a rest, and adding 2**52 grid steps, away from zero, makes the adder round there.
    """
    format_ = _FORMATS[F64]
    grid = 2.0 ** (1 - format_.bias - format_.fraction + format_.scale)
    magic = e.intrinsic("llvm.copysign", c.type, [e.like(c, 2.0**format_.fraction * grid), c])
    coarse = e.b.fsub(e.b.fadd(c, magic), magic)
    rest = e.intrinsic("llvm.fma", c.type, [a, b, e.b.fsub(c, coarse)])
    rounded = e.b.fsub(e.b.fadd(rest, e.b.fadd(coarse, magic)), magic)
    plain = e.intrinsic("llvm.fma", c.type, [a, b, c])
    small = e.b.fcmp_ordered("<", magnitude(e, plain), e.like(c, grid * 2.0**format_.fraction))
    return e.b.fmul(e.select(small, rounded, plain), power)


@vector("v_div_fmas_f32", "f32", "f32 f32 f32")
@vector("v_div_fmas_f64", "f64", "f64 f64 f64")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    scaled = e.b.bitcast(e.scalar_load(VCC, I64), lanes_of(I1))
    plain = e.intrinsic("llvm.fma", a.type, [a, b, c])
    return rarely(e, scaled, plain, lambda: _scaled_back(e, a, b, c))


def _scaled_back(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    format_ = _FORMATS[a.type.element]
    upwards = e.b.fcmp_ordered(">=", magnitude(e, c), e.like(c, 2.0))
    power = e.select(upwards, e.like(c, 2.0**format_.scale), e.like(c, 2.0**-format_.scale))
    scale_back = _scaled_back_single if a.type.element == F32 else _scaled_back_double
    return scale_back(e, a, b, c, power)


@vector("v_div_fixup_f32", "f32", "f32 f32 f32")
@vector("v_div_fixup_f64", "f64", "f64 f64 f64")
def _(e: Emitter, quotient: ir.Value, denominator: ir.Value, numerator: ir.Value) -> ir.Value:
    """The quotient, with the sign and the special cases that follow from the operands."""
    format_ = _FORMATS[quotient.type.element]
    difference = e.b.sub(_exponent(e, numerator, format_), _exponent(e, denominator, format_))
    underflow = e.b.icmp_signed("<", difference, e.like(difference, format_.underflow))
    return _fixed_up(e, e.select(underflow, e.like(quotient, 0.0), quotient), denominator, numerator)


def _fixed_up(e: Emitter, quotient: ir.Value, denominator: ir.Value, numerator: ir.Value) -> ir.Value:
    b, infinity = e.b, e.like(quotient, float("inf"))
    below, above = magnitude(e, denominator), magnitude(e, numerator)
    zero_below, zero_above = _equals(e, below, 0.0), _equals(e, above, 0.0)
    inf_below, inf_above = _equals(e, below, float("inf")), _equals(e, above, float("inf"))
    size = magnitude(e, quotient)
    size = e.select(is_nan(e, size), infinity, size)
    size = e.select(b.or_(inf_below, zero_above), e.like(size, 0.0), size)
    size = e.select(b.or_(zero_below, inf_above), infinity, size)
    signs = b.xor(raw_bits(e, denominator), raw_bits(e, numerator))
    sign = b.and_(signs, e.like(signs, 1 << (signs.type.element.width - 1)))
    signed = e.bitcast(b.or_(raw_bits(e, size), sign), size.type.element)
    invalid = b.or_(b.and_(zero_below, zero_above), b.and_(inf_below, inf_above))
    result = e.select(invalid, e.like(size, float("nan")), signed)
    result = e.select(is_nan(e, denominator), quieted(e, denominator), result)
    return e.select(is_nan(e, numerator), quieted(e, numerator), result)


@vector("v_div_fixup_f16", "f16", "f16 f16 f16", keep_high_half=True)
def _(e: Emitter, quotient: ir.Value, denominator: ir.Value, numerator: ir.Value) -> ir.Value:
    return _fixed_up(e, quotient, denominator, numerator)
