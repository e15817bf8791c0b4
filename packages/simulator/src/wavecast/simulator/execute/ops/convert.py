"""Conversions between integers, single, double, half precision and bfloat16."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, F64, I16, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import is_nan, magnitude, raw_bits, to_half
from wavecast.simulator.execute.ops.vector_float import rounded
from wavecast.simulator.execute.registry import vector


@vector("v_cvt_f16_f32", "f16", "f32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return to_half(e, a)


@vector("v_cvt_f32_f16", "f32", "f16")
@vector("v_cvt_f64_f32", "f64", "f32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.b.fpext(a, lanes_of(F32 if a.type.element == F16 else F64))


@vector("v_cvt_f32_f64", "f32", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.b.fptrunc(a, lanes_of(F32))


@vector("v_cvt_f32_i32", "f32", "i32")
@vector("v_cvt_f64_i32", "f64", "i32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.b.sitofp(a, lanes_of(F64 if e.form.opcode == "v_cvt_f64_i32" else F32))


@vector("v_cvt_f32_u32", "f32", "u32")
@vector("v_cvt_f64_u32", "f64", "u32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.b.uitofp(a, lanes_of(F64 if e.form.opcode == "v_cvt_f64_u32" else F32))


# 16-bit integers are exact in single precision, so that the rounding to half is the only one.
@vector("v_cvt_f16_i16", "f16", "i16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return to_half(e, e.b.sitofp(a, lanes_of(F32)))


@vector("v_cvt_f16_u16", "f16", "u16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return to_half(e, e.b.uitofp(a, lanes_of(F32)))


def _saturated(e: Emitter, value: ir.Value, element: ir.IntType, *, signed: bool) -> ir.Value:
    """Round towards zero; out of range gives the nearest integer there is, NaN 0.

    Written out, because LLVM's saturating conversion of a vector is several times slower.
    """
    target = lanes_of(element, value.type.count)
    width = element.width - 1 if signed else element.width
    plain = e.b.fptosi(value, target) if signed else e.b.fptoui(value, target)
    above = e.b.fcmp_ordered(">=", value, e.like(value, 2.0**width))
    result = e.select(above, e.constant(target, (1 << width) - 1), plain)
    if not signed:
        # Everything above -1 is cut to 0 or more; the rest, NaN too, is 0.
        return e.select(e.b.fcmp_ordered(">", value, e.like(value, -1.0)), result, e.constant(target, 0))
    result = e.select(
        e.b.fcmp_ordered(">=", value, e.like(value, -(2.0**width))), result, e.constant(target, -(1 << width))
    )
    return e.select(is_nan(e, value), e.constant(target, 0), result)


@vector("v_cvt_i32_f32", "i32", "f32")
@vector("v_cvt_i32_f64", "i32", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _saturated(e, a, I32, signed=True)


@vector("v_cvt_u32_f32", "u32", "f32")
@vector("v_cvt_u32_f64", "u32", "f64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _saturated(e, a, I32, signed=False)


@vector("v_cvt_i16_f16", "i16", "f16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _saturated(e, e.b.fpext(a, lanes_of(F32)), I16, signed=True)


@vector("v_cvt_u16_f16", "u16", "f16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _saturated(e, e.b.fpext(a, lanes_of(F32)), I16, signed=False)


@vector("v_cvt_flr_i32_f32", "i32", "f32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _saturated(e, rounded(e, "llvm.floor", a), I32, signed=True)


@vector("v_cvt_rpi_i32_f32", "i32", "f32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    """Nearest, halves upwards. The sum is rounded like every f32 sum: 0.49999997 gives 1."""
    return _saturated(e, rounded(e, "llvm.floor", e.b.fadd(a, e.like(a, 0.5))), I32, signed=True)


def _byte_to_float(index: int) -> None:
    @vector(f"v_cvt_f32_ubyte{index}", "f32", "b32")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        byte = e.b.and_(e.b.lshr(a, e.like(a, 8 * index)), e.like(a, 0xFF))
        return e.b.sitofp(byte, lanes_of(F32))


for _index in range(4):
    _byte_to_float(_index)


# ---- two results in one register ------------------------------------------------------------------------------------


def pair(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two 16-bit vectors side by side in 32 bits a lane."""
    wide = e.convert(high, I32)
    return e.b.or_(e.convert(low, I32), e.b.shl(wide, e.like(wide, 16)))


@vector("v_pack_b32_f16", "b32", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(e, raw_bits(e, a), raw_bits(e, b))


@vector("v_cvt_pk_f16_f32", "b32", "f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(e, raw_bits(e, to_half(e, a)), raw_bits(e, to_half(e, b)))


def _towards_zero(e: Emitter, value: ir.Value) -> ir.Value:
    """Single to half precision by truncation: one step back where the nearest half is larger."""
    half = e.b.fptrunc(value, lanes_of(F16))
    larger = e.b.fcmp_ordered(">", magnitude(e, e.b.fpext(half, value.type)), magnitude(e, value))
    bits = raw_bits(e, half)
    return e.select(larger, e.b.sub(bits, e.like(bits, 1)), bits)


@vector("v_cvt_pkrtz_f16_f32", "b32", "f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(e, _towards_zero(e, a), _towards_zero(e, b))


def bfloat_high(e: Emitter, value: ir.Value) -> ir.Value:
    """Single precision to bfloat16, nearest even, in the high half of 32 bits; the low half is garbage.

    Not left to LLVM: the host's own instruction flushes denormals.
    """
    bits = raw_bits(e, value)
    lowest = e.b.and_(e.b.lshr(bits, e.like(bits, 16)), e.like(bits, 1))
    nearest = e.b.add(e.b.add(bits, e.like(bits, 0x7FFF)), lowest)
    return e.select(is_nan(e, value), e.b.or_(bits, e.like(bits, 1 << 22)), nearest)


def bfloat_pair(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two f32 vectors as bfloat16 side by side in 32 bits a lane."""
    first, second = bfloat_high(e, low), bfloat_high(e, high)
    return e.b.or_(e.b.lshr(first, e.like(first, 16)), e.b.and_(second, e.like(second, 0xFFFF0000)))


@vector("v_cvt_pk_bf16_f32", "b32", "f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return bfloat_pair(e, a, b)


@vector("v_cvt_pk_i16_i32", "b32", "i32 i32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(e, _narrowed(e, a, signed=True), _narrowed(e, b, signed=True))


@vector("v_cvt_pk_u16_u32", "b32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return pair(e, _narrowed(e, a, signed=False), _narrowed(e, b, signed=False))


def _narrowed(e: Emitter, value: ir.Value, *, signed: bool) -> ir.Value:
    if not signed:
        return e.convert(e.intrinsic("llvm.umin", value.type, [value, e.like(value, 0xFFFF)]), I16)
    low = e.intrinsic("llvm.smax", value.type, [value, e.like(value, -0x8000)])
    return e.convert(e.intrinsic("llvm.smin", value.type, [low, e.like(value, 0x7FFF)]), I16)
