"""Scalar arithmetic, logic, shifts and moves on 32 and 64 bits, with their effect on SCC."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import raw, scalar
from wavecast.simulator.program.instruction import SCC


def nonzero(e: Emitter, value: ir.Value) -> ir.Value:
    """Set SCC to whether the result is not zero, and pass the result on."""
    e.set_scc(e.b.icmp_unsigned("!=", value, e.like(value, 0)))
    return value


def scc_flag(e: Emitter) -> ir.Value:
    """SCC as i1."""
    return e.b.icmp_unsigned("!=", e.scalar_load(SCC), I32(0))


def _invert(e: Emitter, value: ir.Value) -> ir.Value:
    return e.b.xor(value, e.like(value, -1))


def _count(e: Emitter, value: ir.Value, bits: int) -> ir.Value:
    """The bits of a shift count that the hardware looks at, in the width of the value it shifts."""
    return e.convert(e.b.and_(value, e.like(value, bits - 1)), ir.IntType(bits))


# ---- moves ----------------------------------------------------------------------------------------------------------


@scalar("s_mov_b32", "b32", "b32")
@scalar("s_mov_b64", "b64", "b64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return a


@scalar("s_movk_i32", "i32", "i16")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.convert(a, I32, signed=True)


def _conditional_move(name: str, type_name: str, source: str) -> None:
    @raw(name, f"{type_name} {source}")
    def _(e: Emitter) -> None:
        old = e.read_scalar(0, type_name)
        new = e.convert(e.read_scalar(1, source), old.type, signed=True)
        e.write_scalar(0, e.select(scc_flag(e), new, old))


_conditional_move("s_cmov_b32", "b32", "b32")
_conditional_move("s_cmov_b64", "b64", "b64")
_conditional_move("s_cmovk_i32", "i32", "i16")


@scalar("s_cselect_b32", "b32", "b32 b32")
@scalar("s_cselect_b64", "b64", "b64 b64")
def _(e: Emitter, yes: ir.Value, no: ir.Value) -> ir.Value:
    return e.select(scc_flag(e), yes, no)


# ---- addition and multiplication ------------------------------------------------------------------------------------


@scalar("s_add_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    total = e.b.add(a, b)
    e.set_scc(e.b.icmp_unsigned("<", total, a))
    return total


@scalar("s_addc_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    wide = e.b.add(e.b.add(e.b.zext(a, I64), e.b.zext(b, I64)), e.b.zext(e.scalar_load(SCC), I64))
    e.set_scc(e.b.trunc(e.b.lshr(wide, I64(32)), I1))
    return e.b.trunc(wide, I32)


@scalar("s_sub_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    e.set_scc(e.b.icmp_unsigned("<", a, b))
    return e.b.sub(a, b)


@scalar("s_subb_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    wide = e.b.sub(e.b.sub(e.b.zext(a, I64), e.b.zext(b, I64)), e.b.zext(e.scalar_load(SCC), I64))
    e.set_scc(e.b.icmp_signed("<", wide, I64(0)))
    return e.b.trunc(wide, I32)


def _add_signed(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    total = e.b.add(a, b)
    overflow = e.b.and_(e.b.xor(a, total), e.b.xor(b, total))
    e.set_scc(e.b.icmp_signed("<", overflow, I32(0)))
    return total


scalar("s_add_i32", "i32", "i32 i32")(_add_signed)


@scalar("s_sub_i32", "i32", "i32 i32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    rest = e.b.sub(a, b)
    overflow = e.b.and_(e.b.xor(a, b), e.b.xor(a, rest))
    e.set_scc(e.b.icmp_signed("<", overflow, I32(0)))
    return rest


@raw("s_addk_i32", "i32 i16")
def _(e: Emitter) -> None:
    e.write_scalar(0, _add_signed(e, e.read_scalar(0, "i32"), e.convert(e.read_scalar(1, "i16"), I32, signed=True)))


@raw("s_mulk_i32", "i32 i16")
def _(e: Emitter) -> None:
    e.write_scalar(0, e.b.mul(e.read_scalar(0, "i32"), e.convert(e.read_scalar(1, "i16"), I32, signed=True)))


@scalar("s_mul_i32", "i32", "i32 i32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.mul(a, b)


def _multiply_high(name: str, signed: bool) -> None:
    @scalar(name, "b32", "b32 b32")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        product = e.b.mul(e.convert(a, I64, signed=signed), e.convert(b, I64, signed=signed))
        return e.b.trunc(e.b.lshr(product, I64(32)), I32)


_multiply_high("s_mul_hi_u32", False)
_multiply_high("s_mul_hi_i32", True)


def _shift_add(places: int) -> None:
    @scalar(f"s_lshl{places}_add_u32", "u32", "u32 u32")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        total = e.b.add(e.b.shl(e.b.zext(a, I64), I64(places)), e.b.zext(b, I64))
        e.set_scc(e.b.icmp_unsigned(">=", total, I64(1 << 32)))
        return e.b.trunc(total, I32)


for _places in (1, 2, 3, 4):
    _shift_add(_places)


def _extreme(name: str, relation: str, signed: bool) -> None:
    """Minimum or maximum; SCC says that the first source was taken."""

    @scalar(name, "b32", "b32 b32")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        first = (e.b.icmp_signed if signed else e.b.icmp_unsigned)(relation, a, b)
        e.set_scc(first)
        return e.select(first, a, b)


for _name, _relation in (("min", "<"), ("max", ">=")):
    _extreme(f"s_{_name}_i32", _relation, True)
    _extreme(f"s_{_name}_u32", _relation, False)


@scalar("s_abs_i32", "i32", "i32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return nonzero(e, e.select(e.b.icmp_signed("<", a, I32(0)), e.b.neg(a), a))


@scalar("s_absdiff_i32", "i32", "i32 i32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    rest = e.b.sub(a, b)
    return nonzero(e, e.select(e.b.icmp_signed("<", rest, I32(0)), e.b.neg(rest), rest))


# ---- logic ----------------------------------------------------------------------------------------------------------


def _logic(name: str) -> None:
    """Registers a two-source logic opcode in both widths; the name may negate a source or the result."""
    plain = {"nand": "and", "nor": "or", "xnor": "xor", "andn2": "and", "orn2": "or"}.get(name, name)

    @scalar(f"s_{name}_b32", "b32", "b32 b32")
    @scalar(f"s_{name}_b64", "b64", "b64 b64")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return nonzero(e, logic(e, name, plain, a, b))


def logic(e: Emitter, name: str, plain: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """``plain`` of the sources: the second one inverted for ``…n2``, the result for ``nand``, ``nor`` and ``xnor``."""
    if name.endswith("n2"):
        b = _invert(e, b)
    result = {"and": e.b.and_, "or": e.b.or_, "xor": e.b.xor}[plain](a, b)
    return _invert(e, result) if name in ("nand", "nor", "xnor") else result


for _name in ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor"):
    _logic(_name)


@scalar("s_not_b32", "b32", "b32")
@scalar("s_not_b64", "b64", "b64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return nonzero(e, _invert(e, a))


# ---- shifts ---------------------------------------------------------------------------------------------------------


def _shift(name: str, width: int) -> None:
    @scalar(name, f"b{width}", f"b{width} u32")
    def _(e: Emitter, a: ir.Value, count: ir.Value) -> ir.Value:
        operation = {"l": e.b.shl, "r": e.b.lshr}[name[5]] if name[2] == "l" else e.b.ashr
        return nonzero(e, operation(a, _count(e, count, width)))


for _name, _bits in (
    ("s_lshl_b32", 32),
    ("s_lshl_b64", 64),
    ("s_lshr_b32", 32),
    ("s_lshr_b64", 64),
    ("s_ashr_i32", 32),
    ("s_ashr_i64", 64),
):
    _shift(_name, _bits)
