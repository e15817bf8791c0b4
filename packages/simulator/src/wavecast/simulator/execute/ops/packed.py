"""Packed arithmetic: two single-precision numbers in a register pair, or two 16-bit values in a register.

``op_sel`` and ``op_sel_hi`` choose, source by source, which part feeds the low and the high result; ``neg_lo`` and
``neg_hi`` negate it there.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.builder import F16, F32, I16, I32, lanes_of
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.numeric import fma_half, larger, limit_half, smaller, two_rows
from wavecast.simulator.execute.registry import raw

Semantics = Callable[..., ir.Value]


# ---- two single-precision numbers ------------------------------------------------------------------------------------


def _single(e: Emitter, index: int, *, high: bool) -> ir.Value:
    """One half of a 64-bit source as <64 x i32>."""
    position = 1 + index
    operand = e.form.operands[position]
    if operand.negate or operand.absolute:
        raise NotImplementedError("a packed source with a modifier other than neg_lo and neg_hi")
    if operand.kind == "v":
        return e.load_rows(e.row(position, 1 if high else 0))
    if operand.kind == "s":
        pointer = e.slot(position)
        return e.splat(e.b.load(e.at(pointer, 4) if high else pointer, typ=I32, align=4))
    if operand.kind == "zero":
        return e.splat(I32(0))
    if operand.kind == "k" and not high:
        return e.splat(e.convert(e.argument(position), I32))
    raise NotImplementedError("the high half of a constant as a packed source")


def _packed_single(name: str, sources: int, semantics: Semantics) -> None:
    @raw(name, " ".join(["b64"] + ["f32x2"] * sources))
    def _(e: Emitter) -> None:
        results = []
        for select, negate, default in (("op_sel", "neg_lo", 0), ("op_sel_hi", "neg_hi", 1)):
            high, minus = e.form.bits(select, sources, default), e.form.bits(negate, sources)
            singles = (e.bitcast(_single(e, i, high=bool(high[i])), F32) for i in range(sources))
            values = [e.source_by_mode(single) for single in singles]
            result = semantics(e, *(e.b.fneg(v) if minus[i] else v for i, v in enumerate(values)))
            results.append(e.result_by_mode(result))
        # Both halves are computed before either is written: the destination may overlap a source.
        e.write(0, "b64", two_rows(e, *results))


_packed_single("v_pk_add_f32", 2, lambda e, a, b: e.b.fadd(a, b))
_packed_single("v_pk_mul_f32", 2, lambda e, a, b: e.b.fmul(a, b))
_packed_single("v_pk_fma_f32", 3, lambda e, a, b, c: e.intrinsic("llvm.fma", a.type, [a, b, c]))


@raw("v_pk_mov_b32", "b64 b32 b32")
def _(e: Emitter) -> None:
    """The low result from the first source, the high one from the second; op_sel_hi says nothing here."""
    e.form.bits("op_sel_hi", 2)
    high = e.form.bits("op_sel", 2)
    low, top = (e.bitcast(_single(e, i, high=bool(high[i])), F32) for i in range(2))
    e.write(0, "b64", two_rows(e, low, top))


# ---- two 16-bit values -----------------------------------------------------------------------------------------------


def _arranged(e: Emitter, word: ir.Value, low: int, high: int) -> ir.Value:
    """A register whose low half is half ``low`` of ``word`` and whose high half is half ``high``."""
    if (low, high) == (0, 1):
        return word
    sixteen, mask = e.like(word, 16), e.like(word, 0xFFFF)
    first = e.b.lshr(word, sixteen) if low else e.b.and_(word, mask)
    second = e.b.and_(word, e.like(word, 0xFFFF0000)) if high else e.b.shl(word, sixteen)
    return e.b.or_(first, second)


def pair_source(e: Emitter, index: int, sources: int) -> ir.Value:
    """A packed 16-bit source as <64 x i32>, op_sel, op_sel_hi, neg_lo and neg_hi applied."""
    position = 1 + index
    operand = e.form.operands[position]
    if operand.negate or operand.absolute:
        raise NotImplementedError("a packed source with a modifier other than neg_lo and neg_hi")
    word = e.read(position, "b32", modifiers=False)
    low, high = e.form.bits("op_sel", sources)[index], e.form.bits("op_sel_hi", sources, 1)[index]
    signs = e.form.bits("neg_lo", sources)[index] << 15 | e.form.bits("neg_hi", sources)[index] << 31
    word = _arranged(e, word, low, high)
    return e.b.xor(word, e.like(word, signs)) if signs else word


def _halves(e: Emitter, word: ir.Value, element: ir.Type) -> ir.Value:
    return e.b.bitcast(word, lanes_of(element, 2 * LANES))


def _packed_half(name: str, sources: int, semantics: Semantics) -> None:
    @raw(name, " ".join(["b32"] + ["f16"] * sources))
    def _(e: Emitter) -> None:
        values = [_halves(e, pair_source(e, i, sources), F16) for i in range(sources)]
        result = semantics(e, *values)
        if e.form.modifier("clamp"):
            result = e.clamp_unit(result)
        e.write(0, "b32", e.b.bitcast(result, lanes_of(I32)))


def _maximum(e: Emitter, *values: ir.Value) -> ir.Value:
    first = e.intrinsic("llvm.maximum", values[0].type, values[:2])
    return e.intrinsic("llvm.maximum", first.type, [first, values[2]])


def _minimum(e: Emitter, *values: ir.Value) -> ir.Value:
    first = e.intrinsic("llvm.minimum", values[0].type, values[:2])
    return e.intrinsic("llvm.minimum", first.type, [first, values[2]])


_packed_half("v_pk_add_f16", 2, lambda e, a, b: limit_half(e, e.b.fadd(a, b), [a, b]))
_packed_half("v_pk_mul_f16", 2, lambda e, a, b: limit_half(e, e.b.fmul(a, b), [a, b]))
_packed_half("v_pk_fma_f16", 3, lambda e, a, b, c: limit_half(e, fma_half(e, a, b, c), [a, b, c]))
_packed_half("v_pk_max_f16", 2, larger)
_packed_half("v_pk_min_f16", 2, smaller)
_packed_half("v_pk_maximum3_f16", 3, _maximum)
_packed_half("v_pk_minimum3_f16", 3, _minimum)


@raw("v_pk_fmac_f16", "b32 b32 b32")
def _(e: Emitter) -> None:
    """A VOP2 opcode: no selection and no signs, and the destination is the third source."""
    words = [e.read(1, "b32"), e.read(2, "b32"), e.load_rows(e.row(0))]
    values = [_halves(e, word, F16) for word in words]
    e.write(0, "b32", e.b.bitcast(limit_half(e, fma_half(e, *values), values), lanes_of(I32)))


def _packed_integer(name: str, sources: int, semantics: Semantics, saturating: Semantics | None = None) -> None:
    @raw(name, " ".join(["b32"] * (sources + 1)))
    def _(e: Emitter) -> None:
        if any(e.form.bits("neg_lo", sources)) or any(e.form.bits("neg_hi", sources)):
            raise NotImplementedError("a negated integer source")
        values = [_halves(e, pair_source(e, i, sources), I16) for i in range(sources)]
        # Without a saturating variant nobody asks for clamp, and the form is refused.
        clamped = saturating is not None and e.form.modifier("clamp")
        result = saturating(e, *values) if saturating is not None and clamped else semantics(e, *values)
        e.write(0, "b32", e.b.bitcast(result, lanes_of(I32)))


def _intrinsic(name: str) -> Semantics:
    return lambda e, a, b: e.intrinsic(name, a.type, [a, b])


def _count(e: Emitter, count: ir.Value) -> ir.Value:
    return e.b.and_(count, e.like(count, 15))


_packed_integer("v_pk_add_u16", 2, lambda e, a, b: e.b.add(a, b), _intrinsic("llvm.uadd.sat"))
_packed_integer("v_pk_add_i16", 2, lambda e, a, b: e.b.add(a, b), _intrinsic("llvm.sadd.sat"))
_packed_integer("v_pk_sub_u16", 2, lambda e, a, b: e.b.sub(a, b), _intrinsic("llvm.usub.sat"))
_packed_integer("v_pk_sub_i16", 2, lambda e, a, b: e.b.sub(a, b), _intrinsic("llvm.ssub.sat"))
_packed_integer("v_pk_mul_lo_u16", 2, lambda e, a, b: e.b.mul(a, b))
for _type in ("u16", "i16"):
    _packed_integer(f"v_pk_mad_{_type}", 3, lambda e, a, b, c: e.b.add(e.b.mul(a, b), c))
    _prefix = "llvm.u" if _type == "u16" else "llvm.s"
    _packed_integer(f"v_pk_max_{_type}", 2, _intrinsic(_prefix + "max"))
    _packed_integer(f"v_pk_min_{_type}", 2, _intrinsic(_prefix + "min"))
_packed_integer("v_pk_lshlrev_b16", 2, lambda e, a, b: e.b.shl(b, _count(e, a)))
_packed_integer("v_pk_lshrrev_b16", 2, lambda e, a, b: e.b.lshr(b, _count(e, a)))
_packed_integer("v_pk_ashrrev_i16", 2, lambda e, a, b: e.b.ashr(b, _count(e, a)))
