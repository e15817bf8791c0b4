"""Conversions to and from 8-bit and 4-bit floats with a block scale (gfx950).

Only the exponent of the scale operand counts: the factor is 2**(exponent - 127), as in an E8M0 byte, and exponent 255
makes the result NaN. Narrowing divides by the factor and then rounds once, widening multiplies.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.numeric import bfloat_part, half_part, limit_half, raw_bits, two_rows
from wavecast.simulator.execute.ops.convert import bfloat_pair, pair
from wavecast.simulator.execute.ops.convert_fp8 import (
    field,
    joined,
    random_bits,
    result_part,
    source_part,
)
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.small_float import decode, encode, format_of

_NAN = 0x7FC00000
# 2**-127 is a denormal: what exponent 0 stands for.
_LOWEST = 1 << 22


def _exponent(e: Emitter, position: int) -> ir.Value:
    """Exponent field of the scale, as a scalar where every lane has the same: that saves the work in the others."""
    operand = e.form.operands[position]
    if operand.kind == "v" or operand.negate or operand.absolute:
        bits = e.read(position, "b32", modifiers=False)
        return e.b.and_(e.b.lshr(bits, e.like(bits, 23)), e.like(bits, 0xFF))
    return e.b.and_(e.b.lshr(e.read_scalar(position, "b32"), I32(23)), I32(0xFF))


def _factor(e: Emitter, exponent: ir.Value) -> ir.Value:
    """2**(exponent - 127) in every lane; NaN for 255."""
    bits = e.b.shl(exponent, e.like(exponent, 23))
    bits = e.select(e.b.icmp_unsigned("==", exponent, e.like(exponent, 0)), e.like(bits, _LOWEST), bits)
    bits = e.select(e.b.icmp_unsigned("==", exponent, e.like(exponent, 255)), e.like(bits, _NAN), bits)
    return _everywhere(e, bits)


def _everywhere(e: Emitter, bits: ir.Value) -> ir.Value:
    return e.bitcast(bits if isinstance(bits.type, ir.VectorType) else e.splat(bits), F32)


def _inverse(e: Emitter, exponent: ir.Value) -> tuple[ir.Value, ir.Value]:
    """2**(127 - exponent), and 1 or, for exponent 255, NaN."""
    nan = e.b.icmp_unsigned("==", exponent, e.like(exponent, 255))
    bits = e.b.shl(e.b.sub(e.like(exponent, 254), exponent), e.like(exponent, 23))
    bits = e.select(e.b.icmp_unsigned("<", exponent, e.like(exponent, 254)), bits, e.like(bits, _LOWEST))
    return _everywhere(e, bits), _everywhere(e, e.select(nan, e.like(bits, _NAN), e.like(bits, 0x3F800000)))


def _halves(e: Emitter, word: ir.Value, source: str) -> tuple[ir.Value, ir.Value]:
    """Both 16-bit floats of a register as f32."""
    part = bfloat_part if source == "bf16" else half_part
    return part(e, word, 0), part(e, word, 1)


def _word(e: Emitter) -> ir.Value:
    """The packed first source."""
    operand = e.form.operands[1]
    if operand.negate or operand.absolute:
        raise NotImplementedError("a packed source with a modifier")
    return e.read(1, "b32")


def _store(e: Emitter, value: ir.Value, bits: int) -> None:
    """Put a result of ``bits`` bits where op_sel says, leaving the rest of the register."""
    old = e.load_rows(e.row(0))
    e.store_rows(e.row(0), field(e, old, value, result_part(e, bits), bits))


def _narrowing(name: str, source: str) -> None:
    width = 4 if name == "fp4" else 8

    def emit(e: Emitter) -> None:
        if source == "f32":
            first, second = e.read(1, "f32"), e.read(2, "f32")
        else:
            first, second = _halves(e, _word(e), source)
        factor, mark = _inverse(e, _exponent(e, 3 if source == "f32" else 2))
        codes = [encode(e, e.b.fmul(v, mark), format_of(e, name), scale=factor) for v in (first, second)]
        _store(e, joined(e, codes[0], codes[1], width), 2 * width)

    types = "b32 f32 f32 f32" if source == "f32" else "b32 b32 f32"
    raw(f"v_cvt_scalef32_pk_{name}_{source}", types, by_architecture=True)(emit)


def _stochastic(name: str, source: str) -> None:
    def emit(e: Emitter) -> None:
        if any(e.form.bits("op_sel", 4)[:2]):
            raise NotImplementedError("op_sel on a source of a stochastic conversion")
        if source == "f32":
            value = e.read(1, "f32")
        else:
            low, _ = _halves(e, e.read(1, "b32", modifiers=False), source)
            value = e.source_modifiers(low, e.form.operands[1])
        factor, mark = _inverse(e, _exponent(e, 3))
        format_ = format_of(e, name)
        seed = random_bits(e, e.read(2, "b32"), format_)
        _store(e, encode(e, e.b.fmul(value, mark), format_, scale=factor, seed=seed), 8)

    raw(
        f"v_cvt_scalef32_sr_{name}_{source}", f"b32 {'f32' if source == 'f32' else 'b32'} b32 f32", by_architecture=True
    )(emit)


def _widening_pair(name: str, target: str) -> None:
    width = 4 if name == "fp4" else 8

    def emit(e: Emitter) -> None:
        part = source_part(e, _word(e), 2 * width)
        factor = _factor(e, _exponent(e, 2))
        plain = [decode(e, code, format_of(e, name)) for code in (part, e.b.lshr(part, e.like(part, width)))]
        low, high = (e.b.fmul(value, factor) for value in plain)
        if target == "f32":
            e.write(0, "b64", two_rows(e, low, high))
        elif target == "bf16":
            e.write(0, "b32", bfloat_pair(e, low, high))
        else:
            halves = [_half(e, scaled, [value]) for scaled, value in zip((low, high), plain, strict=True)]
            e.write(0, "b32", pair(e, *halves))

    raw(f"v_cvt_scalef32_pk_{target}_{name}", f"{'b64' if target == 'f32' else 'b32'} b32 f32", by_architecture=True)(
        emit
    )


def _half(e: Emitter, scaled: ir.Value, sources: list[ir.Value]) -> ir.Value:
    return raw_bits(e, limit_half(e, e.b.fptrunc(scaled, lanes_of(F16)), sources))


def _widening_one(name: str, target: str) -> None:
    def emit(e: Emitter) -> None:
        value = decode(e, source_part(e, _word(e), 8), format_of(e, name))
        scaled = e.b.fmul(value, _factor(e, _exponent(e, 2)))
        if target == "f32":
            e.write(0, "f32", scaled)
        else:
            _store(e, e.convert(_half(e, scaled, [value]), I32), 16)

    raw(f"v_cvt_scalef32_{target}_{name}", f"{target if target == 'f32' else 'b32'} b32 f32", by_architecture=True)(
        emit
    )


_EMITTERS: list[Callable[[str, str], None]] = [_narrowing, _widening_pair]
for _emit in _EMITTERS:
    for _name in ("fp8", "bf8", "fp4"):
        for _other in ("f32", "f16", "bf16"):
            _emit(_name, _other)
for _name in ("fp8", "bf8"):
    for _other in ("f32", "f16", "bf16"):
        _stochastic(_name, _other)
    for _other in ("f32", "f16"):
        _widening_one(_name, _other)
