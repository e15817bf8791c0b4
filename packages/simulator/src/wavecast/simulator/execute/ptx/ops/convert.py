"""``cvt``: between integers, floats of all widths, and packed pairs of 8-bit and 16-bit floats."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, F64, I16, I32, lanes_of
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.ops.arithmetic import not_negative, single_to_odd
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import element_of, is_float, type_width
from wavecast.simulator.execute.small_float import E4M3_OCP, E5M2_OCP, SmallFloat, decode, encode_saturated

_EIGHT_BITS: dict[str, SmallFloat] = {"e4m3x2": E4M3_OCP, "e5m2x2": E5M2_OCP}
_TO_INTEGRAL = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_MODES = ("rn", "rna", "ftz", "sat", "satfinite", "relu", "scaled", *_TO_INTEGRAL)
_FLOATS = {"f16": F16, "f32": F32, "f64": F64}


@ptx("cvt")
def _(e: WarpEmitter) -> None:
    e.expect_parts(*_MODES)
    target, source = e.types
    if target in _EIGHT_BITS:
        _to_eight_bits(e, target, source)
    elif source in _EIGHT_BITS:
        _from_eight_bits(e, target, source)
    elif target.endswith("x2"):
        _to_pair(e, target, source)
    elif is_float(source) and is_float(target):
        _between_floats(e, target, source)
    elif is_float(source):
        _to_integer(e, target, source)
    elif is_float(target):
        _from_integer(e, target, source)
    else:
        _between_integers(e, target, source)


def _between_integers(e: WarpEmitter, target: str, source: str) -> None:
    value = e.read(1, source)
    element = element_of(target)
    if e.has("sat"):
        value = _saturated(e, value, target, source)
    e.write_bits(0, e.convert(value, element, signed=source[0] == "s"), signed=target[0] == "s")


def _saturated(e: WarpEmitter, value: ir.Value, target: str, source: str) -> ir.Value:
    """Clamped to the range of the target, in a type that holds both ranges."""
    wide = e.convert(value, ir.IntType(128), signed=source[0] == "s")
    width = type_width(target)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if target[0] == "s" else (0, (1 << width) - 1)
    limited = e.intrinsic("llvm.smax", wide.type, [wide, e.like(wide, low)])
    return e.intrinsic("llvm.smin", wide.type, [limited, e.like(wide, high)])


def _source(e: WarpEmitter, position: int, name: str) -> ir.Value:
    value = e.read(position, name)
    return e.flushed(value) if e.has("ftz") and name == "f32" else value


def _to_integer(e: WarpEmitter, target: str, source: str) -> None:
    """Rounded as the opcode says, clamped to the range; NaN becomes 0."""
    value = e.single(_source(e, 1, source), source)
    mode = next((part for part in e.parts if part in _TO_INTEGRAL), None)
    if mode is None:
        raise NotImplementedError(f"a conversion from .{source} to .{target} without a rounding to an integer")
    integral = e.intrinsic(f"llvm.{_TO_INTEGRAL[mode]}", value.type, [value])
    element = element_of(target)
    wide = lanes_of(element, e.lanes)
    sign = "s" if target[0] == "s" else "u"
    kind = "f64" if value.type.element == F64 else "f32"
    name = f"llvm.fpto{sign}i.sat.v{e.lanes}i{element.width}.v{e.lanes}{kind}"
    e.write_bits(0, e.call(name, wide, [integral]), signed=target[0] == "s")


def _from_integer(e: WarpEmitter, target: str, source: str) -> None:
    if not e.has("rn"):
        raise NotImplementedError("a conversion from an integer that does not round to nearest even")
    value = e.read(1, source)
    # Through f64 where f32 would round first; 64 bits have no such way, and go to f32 and f64 only.
    width = type_width(source)
    direct = target if target in ("f32", "f64") else "f64" if width <= 32 else ""
    if not direct:
        raise NotImplementedError(f"a conversion from .{source} to .{target}")
    wide = lanes_of(_FLOATS[direct], e.lanes)
    number = e.b.sitofp(value, wide) if source[0] == "s" else e.b.uitofp(value, wide)
    if target == "bf16":
        number = e.to_bfloat(single_to_odd(e, number))
    elif target != direct:
        number = e.b.fptrunc(number, lanes_of(_FLOATS[target], e.lanes))
    e.write(0, target, number)


def _between_floats(e: WarpEmitter, target: str, source: str) -> None:
    value = _source(e, 1, source)
    mode = next((part for part in e.parts if part in _TO_INTEGRAL), None)
    if mode is not None and target == source:
        single = e.single(value, source)
        integral = e.intrinsic(f"llvm.{_TO_INTEGRAL[mode]}", single.type, [single])
        e.write(0, target, e.rounded(integral, target))
        return
    if target == "tf32":
        _to_tf32(e, value)
        return
    if source == "f64" and target in ("f16", "bf16"):
        value = single_to_odd(e, value)
        e.write(0, target, e.rounded(value, target))
        return
    wide = e.single(value, source)
    if target == "f64":
        wide = wide if source == "f64" else e.b.fpext(wide, lanes_of(F64, e.lanes))
    elif wide.type.element == F64:
        wide = e.b.fptrunc(wide, lanes_of(F32, e.lanes))
    wide = _limited(e, wide, target)
    if target == "f32" and e.has("ftz"):
        wide = e.flushed(wide)
    e.write(0, target, e.rounded(wide, target))


def _limited(e: WarpEmitter, value: ir.Value, target: str) -> ir.Value:
    """What ``.sat``, ``.satfinite`` and ``.relu`` ask for, before the rounding to the target."""
    if e.has("sat"):
        zero, one = e.like(value, 0.0), e.like(value, 1.0)
        positive = e.b.fcmp_ordered(">", value, zero)
        value = e.select(positive, e.select(e.b.fcmp_ordered("<", value, one), value, one), zero)
    if e.has("relu"):
        value = not_negative(e, value)
    if e.has("satfinite"):
        most = {"f16": 65504.0, "bf16": 3.3895313892515355e38}[target.removesuffix("x2")]
        value = clamped(e, value, most)
    return value


def clamped(e: WarpEmitter, value: ir.Value, most: float) -> ir.Value:
    """To -most…most; NaN stays."""
    above = e.b.fcmp_ordered(">", value, e.like(value, most))
    value = e.select(above, e.like(value, most), value)
    below = e.b.fcmp_ordered("<", value, e.like(value, -most))
    return e.select(below, e.like(value, -most), value)


def _to_tf32(e: WarpEmitter, value: ir.Value) -> None:
    """Ten fraction bits: nearest, ties away from zero (``.rna``) or to even (``.rn``)."""
    bits = e.bitcast(value, I32)
    if e.has("rna"):
        rounded = e.b.add(bits, e.like(bits, 0x1000))
    else:
        odd = e.b.and_(e.b.lshr(bits, e.like(bits, 13)), e.like(bits, 1))
        rounded = e.b.add(bits, e.b.add(odd, e.like(bits, 0xFFF)))
    rounded = e.b.and_(rounded, e.like(bits, 0xFFFFE000))
    special = e.b.icmp_unsigned(">=", e.b.and_(bits, e.like(bits, 0x7FFFFFFF)), e.like(bits, 0x7F800000))
    # A NaN is cut off like any other number.
    e.write_bits(0, e.select(special, e.b.and_(bits, e.like(bits, 0xFFFFE000)), rounded))


def _pair(e: WarpEmitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Elements of two vectors in turn."""
    return e.shuffle(low, [part * e.lanes + lane for lane in range(e.lanes) for part in (0, 1)], high)


