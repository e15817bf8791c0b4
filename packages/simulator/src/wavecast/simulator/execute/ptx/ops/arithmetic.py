"""Arithmetic of all types: sums, products, quotients, minima and maxima.

Float results round to nearest even; NaN results are PTX's canonical NaN. ``div.full`` and ``div.approx``, which the
hardware may get wrong by two units in the last place, are the IEEE quotient here.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, F64, I32, I64, lanes_of
from wavecast.simulator.execute.numeric import fma_half, raw_bits
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import is_float, type_width

_ROUNDING = ("rn", "ftz")


def result_type(e: WarpEmitter) -> str:
    """The last type of the opcode."""
    if not e.types:
        raise NotImplementedError("an opcode without a type")
    return e.types[-1]


def singles(e: WarpEmitter, name: str, count: int) -> list[ir.Value]:
    """Float sources, halves as f32, denormals flushed if the opcode says so."""
    values = [e.single(value, name) for value in e.sources(name, count)]
    return [e.flushed(value) for value in values] if e.has("ftz") and name == "f32" else values


def finish_float(e: WarpEmitter, name: str, value: ir.Value) -> None:
    """Round to the type, flush and saturate as the opcode says, and write."""
    if e.has("sat"):
        value = _unit(e, value)
    if e.has("relu"):
        value = not_negative(e, value)
    if e.has("ftz") and name == "f32":
        value = e.flushed(value)
    e.write(0, name, e.rounded(value, name))


def _unit(e: WarpEmitter, value: ir.Value) -> ir.Value:
    """Clamped to 0…1; NaN becomes 0."""
    zero, one = e.like(value, 0.0), e.like(value, 1.0)
    positive = e.b.fcmp_ordered(">", value, zero)
    return e.select(positive, e.select(e.b.fcmp_ordered("<", value, one), value, one), zero)


def not_negative(e: WarpEmitter, value: ir.Value) -> ir.Value:
    """+0 for what is not above it; NaN stays."""
    return e.select(e.b.fcmp_ordered("<=", value, e.like(value, 0.0)), e.like(value, 0.0), value)


def _two(name: str, integer: str, single: str) -> None:
    @ptx(name)
    def _(e: WarpEmitter) -> None:
        kind = result_type(e)
        if is_float(kind):
            e.expect_parts(*_ROUNDING, "sat")
            a, b = singles(e, kind, 2)
            finish_float(e, kind, getattr(e.b, single)(a, b))
            return
        e.expect_parts("sat")
        a, b = e.sources(kind, 2)
        if e.has("sat"):
            sign = "s" if kind[0] == "s" else "u"
            e.write(0, kind, e.intrinsic(f"llvm.{sign}{name}.sat", a.type, [a, b]))
        else:
            e.write(0, kind, getattr(e.b, integer)(a, b))


_two("add", "add", "fadd")
_two("sub", "sub", "fsub")


def _product(e: WarpEmitter, kind: str, addend: ir.Value | None) -> None:
    """``mul`` and ``mad`` of integers: low, high or whole product."""
    a, b = e.sources(kind, 2)
    signed = kind[0] == "s"
    width = type_width(kind)
    if e.has("lo"):
        product = e.b.mul(a, b)
    else:
        wide = ir.IntType(2 * width)
        product = e.b.mul(e.convert(a, wide, signed=signed), e.convert(b, wide, signed=signed))
        if e.has("hi"):
            product = e.convert(e.b.lshr(product, e.like(product, width)), ir.IntType(width))
    total = product if addend is None else e.b.add(product, addend)
    e.write_bits(0, total, signed=signed)


@ptx("mul")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    if is_float(kind):
        e.expect_parts(*_ROUNDING, "sat")
        a, b = singles(e, kind, 2)
        finish_float(e, kind, e.b.fmul(a, b))
    else:
        e.expect_parts("lo", "hi", "wide")
        _product(e, kind, None)


@ptx("mad")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    if is_float(kind):
        _fused(e, kind)
        return
    e.expect_parts("lo", "hi", "wide", "cc")
    if e.has("cc"):
        _with_carry(e, kind, I64(0))
        return
    width = type_width(kind) * (2 if e.has("wide") else 1)
    _product(e, kind, e.bits(3, width))


# The carry flag of each lane: a row of its own would be written by these opcodes only, which the compiler always keeps
# together. It lies in a scalar slot, one bit a lane.
_CARRY = 130


def _with_carry(e: WarpEmitter, kind: str, carry: ir.Value) -> None:
    """``.lo`` or ``.hi`` of a 32-bit product, plus the third source and the carry (i64 mask); sets the carry."""
    if kind != "u32":
        raise NotImplementedError(f"a carry of .{kind}")
    wide = lanes_of(I64, e.lanes)
    a, b, c = (e.convert(value, I64) for value in e.sources(kind, 3))
    product = e.b.mul(a, b)
    part = e.b.lshr(product, e.like(product, 32)) if e.has("hi") else e.b.and_(product, e.like(product, 0xFFFFFFFF))
    carried = e.b.zext(e.flags(carry), wide) if not isinstance(carry, ir.Constant) else ir.Constant(wide, [0] * e.lanes)
    total = e.b.add(e.b.add(part, c), carried)
    if e.has("cc"):
        over = e.mask(e.b.icmp_unsigned(">", total, e.like(total, 0xFFFFFFFF)))
        e.scalar_store(_CARRY, e.b.trunc(over, I32))
    e.write_bits(0, e.convert(total, I32))


@ptx("madc")
def _(e: WarpEmitter) -> None:
    e.expect_parts("lo", "hi", "cc")
    _with_carry(e, result_type(e), e.b.zext(e.scalar_load(_CARRY), I64))


@ptx("fma")
def _(e: WarpEmitter) -> None:
    _fused(e, result_type(e))


def _fused(e: WarpEmitter, kind: str) -> None:
    e.expect_parts(*_ROUNDING, "sat", "relu")
    base = kind.removesuffix("x2")
    if base == "f16":
        result = fma_half(e, *e.sources(kind, 3))
        finish_float(e, kind, e.single(result, kind))
    elif base == "bf16":
        finish_float(e, kind, _fused_bfloat(e, *(e.from_bfloat(value) for value in e.sources(kind, 3))))
    else:
        a, b, c = singles(e, kind, 3)
        finish_float(e, kind, e.intrinsic("llvm.fma", a.type, [a, b, c]))


def _fused_bfloat(e: WarpEmitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a b + c in f32, rounded to odd, so that rounding it to bf16 comes out as if it were the only rounding.

    The product of two bf16 is exact in f64, where it does not underflow either.
    """
    a, b, c = (e.b.fpext(value, lanes_of(F64, value.type.count)) for value in (a, b, c))
    product = e.b.fmul(a, b)
    total = e.b.fadd(product, c)
    part = e.b.fsub(total, product)
    error = e.b.fadd(e.b.fsub(product, e.b.fsub(total, part)), e.b.fsub(c, part))
    bits = raw_bits(e, total)
    even = e.b.icmp_unsigned("==", e.b.and_(bits, e.like(bits, 1)), e.like(bits, 0))
    inexact = e.b.fcmp_ordered("one", error, e.like(error, 0.0))
    away = e.b.icmp_signed(">=", e.b.xor(bits, raw_bits(e, error)), e.like(bits, 0))
    step = e.select(away, e.like(bits, 1), e.like(bits, -1))
    return single_to_odd(e, e.bitcast(e.select(e.b.and_(even, inexact), e.b.add(bits, step), bits), F64))


