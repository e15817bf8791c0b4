"""Floating-point building blocks that several opcode families share: number order, half precision, raw fields."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, F64, I1, I16, I32, I64, lanes_of
from wavecast.simulator.execute.float_mode import FP16_OVFL
from wavecast.simulator.execute.state import StateEmitter
from wavecast.simulator.program.instruction import MODE

_QUIET = {F16: 1 << 9, F32: 1 << 22, F64: 1 << 51}
_SUFFIX = {F16: "f16", F32: "f32", F64: "f64"}
_BITS: dict[ir.Type, ir.IntType] = {F16: I16, F32: I32, F64: I64}


def raw_bits(e: StateEmitter, value: ir.Value) -> ir.Value:
    """The bit pattern of a float vector."""
    return e.bitcast(value, _BITS[value.type.element])


def two_rows(e: StateEmitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two f32 vectors as one of 64 bits a lane."""
    top = e.convert(raw_bits(e, high), I64)
    return e.b.or_(e.convert(raw_bits(e, low), I64), e.b.shl(top, e.like(top, 32)))


def half_part(e: StateEmitter, word: ir.Value, part: int) -> ir.Value:
    """Half precision in the low (0) or high (1) half of each 32-bit word, as f32."""
    bits = e.convert(e.b.lshr(word, e.like(word, 16)) if part else word, I16)
    return e.b.fpext(e.bitcast(bits, F16), lanes_of(F32, word.type.count))


def bfloat_part(e: StateEmitter, word: ir.Value, part: int) -> ir.Value:
    """bfloat16 in the low (0) or high (1) half of each 32-bit word, as f32."""
    return e.bitcast(e.b.and_(word, e.like(word, 0xFFFF0000)) if part else e.b.shl(word, e.like(word, 16)), F32)


def magnitude(e: StateEmitter, value: ir.Value) -> ir.Value:
    """|value|."""
    return e.intrinsic("llvm.fabs", value.type, [value])


def flushed(e: StateEmitter, value: ir.Value) -> ir.Value:
    """Single-precision denormals as zero of the same sign."""
    small = e.b.fcmp_ordered("<", magnitude(e, value), e.like(value, 2.0**-126))
    zero = e.intrinsic("llvm.copysign", value.type, [e.like(value, 0.0), value])
    return e.select(small, zero, value)


def is_nan(e: StateEmitter, value: ir.Value, other: ir.Value | None = None) -> ir.Value:
    """Where ``value`` (or ``other``) is NaN."""
    return e.b.fcmp_unordered("uno", value, value if other is None else other)


def saturating(e: StateEmitter) -> ir.Value:
    """MODE.FP16_OVFL of the wave, as i1."""
    return e.b.trunc(e.b.lshr(e.scalar_load(MODE), I32(FP16_OVFL)), I1)


def quieted(e: StateEmitter, value: ir.Value) -> ir.Value:
    """A NaN made quiet."""
    bits = raw_bits(e, value)
    return e.bitcast(e.b.or_(bits, e.like(bits, _QUIET[value.type.element])), value.type.element)


def _is_signalling(e: StateEmitter, value: ir.Value) -> ir.Value:
    flags = value.type.count
    # Test 1 of llvm.is.fpclass is the signalling NaN; its suffix names the argument, not the result.
    return e.call(f"llvm.is.fpclass.v{flags}{_SUFFIX[value.type.element]}", lanes_of(I1, flags), [value, I32(1)])


def rarely(e: StateEmitter, where: ir.Value, usual: ir.Value, unusual: Callable[[], ir.Value]) -> ir.Value:
    """``usual``, but ``unusual()`` in the lanes of ``where``; its code is skipped if there are none."""
    before = e.b.block
    flags = ir.IntType(where.type.count)
    detour, after = e.b.append_basic_block("rare"), e.b.append_basic_block("usual")
    e.b.cbranch(e.b.icmp_unsigned("!=", e.b.bitcast(where, flags), flags(0)), detour, after)
    e.b.position_at_end(detour)
    mended = e.select(where, unusual(), usual)
    end = e.b.block
    e.b.branch(after)
    e.b.position_at_end(after)
    result = e.b.phi(usual.type)
    result.add_incoming(usual, before)
    result.add_incoming(mended, end)
    return result