def _to_pair(e: WarpEmitter, target: str, source: str) -> None:
    """Two f32 to one register: the first becomes the upper half."""
    if source != "f32" or not e.has("rn"):
        raise NotImplementedError(f"a conversion to .{target} from .{source} that does not round to nearest even")
    high, low = (_limited(e, _source(e, position, "f32"), target) for position in (1, 2))
    e.write(0, target, e.rounded(_pair(e, low, high), target))


def _to_eight_bits(e: WarpEmitter, target: str, source: str) -> None:
    if not e.has("satfinite"):
        raise NotImplementedError("a conversion to 8 bits that does not saturate")
    if source == "f32":
        high, low = (_source(e, position, "f32") for position in (1, 2))
    else:
        values = e.single(e.read(1, source), source)
        low, high = (e.shuffle(values, [2 * lane + part for lane in range(e.lanes)]) for part in (0, 1))
    codes = []
    for value in (low, high):
        if e.has("relu"):
            value = not_negative(e, value)
        codes.append(encode_saturated(e, value, _EIGHT_BITS[target]))
    e.write_bits(0, e.convert(e.b.or_(codes[0], e.b.shl(codes[1], e.like(codes[1], 8))), I16))


def _from_eight_bits(e: WarpEmitter, target: str, source: str) -> None:
    if target != "f16x2":
        raise NotImplementedError(f"a conversion from .{source} to .{target}")
    codes = e.bits(1, 32)
    low, high = (
        decode(e, e.b.and_(e.b.lshr(codes, e.like(codes, shift)), e.like(codes, 0xFF)), _EIGHT_BITS[source])
        for shift in (0, 8)
    )
    e.write(0, target, e.rounded(_pair(e, low, high), target))
