"""Vector floating-point arithmetic, order, rounding and scaling."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, F64, I32, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import (
    fma_half,
    is_nan,
    larger,
    larger_number,
    limit_half,
    magnitude,
    power_of_two,
    rarely,
    raw_bits,
    smaller,
    to_half,
)
from wavecast.simulator.execute.registry import raw, vector


def _limited(e: Emitter, result: ir.Value, *sources: ir.Value) -> ir.Value:
    return limit_half(e, result, list(sources)) if result.type.element == F16 else result


@vector("v_add_f32", "f32", "f32 f32")
@vector("v_add_f64", "f64", "f64 f64")
@vector("v_add_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _limited(e, e.b.fadd(a, b), a, b)


@vector("v_sub_f32", "f32", "f32 f32")
@vector("v_sub_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _limited(e, e.b.fsub(a, b), a, b)


@vector("v_subrev_f32", "f32", "f32 f32")
@vector("v_subrev_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _limited(e, e.b.fsub(b, a), a, b)


@vector("v_mul_f32", "f32", "f32 f32")
@vector("v_mul_f64", "f64", "f64 f64")
@vector("v_mul_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _limited(e, e.b.fmul(a, b), a, b)


@vector("v_mul_legacy_f32", "f32", "f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    zero = e.like(a, 0.0)
    either = e.b.or_(e.b.fcmp_ordered("==", a, zero), e.b.fcmp_ordered("==", b, zero))
    return e.select(either, zero, e.b.fmul(a, b))


# The literal of v_fmaak and v_fmamk stands in the text where it stands in the sum.
@vector(["v_fma_f32", "v_fmaak_f32", "v_fmamk_f32"], "f32", "f32 f32 f32")
@vector("v_fma_f64", "f64", "f64 f64 f64")
@vector("v_fmac_f32", "f32", "f32 f32", accumulate=True)
@vector("v_fmac_f64", "f64", "f64 f64", accumulate=True)
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.fma", a.type, [a, b, c])


@vector("v_fma_f16", "f16", "f16 f16 f16", keep_high_half=True)
@vector("v_fma_legacy_f16", "f16", "f16 f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return limit_half(e, fma_half(e, a, b, c), [a, b, c])


@vector("v_max_f32", "f32", "f32 f32")
@vector("v_max_f64", "f64", "f64 f64")
@vector("v_max_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return larger(e, a, b)


@vector("v_min_f32", "f32", "f32 f32")
@vector("v_min_f64", "f64", "f64 f64")
@vector("v_min_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return smaller(e, a, b)


@vector("v_max3_f32", "f32", "f32 f32 f32")
@vector("v_max3_f16", "f16", "f16 f16 f16", keep_high_half=True)
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return larger(e, a, b, c)


@vector("v_min3_f32", "f32", "f32 f32 f32")
@vector("v_min3_f16", "f16", "f16 f16 f16", keep_high_half=True)
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return smaller(e, a, b, c)


@vector("v_med3_f32", "f32", "f32 f32 f32")
@vector("v_med3_f16", "f16", "f16 f16 f16", keep_high_half=True)
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """The middle one; if any is NaN, the smallest of the numbers (so a clamp turns NaN into its lower bound)."""

    most = larger_number(e, larger_number(e, a, b), c)
    rest = e.select(e.b.fcmp_ordered("==", most, b), larger_number(e, a, c), larger_number(e, a, b))
    middle = e.select(e.b.fcmp_ordered("==", most, a), larger_number(e, b, c), rest)
    unordered = e.b.or_(is_nan(e, a, b), is_nan(e, c))
    return rarely(e, unordered, middle, lambda: smaller(e, a, b, c))


@vector("v_maximum3_f32", "f32", "f32 f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.maximum", a.type, [e.intrinsic("llvm.maximum", a.type, [a, b]), c])


@vector("v_minimum3_f32", "f32", "f32 f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.minimum", a.type, [e.intrinsic("llvm.minimum", a.type, [a, b]), c])


def _rounding(opcode: str, intrinsic: str) -> None:
    @vector(f"v_{opcode}_f32", "f32", "f32")
    @vector(f"v_{opcode}_f64", "f64", "f64")
    @vector(f"v_{opcode}_f16", "f16", "f16")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        return rounded(e, intrinsic, a)


def rounded(e: Emitter, intrinsic: str, value: ir.Value) -> ir.Value:
    """Round to an integral number; halves by way of single precision, which is exact and needs no library call."""
    if value.type.element != F16:
        return e.intrinsic(intrinsic, value.type, [value])
    wide = e.b.fpext(value, lanes_of(F32, value.type.count))
    return e.b.fptrunc(e.intrinsic(intrinsic, wide.type, [wide]), value.type)


for _opcode, _intrinsic in (
    ("floor", "llvm.floor"),
    ("ceil", "llvm.ceil"),
    ("trunc", "llvm.trunc"),
    ("rndne", "llvm.roundeven"),
):
    _rounding(_opcode, _intrinsic)


@vector("v_fract_f32", "f32", "f32")
@vector("v_fract_f64", "f64", "f64")
@vector("v_fract_f16", "f16", "f16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    """Always below 1, also where the difference would round up to it (compilers rely on that)."""
    difference = e.b.fsub(a, rounded(e, "llvm.floor", a))
    precision = {F16: 11, F32: 24, F64: 53}[a.type.element]
    limit = e.like(a, 1.0 - 2.0**-precision)
    return e.select(e.b.fcmp_ordered(">", difference, limit), limit, difference)


# ---- exponents ------------------------------------------------------------------------------------------------------


@vector("v_ldexp_f32", "f32", "f32 i32")
def _(e: Emitter, a: ir.Value, exponent: ir.Value) -> ir.Value:
    return e.b.fptrunc(_scaled(e, e.b.fpext(a, lanes_of(F64)), exponent, 400), a.type)


@vector("v_ldexp_f16", "f16", "f16 i16")
def _(e: Emitter, a: ir.Value, exponent: ir.Value) -> ir.Value:
    wide = e.b.fpext(a, lanes_of(F32))
    limited = _limit(e, e.convert(exponent, I32, signed=True), 60)
    factor = e.bitcast(e.b.shl(e.b.add(limited, e.like(limited, 127)), e.like(limited, 23)), F32)
    return limit_half(e, e.b.fptrunc(e.b.fmul(wide, factor), a.type), [a])


def _limit(e: Emitter, value: ir.Value, bound: int) -> ir.Value:
    low = e.intrinsic("llvm.smax", value.type, [value, e.like(value, -bound)])
    return e.intrinsic("llvm.smin", value.type, [low, e.like(value, bound)])


def _scaled(e: Emitter, wide: ir.Value, exponent: ir.Value, bound: int) -> ir.Value:
    """f64 times 2**exponent, exact because both stay far inside the range of f64."""
    limited = e.convert(_limit(e, exponent, bound), I64, signed=True)
    return e.b.fmul(wide, power_of_two(e, limited))


@vector("v_ldexp_f64", "f64", "f64 i32")
def _(e: Emitter, a: ir.Value, exponent: ir.Value) -> ir.Value:
    """Steps of at most one power of two each; a step down leaves 53 bits of headroom, so only the last one rounds."""
    rest = e.convert(_limit(e, exponent, 2200), I64, signed=True)
    value = a
    for _ in range(2):
        step = e.intrinsic("llvm.smin", rest.type, [rest, e.like(rest, 1023)])
        step = e.select(e.b.icmp_signed("<", rest, e.like(rest, -1022)), e.like(rest, 53 - 1022), step)
        value = e.b.fmul(value, power_of_two(e, step))
        rest = e.b.sub(rest, step)
    return e.b.fmul(value, power_of_two(e, _limit(e, rest, 1022)))


def _parts(e: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Mantissa in ±[0.5, 1), exponent (integers of the float's width), and where the value is not 0, Inf or NaN."""
    element = value.type.element
    width, fraction = (64, 52) if element == F64 else (32, 23)
    bias = (1 << (width - fraction - 2)) - 1
    size = magnitude(e, value)
    regular = e.b.and_(
        e.b.fcmp_ordered("<", size, e.like(size, float("inf"))), e.b.fcmp_ordered(">", size, e.like(size, 0.0))
    )
    subnormal = e.b.fcmp_ordered("<", size, e.like(size, 2.0 ** (1 - bias)))
    shift = fraction + 1
    normal = e.select(subnormal, e.b.fmul(value, e.like(value, 2.0**shift)), value)
    bits = raw_bits(e, normal)
    field = e.b.and_(e.b.lshr(bits, e.like(bits, fraction)), e.like(bits, 2 * bias + 1))
    offset = e.select(subnormal, e.like(bits, bias - 1 + shift), e.like(bits, bias - 1))
    exponent = e.b.sub(field, offset)
    keep = ~((2 * bias + 1) << fraction) & ((1 << width) - 1)
    mantissa = e.b.or_(e.b.and_(bits, e.like(bits, keep)), e.like(bits, (bias - 1) << fraction))
    return e.bitcast(mantissa, element), exponent, regular