def single_to_odd(e: WarpEmitter, value: ir.Value) -> ir.Value:
    """f64 to f32, rounded to odd where it is not exact, so that a later rounding is as if it were the only one."""
    single = e.b.fptrunc(value, lanes_of(F32, value.type.count))
    back = e.b.fpext(single, value.type)
    bits = e.bitcast(single, I32)
    inexact = e.b.fcmp_ordered("one", back, value)
    even = e.b.icmp_unsigned("==", e.b.and_(bits, e.like(bits, 1)), e.like(bits, 0))
    size, old = (e.intrinsic("llvm.fabs", value.type, [item]) for item in (value, back))
    larger = e.b.fcmp_ordered(">", size, old)
    moved = e.b.add(bits, e.select(larger, e.like(bits, 1), e.like(bits, -1)))
    return e.bitcast(e.select(e.b.and_(inexact, even), moved, bits), F32)


@ptx("div")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    if is_float(kind):
        e.expect_parts(*_ROUNDING, "full", "approx")
        a, b = singles(e, kind, 2)
        quotient = e.b.fdiv(a, b)
        if e.has("approx"):
            # A divisor whose reciprocal would be denormal gives zero.
            size = e.intrinsic("llvm.fabs", b.type, [b])
            large = e.b.fcmp_ordered(">", size, e.like(b, 2.0**126))
            zero = e.b.fmul(a, e.intrinsic("llvm.copysign", b.type, [e.like(b, 0.0), b]))
            quotient = e.select(large, zero, quotient)
        finish_float(e, kind, quotient)
    else:
        e.expect_parts()
        e.write(0, kind, _quotient(e, kind)[0])


