"""Scalar bit fields, bit counts, packing and comparisons."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I8, I16, I32
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.ops.scalar_alu import nonzero
from wavecast.simulator.execute.registry import raw, scalar

# ---- fields ---------------------------------------------------------------------------------------------------------


def _low_bits(e: Emitter, count: ir.Value, width: int) -> ir.Value:
    """A mask of ``count`` ones from bit 0 on; all ones from ``width`` on."""
    kind = ir.IntType(width)
    ones = e.b.sub(e.b.shl(kind(1), e.b.and_(count, kind(width - 1))), kind(1))
    return e.select(e.b.icmp_unsigned(">=", count, kind(width)), kind(-1), ones)


def _extract(name: str, width: int, signed: bool) -> None:
    """Bit field: offset in the low bits of the second source, size in its bits 16 to 22."""

    @scalar(name, f"b{width}", f"b{width} u32")
    def _(e: Emitter, a: ir.Value, field: ir.Value) -> ir.Value:
        kind = ir.IntType(width)
        offset = e.convert(e.b.and_(field, I32(width - 1)), kind)
        size = e.convert(e.b.and_(e.b.lshr(field, I32(16)), I32(0x7F)), kind)
        value = e.b.and_((e.b.ashr if signed else e.b.lshr)(a, offset), _low_bits(e, size, width))
        if signed:
            whole = e.b.icmp_unsigned(">=", size, kind(width))
            spare = e.b.and_(e.b.sub(kind(width), size), kind(width - 1))
            extended = e.b.ashr(e.b.shl(value, spare), spare)
            empty = e.b.icmp_unsigned("==", size, kind(0))
            value = e.select(whole, value, e.select(empty, kind(0), extended))
        return nonzero(e, value)


for _width in (32, 64):
    _extract(f"s_bfe_u{_width}", _width, False)
    _extract(f"s_bfe_i{_width}", _width, True)


@scalar("s_bfm_b32", "b32", "b32 b32")
@scalar("s_bfm_b64", "b64", "b32 b32")
def _(e: Emitter, size: ir.Value, offset: ir.Value) -> ir.Value:
    width = 64 if e.form.opcode.endswith("64") else 32
    kind = ir.IntType(width)
    places = [e.convert(e.b.and_(value, I32(width - 1)), kind) for value in (size, offset)]
    return e.b.shl(e.b.sub(e.b.shl(kind(1), places[0]), kind(1)), places[1])


def _set_bit(name: str, width: int, one: bool) -> None:
    @raw(name, f"b{width} u32")
    def _(e: Emitter) -> None:
        kind = ir.IntType(width)
        old = e.read_scalar(0, f"b{width}")
        place = e.convert(e.b.and_(e.read_scalar(1, "u32"), I32(width - 1)), kind)
        bit = e.b.shl(kind(1), place)
        e.write_scalar(0, e.b.or_(old, bit) if one else e.b.and_(old, e.b.xor(bit, kind(-1))))


for _width in (32, 64):
    _set_bit(f"s_bitset0_b{_width}", _width, False)
    _set_bit(f"s_bitset1_b{_width}", _width, True)


# ---- counting and order ---------------------------------------------------------------------------------------------


def _count_bits(name: str, width: int, ones: bool) -> None:
    @scalar(name, "i32", f"b{width}")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        value = a if ones else e.b.xor(a, e.like(a, -1))
        return nonzero(e, e.convert(e.intrinsic("llvm.ctpop", a.type, [value]), I32))


def _first_bit(name: str, width: int, ones: bool) -> None:
    """Position of the lowest bit that is set (or clear); -1 if there is none."""

    @scalar(name, "i32", f"b{width}")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        value = a if ones else e.b.xor(a, e.like(a, -1))
        place = e.convert(e.intrinsic("llvm.cttz", a.type, [value, I1(0)]), I32)
        return e.select(e.b.icmp_unsigned("==", value, e.like(value, 0)), I32(-1), place)


for _width in (32, 64):
    for _bit in (0, 1):
        _count_bits(f"s_bcnt{_bit}_i32_b{_width}", _width, bool(_bit))
        _first_bit(f"s_ff{_bit}_i32_b{_width}", _width, bool(_bit))


def _leading(name: str, source: str, signed: bool) -> None:
    """Number of bits above the first one that is set (signed: that differs from the sign); -1 if there is none."""

    @scalar(name, "i32", source)
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        value = e.b.xor(a, e.b.ashr(a, e.like(a, a.type.width - 1))) if signed else a
        count = e.convert(e.intrinsic("llvm.ctlz", a.type, [value, I1(0)]), I32)
        return e.select(e.b.icmp_unsigned("==", value, e.like(value, 0)), I32(-1), count)


_leading("s_flbit_i32_b32", "b32", False)
_leading("s_flbit_i32_b64", "b64", False)
_leading("s_flbit_i32", "i32", True)
_leading("s_flbit_i32_i64", "i64", True)


@scalar("s_brev_b32", "b32", "b32")
@scalar("s_brev_b64", "b64", "b64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.bitreverse", a.type, [a])


def _whole_groups(e: Emitter, a: ir.Value) -> ir.Value:
    """For each group of four bits, bit 0 of the group says whether any of them is set."""
    pairs = e.b.or_(a, e.b.lshr(a, e.like(a, 1)))
    quads = e.b.or_(pairs, e.b.lshr(pairs, e.like(a, 2)))
    return e.b.and_(quads, e.like(a, 0x1111111111111111 & ((1 << a.type.width) - 1)))


@scalar("s_wqm_b32", "b32", "b32")
@scalar("s_wqm_b64", "b64", "b64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return nonzero(e, e.b.mul(_whole_groups(e, a), e.like(a, 15)))


# ---- extension and packing ------------------------------------------------------------------------------------------


def _sign_extend(name: str, element: ir.IntType) -> None:
    @scalar(name, "i32", "b32")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        return e.b.sext(e.b.trunc(a, element), I32)


_sign_extend("s_sext_i32_i8", I8)
_sign_extend("s_sext_i32_i16", I16)


def _pack(name: str, low_half: int, high_half: int) -> None:
    @scalar(name, "b32", "b32 b32")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        low = e.b.lshr(a, I32(16)) if low_half else e.b.and_(a, I32(0xFFFF))
        high = e.b.and_(b, I32(0xFFFF0000)) if high_half else e.b.shl(b, I32(16))
        return e.b.or_(low, high)


_pack("s_pack_ll_b32_b16", 0, 0)
_pack("s_pack_lh_b32_b16", 0, 1)
_pack("s_pack_hh_b32_b16", 1, 1)


# ---- comparisons ----------------------------------------------------------------------------------------------------

_RELATIONS = {"eq": "==", "lg": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def _compare(name: str, sources: str, relation: str, signed: bool) -> None:
    @scalar(name, "", sources)
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> None:
        b = e.convert(b, a.type, signed=signed)
        e.set_scc((e.b.icmp_signed if signed else e.b.icmp_unsigned)(relation, a, b))


for _name, _relation in _RELATIONS.items():
    for _type in ("i32", "u32"):
        _compare(f"s_cmp_{_name}_{_type}", f"{_type} {_type}", _relation, _type == "i32")
        # The constant of an i32 comparison is sign-extended, that of a u32 comparison is not.
        _compare(f"s_cmpk_{_name}_{_type}", f"{_type} {_type[0]}16", _relation, _type == "i32")
for _name in ("eq", "lg"):
    _compare(f"s_cmp_{_name}_u64", "u64 u64", _RELATIONS[_name], False)


def _test_bit(name: str, width: int, expected: int) -> None:
    @scalar(name, "", f"b{width} u32")
    def _(e: Emitter, a: ir.Value, place: ir.Value) -> None:
        shifted = e.b.lshr(a, e.convert(e.b.and_(place, I32(width - 1)), ir.IntType(width)))
        bit = e.b.trunc(shifted, I1)
        e.set_scc(bit if expected else e.b.xor(bit, I1(1)))


for _width in (32, 64):
    for _bit in (0, 1):
        _test_bit(f"s_bitcmp{_bit}_b{_width}", _width, _bit)
