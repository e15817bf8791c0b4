"""Floats of at most 8 bits: their formats, and conversion from and to fp32, branch-free on vectors.

gfx942 has the FNUZ formats (no infinity, no negative zero, 0x80 is NaN), gfx950 the OCP formats. Encoding rounds to
nearest even, denormal results included. Finite overflow gives the largest number under MODE.FP16_OVFL, else NaN
(infinity in OCP e5m2). Infinite arguments are not saturated: FP16_OVFL is specified to keep true infinities, and
measurements of another generation of the same instruction agree; on gfx942 and gfx950 this is not verified. A NaN keeps
its sign where the format has signed NaNs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, I16, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import magnitude, raw_bits, saturating
from wavecast.simulator.execute.state import StateEmitter


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A float format of at most 8 bits.

    Attributes:
        exponent: Exponent bits.
        fraction: Fraction bits.
        bias: Exponent bias.
        largest: Code of the largest finite number.
        overflow: Code (without sign) of a finite overflow that does not saturate.
        infinite: Code of an infinite argument.
        nan: Code of a NaN argument.
        negative_zero: Whether there is one; where there is none, 0x80 is the NaN.
    """

    exponent: int
    fraction: int
    bias: int
    largest: int
    overflow: int
    infinite: int
    nan: int
    negative_zero: bool = True

    @property
    def sign(self) -> int:
        """Bit of the sign."""
        return self.exponent + self.fraction

    @property
    def maximum(self) -> float:
        """Largest finite number."""
        steps, fraction = divmod(self.largest, 1 << self.fraction)
        return float((1 + fraction / (1 << self.fraction)) * 2.0 ** (steps - self.bias))


E4M3_FNUZ = SmallFloat(4, 3, 8, 0x7F, 0x80, 0x80, 0x80, negative_zero=False)
E5M2_FNUZ = SmallFloat(5, 2, 16, 0x7F, 0x80, 0x80, 0x80, negative_zero=False)
E4M3_OCP = SmallFloat(4, 3, 7, 0x7E, 0x7F, 0x7F, 0x7F)
E5M2_OCP = SmallFloat(5, 2, 15, 0x7B, 0x7C, 0x7C, 0x7E)
# No infinity and no NaN: everything beyond the range, NaN too, becomes the largest number.
E2M1 = SmallFloat(2, 1, 1, 0x7, 0x7, 0x7, 0x7)

_FORMATS = {
    ("gfx942", "fp8"): E4M3_FNUZ,
    ("gfx942", "bf8"): E5M2_FNUZ,
    ("gfx950", "fp8"): E4M3_OCP,
    ("gfx950", "bf8"): E5M2_OCP,
    ("gfx950", "fp4"): E2M1,
}


def format_of(e: Emitter, name: str) -> SmallFloat:
    """The format that ``fp8``, ``bf8`` or ``fp4`` means on the architecture, which is part of the form."""
    arch = str(e.form.modifier("arch"))
    if (arch, name) not in _FORMATS:
        raise NotImplementedError(f"no {name} format is known for architecture {arch}")
    return _FORMATS[arch, name]


def encode_saturated(e: StateEmitter, value: ir.Value, format_: SmallFloat) -> ir.Value:
    """f32 to OCP codes in i32, rounded to nearest even; beyond the range the largest number, infinities too.

    NaN becomes 0x7F, whatever its sign.
    """
    most = format_.maximum
    limited = e.select(e.b.fcmp_ordered(">", value, e.like(value, most)), e.like(value, most), value)
    limited = e.select(e.b.fcmp_ordered("<", value, e.like(value, -most)), e.like(value, -most), limited)
    code = encode(e, limited, format_, saturate=True)
    return e.select(e.b.fcmp_unordered("uno", value, value), e.like(code, 0x7F), code)


def encode(
    e: StateEmitter,
    value: ir.Value,
    format_: SmallFloat,
    *,
    scale: ir.Value | None = None,
    seed: ir.Value | None = None,
    saturate: bool = False,
) -> ir.Value:
    """f32 to codes in i32, rounded once.

    Args:
        e: StateEmitter.
        value: f32 vector.
        format_: Target.
        scale: f32 power of two that multiplies the value first.
        seed: Random bits for stochastic rounding, aligned so that they fill what the rounding drops; None for nearest.
        saturate: Finite overflow gives the largest number, whatever MODE says.
    """
    original = raw_bits(e, magnitude(e, value))
    size = original if scale is None else raw_bits(e, e.b.fmul(magnitude(e, value), scale))
    drop = 23 - format_.fraction
    lowest = (128 - format_.bias) << 23
    # Twice the largest binade overflows for certain; going no further keeps the sums below in range.
    beyond = (128 - format_.bias + (1 << format_.exponent)) << 23
    size = e.intrinsic("llvm.umin", size.type, [size, e.like(size, beyond)])
    field = e.b.and_(size, e.like(size, 0x7F800000))
    binade = e.intrinsic("llvm.umax", size.type, [field, e.like(size, lowest)])
    if seed is None:
        # Adding 2**23 units in the last place of the target makes the adder round to nearest even.
        magic = e.b.add(binade, e.like(binade, drop << 23))
        units = e.b.sub(raw_bits(e, e.b.fadd(e.bitcast(size, F32), e.bitcast(magic, F32))), magic)
    else:
        units = _stochastic_units(e, size, binade, seed, drop)
    steps = e.b.lshr(e.b.sub(binade, e.like(binade, lowest)), e.like(binade, drop))
    code = e.b.add(units, steps)
    if saturate or format_.largest == format_.overflow:
        limit = e.like(code, format_.largest)
    else:
        limit = e.splat(e.b.select(saturating(e), I32(format_.largest), I32(format_.overflow)))
    code = e.intrinsic("llvm.umin", code.type, [code, limit])
    return _signed(e, value, _with_specials(e, code, original, format_), format_)


