"""Approximate functions of one argument: reciprocal, roots, exponential, logarithm, sine, cosine.

The hardware's tables are not public. What stands here is a host computation with a stated error; ``docs/concepts/
exactness.md`` lists the bounds. Single-precision functions flush denormal arguments and results to zero whatever MODE
says, which is what LLVM assumes of them when it scales around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from llvmlite import ir

from wavecast.simulator.execute.builder import F32, F64, I64, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import flushed, is_nan, magnitude, power_of_two, raw_bits, to_half
from wavecast.simulator.execute.registry import vector
from wavecast.simulator.execute.state import StateEmitter

# Adding it to a number of moderate size rounds to an integer, which then stands in the low bits of the pattern.
_ROUNDER = 1.5 * 2.0**23
Function = Callable[[StateEmitter, ir.Value], ir.Value]


def _polynomial(e: StateEmitter, value: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Horner's scheme, lowest coefficient first."""
    result = e.like(value, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = e.intrinsic("llvm.fma", value.type, [result, value, e.like(value, coefficient)])
    return result


def _nearest_integer(e: StateEmitter, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The nearest integer as f32 and as i32, for |value| < 2**22."""
    shifted = e.b.fadd(value, e.like(value, _ROUNDER))
    bits = raw_bits(e, shifted)
    base = raw_bits(e, e.like(value, _ROUNDER))
    return e.b.fsub(shifted, e.like(value, _ROUNDER)), e.b.sub(bits, base)


def reciprocal(e: StateEmitter, value: ir.Value) -> ir.Value:
    """1 / value, correctly rounded."""
    return e.b.fdiv(e.like(value, 1.0), value)


def square_root(e: StateEmitter, value: ir.Value) -> ir.Value:
    """Correctly rounded; NaN below zero, -0 for -0."""
    return e.intrinsic("llvm.sqrt", value.type, [value])


def reciprocal_root(e: StateEmitter, value: ir.Value) -> ir.Value:
    """1 / sqrt(value); a correction by the two residuals takes the error below 0.51 units in the last place."""
    # The residuals of tiny arguments would be denormal.
    power = 256 if value.type.element == F64 else 32
    tiny = e.b.fcmp_ordered("<", value, e.like(value, 2.0 ** (-2 * power)))
    scaled = e.select(tiny, e.b.fmul(value, e.like(value, 2.0 ** (2 * power))), value)
    root = square_root(e, scaled)
    first = reciprocal(e, root)
    minus = e.b.fneg(root)
    residual = e.intrinsic("llvm.fma", value.type, [minus, root, scaled])
    quotient_residual = e.intrinsic("llvm.fma", value.type, [minus, first, e.like(value, 1.0)])
    half = e.b.fmul(e.b.fmul(residual, first), e.b.fmul(first, e.like(value, -0.5)))
    better = e.intrinsic("llvm.fma", value.type, [e.b.fadd(quotient_residual, half), first, first])
    # 0 and infinity have no residual.
    result = e.select(is_nan(e, better), first, better)
    return e.select(tiny, e.b.fmul(result, e.like(value, 2.0**power)), result)


def exponential(e: StateEmitter, value: ir.Value) -> ir.Value:
    """2**value in f32: a Taylor polynomial in f64 on the fraction within ±1/2, exact for integers."""
    low = e.b.fcmp_ordered("<", value, e.like(value, -200.0))
    limited = e.select(low, e.like(value, -200.0), value)
    high = e.b.fcmp_ordered(">", value, e.like(value, 200.0))
    limited = e.select(high, e.like(value, 200.0), limited)
    whole, integer = _nearest_integer(e, limited)
    fraction = e.b.fpext(e.b.fsub(limited, whole), lanes_of(F64, value.type.count))
    coefficients = [math.log(2.0) ** k / math.factorial(k) for k in range(9)]
    power = _polynomial(e, fraction, coefficients)
    scaled = e.b.fmul(power, power_of_two(e, e.convert(integer, I64, signed=True)))
    return e.b.fptrunc(scaled, value.type)


def logarithm(e: StateEmitter, value: ir.Value) -> ir.Value:
    """log2(value) in f32 for normal numbers: an odd series in f64 of (m - 1) / (m + 1), exact for powers of two."""
    bits = raw_bits(e, value)
    # The mantissa is taken in sqrt(1/2)…sqrt(2), so that arguments near 1 lose nothing by cancellation.
    offset = e.like(bits, 0x3F800000 - 0x3F3504F3)
    moved = e.b.add(bits, offset)
    exponent = e.b.sub(e.b.ashr(moved, e.like(moved, 23)), e.like(moved, 127))
    mantissa_bits = e.b.sub(bits, e.b.shl(exponent, e.like(exponent, 23)))
    mantissa = e.b.fpext(e.bitcast(mantissa_bits, F32), lanes_of(F64, value.type.count))
    ratio = e.b.fdiv(e.b.fsub(mantissa, e.like(mantissa, 1.0)), e.b.fadd(mantissa, e.like(mantissa, 1.0)))
    square = e.b.fmul(ratio, ratio)
    series = _polynomial(e, square, [2.0 / (math.log(2.0) * (2 * k + 1)) for k in range(8)])
    whole = e.b.sitofp(exponent, lanes_of(F64, value.type.count))
    result = e.b.fptrunc(e.intrinsic("llvm.fma", ratio.type, [ratio, series, whole]), value.type)
    infinity = e.like(value, float("inf"))
    result = e.select(e.b.fcmp_ordered("==", value, infinity), infinity, result)
    result = e.select(e.b.fcmp_ordered("==", value, e.like(value, 0.0)), e.b.fneg(infinity), result)
    invalid = e.b.fcmp_unordered("<", value, e.like(value, 0.0))
    return e.select(invalid, e.like(value, float("nan")), result)


def _turn(e: StateEmitter, value: ir.Value, quarter: int) -> ir.Value:
    """sin(2 pi (value + quarter / 4)) in f32: Taylor polynomials in f64 on an eighth of a turn, exact at quarters."""
    # Beyond ±256 turns the hardware's argument is out of range: sin gives 0 there, cos 1.
    inside = e.b.fcmp_ordered("<=", magnitude(e, value), e.like(value, 256.0))
    limited = e.select(inside, value, e.like(value, 0.0))
    whole, _ = _nearest_integer(e, limited)
    turn = e.b.fsub(limited, whole)
    quarters, integer = _nearest_integer(e, e.b.fmul(turn, e.like(turn, 4.0)))
    rest = e.b.fsub(turn, e.b.fmul(quarters, e.like(turn, 0.25)))
    turned = e.b.fpext(rest, lanes_of(F64, value.type.count))
    angle = e.b.fmul(turned, e.like(turned, 2.0 * math.pi))
    square = e.b.fmul(angle, angle)
    sine = e.b.fmul(angle, _polynomial(e, square, [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)]))
    cosine = _polynomial(e, square, [(-1.0) ** k / math.factorial(2 * k) for k in range(8)])
    index = e.b.add(integer, e.like(integer, quarter))
    odd = e.b.icmp_unsigned("!=", e.b.and_(index, e.like(index, 1)), e.like(index, 0))
    negative = e.b.icmp_unsigned("!=", e.b.and_(index, e.like(index, 2)), e.like(index, 0))
    chosen = e.select(odd, cosine, sine)
    result = e.b.fptrunc(e.select(negative, e.b.fneg(chosen), chosen), value.type)
    endless = e.b.fcmp_unordered("==", magnitude(e, value), e.like(value, float("inf")))
    return e.select(endless, e.like(value, float("nan")), result)


def sine(e: StateEmitter, value: ir.Value) -> ir.Value:
    """sin(2 pi value)."""
    return _turn(e, value, 0)


def cosine(e: StateEmitter, value: ir.Value) -> ir.Value:
    """cos(2 pi value)."""
    return _turn(e, value, 1)


def _register(name: str, function: Function) -> None:
    aliases = ["v_rcp_f32", "v_rcp_iflag_f32"] if name == "rcp" else [f"v_{name}_f32"]

    @vector(aliases, "f32", "f32")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        return flushed(e, function(e, flushed(e, a)))

    @vector(f"v_{name}_f16", "f16", "f16")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        return to_half(e, function(e, e.b.fpext(a, lanes_of(F32))))


for _name, _function in (
    ("rcp", reciprocal),
    ("sqrt", square_root),
    ("rsq", reciprocal_root),
    ("exp", exponential),
    ("log", logarithm),
    ("sin", sine),
    ("cos", cosine),
):
    _register(_name, _function)


@vector("v_rcp_f64", "f64", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return reciprocal(e, a)


@vector("v_sqrt_f64", "f64", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return square_root(e, a)


@vector("v_rsq_f64", "f64", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return reciprocal_root(e, a)
