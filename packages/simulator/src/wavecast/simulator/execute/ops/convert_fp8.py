"""Formats of 8-bit and 4-bit floats, and the conversions without a block scale.

gfx942 has the FNUZ formats (no infinity, no negative zero, 0x80 is NaN), gfx950 the OCP formats: the architecture is
part of the form. Rounding is to nearest even, denormal results included. Finite overflow gives the largest number
under MODE.FP16_OVFL, else NaN (infinity in OCP e5m2). Infinite arguments are not saturated: FP16_OVFL is specified to
keep true infinities, and measurements of another generation of the same instruction agree; on gfx942 and gfx950 this is
not verified. A NaN keeps its sign where the format has signed NaNs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.emitter import F32, I32, Emitter
from wavecast.simulator.execute.numeric import magnitude, raw_bits, saturating
from wavecast.simulator.execute.registry import vector
from wavecast.simulator.execute.small_float import decode_fp4, decode_fp8


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
    """The format that ``fp8``, ``bf8`` or ``fp4`` means on the architecture of the form."""
    arch = str(e.form.modifier("arch"))
    if (arch, name) not in _FORMATS:
        raise NotImplementedError(f"no {name} format is known for architecture {arch}")
    return _FORMATS[arch, name]


def narrow(
    e: Emitter, value: ir.Value, format_: SmallFloat, *, scale: ir.Value | None = None, seed: ir.Value | None = None
) -> ir.Value:
    """f32 to codes in i32, rounded once.

    Args:
        e: Emitter.
        value: f32 vector.
        format_: Target.
        scale: f32 power of two that multiplies the value first.
        seed: Random bits for stochastic rounding, aligned so that they fill what the rounding drops; None for nearest.
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
    if format_.largest == format_.overflow:
        limit = e.like(code, format_.largest)
    else:
        limit = e.splat(e.b.select(saturating(e), I32(format_.largest), I32(format_.overflow)))
    code = e.intrinsic("llvm.umin", code.type, [code, limit])
    return _signed(e, value, _with_specials(e, code, original, format_), format_)


def _stochastic_units(e: Emitter, size: ir.Value, binade: ir.Value, seed: ir.Value, drop: int) -> ir.Value:
    """The significand aligned to the binade, plus the random bits, cut off; bits lost by aligning do not count."""
    significand = e.b.or_(e.b.and_(size, e.like(size, 0x7FFFFF)), e.like(size, 1 << 23))
    distance = e.b.lshr(e.b.sub(binade, e.b.and_(size, e.like(size, 0x7F800000))), e.like(size, 23))
    distance = e.intrinsic("llvm.umin", distance.type, [distance, e.like(distance, 31)])
    return e.b.lshr(e.b.add(e.b.lshr(significand, distance), seed), e.like(size, drop))


def _with_specials(e: Emitter, code: ir.Value, original: ir.Value, format_: SmallFloat) -> ir.Value:
    special = e.b.icmp_unsigned(">=", original, e.like(original, 0x7F800000))
    if format_.infinite == format_.nan:
        return e.select(special, e.like(code, format_.nan), code)
    code = e.select(special, e.like(code, format_.infinite), code)
    nan = e.b.icmp_unsigned(">", original, e.like(original, 0x7F800000))
    return e.select(nan, e.like(code, format_.nan), code)


def _signed(e: Emitter, value: ir.Value, code: ir.Value, format_: SmallFloat) -> ir.Value:
    bits = raw_bits(e, value)
    sign = e.b.and_(e.b.lshr(bits, e.like(bits, 31 - format_.sign)), e.like(bits, 1 << format_.sign))
    if not format_.negative_zero:
        sign = e.select(e.b.icmp_unsigned("==", code, e.like(code, 0)), e.like(sign, 0), sign)
    return e.b.or_(code, sign)


def widen(e: Emitter, code: ir.Value, name: str) -> ir.Value:
    """Codes in i32 (bits above the format are ignored) to f32, exactly; ``name`` as in ``format_of``."""
    if format_of(e, name) is E2M1:
        return decode_fp4(e, code)
    return decode_fp8(e, code, name, arch=str(e.form.modifier("arch")))


# ---- placing ---------------------------------------------------------------------------------------------------------


def field(e: Emitter, old: ir.Value, value: ir.Value, first: int, bits: int) -> ir.Value:
    """``old`` with ``bits`` bits from ``first`` on replaced by ``value``, which has no bits above."""
    keep = ~(((1 << bits) - 1) << first) & 0xFFFFFFFF
    return e.b.or_(e.b.and_(old, e.like(old, keep)), e.b.shl(value, e.like(value, first)))


def joined(e: Emitter, low: ir.Value, high: ir.Value, bits: int) -> ir.Value:
    """Two codes of ``bits`` bits side by side."""
    return e.b.or_(low, e.b.shl(high, e.like(high, bits)))


def result_part(e: Emitter, bits: int) -> int:
    """First bit of the result: op_sel counts sources, then the destination; bytes take its last two entries."""
    if bits == 16:
        sources = len(e.form.operands) - 1
        return 16 * e.form.bits("op_sel", sources + 1)[sources]
    select = e.form.bits("op_sel", 4)
    return 8 * (select[2] + 2 * select[3])


def source_part(e: Emitter, word: ir.Value, bits: int) -> ir.Value:
    """The word or byte of the first source that op_sel names, in the low bits."""
    select = e.form.bits("op_sel", 2)
    first = 16 * select[0] if bits == 16 else 8 * (select[0] + 2 * select[1])
    return e.b.lshr(word, e.like(word, first)) if first else word


# ---- without a scale -------------------------------------------------------------------------------------------------


def _plain(name: str) -> None:
    @vector(f"v_cvt_pk_{name}_f32", "b32", "f32 f32", accumulate=True, by_architecture=True)
    def _(e: Emitter, a: ir.Value, b: ir.Value, old: ir.Value) -> ir.Value:
        format_ = format_of(e, name)
        codes = joined(e, narrow(e, a, format_), narrow(e, b, format_), 8)
        return field(e, old, codes, result_part(e, 16), 16)

    @vector(f"v_cvt_sr_{name}_f32", "b32", "f32 b32", accumulate=True, by_architecture=True)
    def _(e: Emitter, a: ir.Value, seed: ir.Value, old: ir.Value) -> ir.Value:
        format_ = format_of(e, name)
        code = narrow(e, a, format_, seed=random_bits(e, seed, format_))
        return field(e, old, code, result_part(e, 8), 8)

    @vector(f"v_cvt_f32_{name}", "f32", "b32", by_architecture=True)
    def _(e: Emitter, word: ir.Value) -> ir.Value:
        return widen(e, word, name)

    @vector(f"v_cvt_pk_f32_{name}", "b64", "b32", by_architecture=True)
    def _(e: Emitter, word: ir.Value) -> ir.Value:
        part = source_part(e, word, 16)
        return two_rows(e, widen(e, part, name), widen(e, e.b.lshr(part, e.like(part, 8)), name))


def two_rows(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two f32 vectors as one of 64 bits a lane."""
    wide = ir.IntType(64)
    top = e.convert(raw_bits(e, high), wide)
    return e.b.or_(e.convert(raw_bits(e, low), wide), e.b.shl(top, e.like(top, 32)))


def random_bits(e: Emitter, seed: ir.Value, format_: SmallFloat) -> ir.Value:
    """The high bits of the seed, as many as the rounding drops."""
    return e.b.lshr(seed, e.like(seed, 9 + format_.fraction))


for _name in ("fp8", "bf8"):
    _plain(_name)