def _stochastic_units(e: StateEmitter, size: ir.Value, binade: ir.Value, seed: ir.Value, drop: int) -> ir.Value:
    """The significand aligned to the binade, plus the random bits, cut off; bits lost by aligning do not count."""
    significand = e.b.or_(e.b.and_(size, e.like(size, 0x7FFFFF)), e.like(size, 1 << 23))
    distance = e.b.lshr(e.b.sub(binade, e.b.and_(size, e.like(size, 0x7F800000))), e.like(size, 23))
    distance = e.intrinsic("llvm.umin", distance.type, [distance, e.like(distance, 31)])
    return e.b.lshr(e.b.add(e.b.lshr(significand, distance), seed), e.like(size, drop))


def _with_specials(e: StateEmitter, code: ir.Value, original: ir.Value, format_: SmallFloat) -> ir.Value:
    special = e.b.icmp_unsigned(">=", original, e.like(original, 0x7F800000))
    if format_.infinite == format_.nan:
        return e.select(special, e.like(code, format_.nan), code)
    code = e.select(special, e.like(code, format_.infinite), code)
    nan = e.b.icmp_unsigned(">", original, e.like(original, 0x7F800000))
    return e.select(nan, e.like(code, format_.nan), code)


def _signed(e: StateEmitter, value: ir.Value, code: ir.Value, format_: SmallFloat) -> ir.Value:
    bits = raw_bits(e, value)
    sign = e.b.and_(e.b.lshr(bits, e.like(bits, 31 - format_.sign)), e.like(bits, 1 << format_.sign))
    if not format_.negative_zero:
        sign = e.select(e.b.icmp_unsigned("==", code, e.like(code, 0)), e.like(sign, 0), sign)
    return e.b.or_(code, sign)


def decode(e: StateEmitter, code: ir.Value, format_: SmallFloat) -> ir.Value:
    """fp32 values, exactly, of codes in <n x i32>; bits above the format are ignored."""
    if format_ is E2M1:
        return _decode_e2m1(e, code)
    size = e.b.and_(code, e.like(code, 0x7F))
    sign = e.b.shl(e.b.and_(code, e.like(code, 0x80)), e.like(code, 24))
    wide = lanes_of(F32, code.type.count)
    if format_ is E5M2_FNUZ:
        # The top exponent is an ordinary one, which f16 would read as infinity or NaN: go through f32 instead.
        bits = e.b.shl(size, e.like(code, 23 - format_.fraction))
        value = e.b.fmul(e.bitcast(bits, F32), e.constant(wide, 2.0 ** (127 - format_.bias)))
    else:
        # As f16 with the same mantissa at the top: its subnormals convert at full speed, where f32's would not.
        bits = e.convert(e.b.shl(size, e.like(code, 10 - format_.fraction)), I16)
        value = e.b.fpext(e.bitcast(bits, F16), wide)
        if format_ is not E5M2_OCP:
            value = e.b.fmul(value, e.like(value, 2.0 ** (15 - format_.bias)))
    value = e.bitcast(e.b.or_(e.bitcast(value, code.type.element), sign), F32)
    if format_ is E5M2_OCP:
        return value
    # The sign tells the NaN from zero where there is no negative zero.
    pattern = size if format_.negative_zero else e.b.and_(code, e.like(code, 0xFF))
    is_nan = e.b.icmp_unsigned("==", pattern, e.like(code, format_.nan))
    return e.select(is_nan, e.like(value, float("nan")), value)


def _decode_e2m1(e: StateEmitter, code: ir.Value) -> ir.Value:
    """As ``decode``, for 4 bits."""
    mantissa = e.b.and_(code, e.like(code, 1))
    exponent = e.b.and_(e.b.lshr(code, e.like(code, 1)), e.like(code, 3))
    normal = e.b.or_(
        e.b.shl(e.b.add(exponent, e.like(code, 126)), e.like(code, 23)), e.b.shl(mantissa, e.like(code, 22))
    )
    # Exponent 0 holds 0 and 0.5.
    small = e.b.mul(mantissa, e.like(code, 0x3F000000))
    magnitude = e.select(e.b.icmp_unsigned("==", exponent, e.like(code, 0)), small, normal)
    sign = e.b.shl(e.b.and_(code, e.like(code, 8)), e.like(code, 28))
    return e.bitcast(e.b.or_(magnitude, sign), F32)


def decode_e8m0(e: StateEmitter, code: ir.Value) -> ir.Value:
    """fp32 values 2^(code − 127) of e8m0 scale codes in the low 8 bits of <n x i32>; 255 is NaN."""
    byte = e.b.and_(code, e.like(code, 0xFF))
    # 2^-127 is a subnormal of fp32.
    small = e.like(code, 0x00400000)
    bits = e.select(e.b.icmp_unsigned("==", byte, e.like(code, 0)), small, e.b.shl(byte, e.like(code, 23)))
    nan = e.like(code, 0x7FC00000)
    return e.bitcast(e.select(e.b.icmp_unsigned("==", byte, e.like(code, 0xFF)), nan, bits), F32)