def _number_order(e: StateEmitter, name: str, values: tuple[ir.Value, ...]) -> ir.Value:
    a, b, *rest = values
    plain = e.intrinsic(name, a.type, [a, b])
    first = _is_signalling(e, a)
    either = first if a is b else e.b.or_(first, _is_signalling(e, b))
    result = rarely(e, either, plain, lambda: quieted(e, e.select(first, a, b)))
    if not rest:
        return result
    # What a step returns does not signal, so only the new value is looked at.
    (c,) = rest
    plain = e.intrinsic(name, a.type, [result, c])
    return rarely(e, _is_signalling(e, c), plain, lambda: quieted(e, c))


def larger(e: StateEmitter, *values: ir.Value) -> ir.Value:
    """v_max and v_max3 in IEEE mode.

    A quiet NaN loses against a number, a signalling one wins and is made quiet, -0 is less than +0.
    """
    return _number_order(e, "llvm.maximumnum", values)


def smaller(e: StateEmitter, *values: ir.Value) -> ir.Value:
    """v_min and v_min3, with the rules of ``larger``."""
    return _number_order(e, "llvm.minimumnum", values)


def larger_number(e: StateEmitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger of two numbers, -0 < +0; anything if one is NaN."""
    name = f"llvm.maximumnum.v{a.type.count}{_SUFFIX[a.type.element]}"
    function = e.module.globals.get(name) or ir.Function(e.module, ir.FunctionType(a.type, [a.type, a.type]), name=name)
    return e.b.call(function, [a, b], fastmath=("nnan",))


def to_half(e: StateEmitter, value: ir.Value) -> ir.Value:
    """Single to half, nearest even; finite overflow gives infinity, or the largest number under FP16_OVFL."""
    half = e.b.fptrunc(value, lanes_of(F16, value.type.count))
    return limit_half(e, half, [value])


def limit_half(e: StateEmitter, result: ir.Value, sources: list[ir.Value]) -> ir.Value:
    """Under FP16_OVFL, a half-precision infinity that comes from finite sources becomes the largest number."""
    flag = e.splat(saturating(e), result.type.count)
    infinite = e.b.fcmp_ordered("==", magnitude(e, result), e.like(result, float("inf")))
    overflow = e.b.and_(flag, infinite)
    for source in sources:
        finite = e.b.fcmp_ordered("<", magnitude(e, source), e.like(source, float("inf")))
        overflow = e.b.and_(overflow, finite)
    bits = raw_bits(e, result)
    # One below the pattern of infinity, either sign, is the largest finite number.
    return e.bitcast(e.select(overflow, e.b.sub(bits, e.like(bits, 1)), bits), F16)


def fma_half(e: StateEmitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Half-precision fused multiply-add with one rounding, on any host.

    The product of two halves is exact in single precision. The sum is rounded to odd there, which keeps enough
    information for the rounding to half to come out as if it were the only one.
    """
    wide = lanes_of(F32, a.type.count)
    product = e.b.fmul(e.b.fpext(a, wide), e.b.fpext(b, wide))
    addend = e.b.fpext(c, wide)
    total = e.b.fadd(product, addend)
    part = e.b.fsub(total, product)
    error = e.b.fadd(e.b.fsub(product, e.b.fsub(total, part)), e.b.fsub(addend, part))
    bits = raw_bits(e, total)
    even = e.b.icmp_unsigned("==", e.b.and_(bits, e.like(bits, 1)), e.like(bits, 0))
    inexact = e.b.fcmp_ordered("one", error, e.like(error, 0.0))
    away = e.b.icmp_signed(">=", e.b.xor(bits, raw_bits(e, error)), e.like(bits, 0))
    step = e.select(away, e.like(bits, 1), e.like(bits, -1))
    odd = e.select(e.b.and_(even, inexact), e.b.add(bits, step), bits)
    return e.b.fptrunc(e.bitcast(odd, F32), a.type)


def power_of_two(e: StateEmitter, exponent: ir.Value) -> ir.Value:
    """2**exponent as f64 for an i64 vector with values in -1022…1023."""
    return e.bitcast(e.b.shl(e.b.add(exponent, e.like(exponent, 1023)), e.like(exponent, 52)), F64)