@vector("v_frexp_mant_f32", "f32", "f32")
@vector("v_frexp_mant_f64", "f64", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    mantissa, _, regular = _parts(e, a)
    return e.select(regular, mantissa, a)


@vector("v_frexp_exp_i32_f32", "i32", "f32")
@vector("v_frexp_exp_i32_f64", "i32", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    _, exponent, regular = _parts(e, a)
    return e.convert(e.select(regular, exponent, e.like(exponent, 0)), I32)


@vector("v_frexp_mant_f16", "f16", "f16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    mantissa, _, regular = _parts(e, e.b.fpext(a, lanes_of(F32)))
    return e.select(regular, e.b.fptrunc(mantissa, a.type), a)


@vector("v_frexp_exp_i16_f16", "i16", "f16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    _, exponent, regular = _parts(e, e.b.fpext(a, lanes_of(F32)))
    return e.convert(e.select(regular, exponent, e.like(exponent, 0)), ir.IntType(16))


# ---- mixed precision ------------------------------------------------------------------------------------------------


def _mixed_source(e: Emitter, index: int) -> ir.Value:
    """A source of v_fma_mix: single precision, or the half that op_sel names where op_sel_hi says half."""
    position = 1 + index
    operand = e.form.operands[position]
    is_half = e.form.bits("op_sel_hi", 3)[index]
    high = e.form.bits("op_sel", 3)[index]
    if not is_half:
        return e.read(position, "f32")
    if operand.kind == "k" and high:
        raise NotImplementedError("the high half of a constant as a source of v_fma_mix")
    word = e.read(position, "b32", modifiers=False)
    if high:
        word = e.b.lshr(word, e.like(word, 16))
    half = e.bitcast(e.convert(word, ir.IntType(16)), F16)
    # No half is a denormal of single precision.
    return e.source_by_mode(e.source_modifiers(e.b.fpext(half, lanes_of(F32)), operand))


def _mixed_sum(e: Emitter) -> ir.Value:
    sources = [_mixed_source(e, index) for index in range(3)]
    return e.intrinsic("llvm.fma", sources[0].type, sources)


@raw("v_fma_mix_f32", "f32 mixed mixed mixed")
def _(e: Emitter) -> None:
    e.write(0, "f32", _mixed_sum(e))


def _mixed_half(opcode: str, shift: int) -> None:
    @raw(opcode, "f32 mixed mixed mixed")
    def _(e: Emitter) -> None:
        half = to_half(e, _mixed_sum(e))
        if e.form.modifier("clamp"):
            half = e.clamp_unit(half)
        word = e.convert(raw_bits(e, half), I32)
        old = e.load_rows(e.row(0))
        kept = e.b.and_(old, e.like(old, 0xFFFF << (16 - shift)))
        e.store_rows(e.row(0), e.b.or_(kept, e.b.shl(word, e.like(word, shift))))


_mixed_half("v_fma_mixlo_f16", 0)
_mixed_half("v_fma_mixhi_f16", 16)