@ptx("rem")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    kind = result_type(e)
    e.write(0, kind, _quotient(e, kind)[1])


def _quotient(e: WarpEmitter, kind: str) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder; both have all bits set for a zero divisor, as an H200 shows."""
    a, b = e.sources(kind, 2)
    signed = kind[0] == "s"
    zero = e.b.icmp_unsigned("==", b, e.like(b, 0))
    divisor = e.select(zero, e.like(b, 1), b)
    if signed:
        # The lowest number over -1 wraps.
        lowest = 1 << (type_width(kind) - 1)
        minus = e.b.icmp_unsigned("==", b, e.like(b, -1))
        overflow = e.b.and_(minus, e.b.icmp_unsigned("==", a, e.like(a, lowest)))
        divisor = e.select(overflow, e.like(b, 1), divisor)
        quotient, remainder = e.b.sdiv(a, divisor), e.b.srem(a, divisor)
    else:
        quotient, remainder = e.b.udiv(a, divisor), e.b.urem(a, divisor)
    return e.select(zero, e.like(a, -1), quotient), e.select(zero, e.like(a, -1), remainder)


def _extreme(name: str, single: str, number: str) -> None:
    @ptx(name)
    def _(e: WarpEmitter) -> None:
        kind = result_type(e)
        if not is_float(kind):
            e.expect_parts()
            a, b = e.sources(kind, 2)
            e.write(0, kind, e.intrinsic(f"llvm.{kind[0]}{name}", a.type, [a, b]))
            return
        e.expect_parts("ftz", "NaN", "xorsign", "abs")
        count = len(e.form.operands) - 1
        values = singles(e, kind, count)
        intrinsic = f"llvm.{single if e.has('NaN') else number}"
        # With .xorsign.abs the magnitudes are compared, and the signs multiplied.
        sizes = [e.intrinsic("llvm.fabs", value.type, [value]) for value in values] if e.has("abs") else values
        result = sizes[0]
        for value in sizes[1:]:
            result = e.intrinsic(intrinsic, result.type, [result, value])
        finish_float(e, kind, _with_sign_of(e, result, values) if e.has("xorsign") else result)


def _with_sign_of(e: WarpEmitter, size: ir.Value, values: list[ir.Value]) -> ir.Value:
    """A single with the sign that the product of values has."""
    words = [e.bitcast(value, I32) for value in (size, *values)]
    sign = words[1]
    for word in words[2:]:
        sign = e.b.xor(sign, word)
    top = e.like(sign, -(1 << 31))
    magnitude = e.b.and_(words[0], e.like(sign, (1 << 31) - 1))
    return e.bitcast(e.b.or_(magnitude, e.b.and_(sign, top)), F32)


_extreme("min", "minimum", "minimumnum")
_extreme("max", "maximum", "maximumnum")


@ptx("abs")
def _(e: WarpEmitter) -> None:
    e.expect_parts("ftz")
    kind = result_type(e)
    (a,) = e.sources(kind, 1)
    if not is_float(kind):
        e.write(0, kind, e.intrinsic("llvm.abs", a.type, [a, ir.Constant(ir.IntType(1), 0)]))
        return
    _with_sign(e, kind, a, lambda bits, sign: e.b.and_(bits, e.like(bits, sign - 1)))


@ptx("neg")
def _(e: WarpEmitter) -> None:
    e.expect_parts("ftz")
    kind = result_type(e)
    (a,) = e.sources(kind, 1)
    if not is_float(kind):
        e.write(0, kind, e.b.neg(a))
        return
    _with_sign(e, kind, a, lambda bits, sign: e.b.xor(bits, e.like(bits, sign)))


def _with_sign(e: WarpEmitter, kind: str, value: ir.Value, change: Callable[[ir.Value, int], ir.Value]) -> None:
    width = type_width(kind.removesuffix("x2"))
    result = e.bitcast(change(e.bitcast(value, ir.IntType(width)), 1 << (width - 1)), value.type.element)
    if kind == "f32":
        result = e.canonical(e.flushed(result) if e.has("ftz") else result, kind)
    e.write(0, kind, result)


@ptx("copysign")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    sign, size = e.sources(kind, 2)
    e.write(0, kind, e.intrinsic("llvm.copysign", size.type, [size, sign]))


@ptx("sad")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    a, b, c = e.sources(kind, 3)
    larger = e.intrinsic(f"llvm.{kind[0]}max", a.type, [a, b])
    smaller = e.intrinsic(f"llvm.{kind[0]}min", a.type, [a, b])
    e.write(0, kind, e.b.add(c, e.b.sub(larger, smaller)))
