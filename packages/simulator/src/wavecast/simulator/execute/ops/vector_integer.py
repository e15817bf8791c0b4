"""Vector integer arithmetic: additions with and without carry, products, extremes."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import vector

Values = tuple[ir.Value, ir.Value]


# ---- moves ----------------------------------------------------------------------------------------------------------


@vector("v_mov_b32", "b32", "b32")
@vector("v_mov_b64", "b64", "b64")
@vector(["v_accvgpr_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32"], "b32", "b32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return a


# ---- addition and subtraction ---------------------------------------------------------------------------------------


def _saturating(e: Emitter, operation: str, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    """Sum or difference; with ``clamp`` it stops at the ends of the type instead of wrapping round."""
    if e.form.modifier("clamp"):
        return e.intrinsic(f"llvm.{'s' if signed else 'u'}{operation}.sat", a.type, [a, b])
    return (e.b.add if operation == "add" else e.b.sub)(a, b)


def _sum(name: str, type_name: str, *, reverse: bool = False, keep_high_half: bool = False) -> None:
    operation = "add" if "_add_" in name else "sub"

    @vector(name, type_name, f"{type_name} {type_name}", keep_high_half=keep_high_half)
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        first, second = (b, a) if reverse else (a, b)
        return _saturating(e, operation, first, second, type_name[0] == "i")


for _type in ("u32", "u16"):
    _sum(f"v_add_{_type}", _type)
    _sum(f"v_sub_{_type}", _type)
    _sum(f"v_subrev_{_type}", _type, reverse=True)
_sum("v_add_i32", "i32")
_sum("v_sub_i32", "i32")
# The signed 16-bit forms came with op_sel and keep the half that they do not write.
_sum("v_add_i16", "i16", keep_high_half=True)
_sum("v_sub_i16", "i16", keep_high_half=True)


@vector("v_add_co_u32", "u32 mask", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> Values:
    total = e.b.add(a, b)
    return total, e.b.icmp_unsigned("<", total, a)


@vector("v_addc_co_u32", "u32 mask", "u32 u32 mask")
def _(e: Emitter, a: ir.Value, b: ir.Value, carry: ir.Value) -> Values:
    partial = e.b.add(a, b)
    total = e.b.add(partial, e.b.zext(carry, a.type))
    return total, e.b.or_(e.b.icmp_unsigned("<", partial, a), e.b.icmp_unsigned("<", total, partial))


def _borrowing(name: str, reverse: bool) -> None:
    @vector(f"v_{name}_co_u32", "u32 mask", "u32 u32")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> Values:
        first, second = (b, a) if reverse else (a, b)
        return e.b.sub(first, second), e.b.icmp_unsigned("<", first, second)


def _borrowing_with_borrow(name: str, reverse: bool) -> None:
    @vector(f"v_{name}_co_u32", "u32 mask", "u32 u32 mask")
    def _(e: Emitter, a: ir.Value, b: ir.Value, borrow: ir.Value) -> Values:
        first, second = (b, a) if reverse else (a, b)
        partial, taken = e.b.sub(first, second), e.b.zext(borrow, a.type)
        under = e.b.or_(e.b.icmp_unsigned("<", first, second), e.b.icmp_unsigned("<", partial, taken))
        return e.b.sub(partial, taken), under


for _reverse in (False, True):
    _borrowing("subrev" if _reverse else "sub", _reverse)
    _borrowing_with_borrow("subbrev" if _reverse else "subb", _reverse)


@vector("v_add3_u32", "u32", "u32 u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.b.add(e.b.add(a, b), c)


@vector("v_xad_u32", "u32", "u32 u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.b.add(e.b.xor(a, b), c)


# ---- products -------------------------------------------------------------------------------------------------------


@vector("v_mul_lo_u32", "u32", "u32 u32")
@vector("v_mul_lo_u16", "u16", "u16 u16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.mul(a, b)


def _wide_product(e: Emitter, a: ir.Value, b: ir.Value, signed: bool) -> ir.Value:
    return e.b.mul(e.convert(a, I64, signed=signed), e.convert(b, I64, signed=signed))


def _low_24(e: Emitter, value: ir.Value, signed: bool) -> ir.Value:
    """The low 24 bits of each lane, extended to 32."""
    if not signed:
        return e.b.and_(value, e.like(value, 0xFFFFFF))
    return e.b.ashr(e.b.shl(value, e.like(value, 8)), e.like(value, 8))


def _products(letter: str) -> None:
    signed, type_name = letter == "i", f"{letter}32"

    @vector(f"v_mul_hi_{type_name}", type_name, f"{type_name} {type_name}")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        product = _wide_product(e, a, b, signed)
        return e.convert(e.b.lshr(product, e.like(product, 32)), I32)

    @vector(f"v_mul_{type_name}_{letter}24", type_name, f"{type_name} {type_name}")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        return e.b.mul(_low_24(e, a, signed), _low_24(e, b, signed))

    @vector(f"v_mul_hi_{type_name}_{letter}24", type_name, f"{type_name} {type_name}")
    def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        product = _wide_product(e, _low_24(e, a, signed), _low_24(e, b, signed), signed)
        return e.convert(e.b.lshr(product, e.like(product, 32)), I32)

    @vector(f"v_mad_{type_name}_{letter}24", type_name, f"{type_name} {type_name} {type_name}")
    def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return e.b.add(e.b.mul(_low_24(e, a, signed), _low_24(e, b, signed)), c)

    @vector(f"v_mad_{type_name}_{letter}16", type_name, f"{letter}16 {letter}16 {type_name}")
    def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        product = e.b.mul(e.convert(a, I32, signed=signed), e.convert(b, I32, signed=signed))
        return e.b.add(product, c)

    half = f"{letter}16"
    for name, keep in ((f"v_mad_legacy_{half}", False), (f"v_mad_{half}", True)):

        @vector(name, half, f"{half} {half} {half}", keep_high_half=keep)
        def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
            return e.b.add(e.b.mul(a, b), c)


for _letter in "iu":
    _products(_letter)


@vector("v_mad_u64_u32", "u64 mask", "u32 u32 u64")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> Values:
    total = e.b.add(_wide_product(e, a, b, False), c)
    return total, e.b.icmp_unsigned("<", total, c)


@vector("v_mad_i64_i32", "i64 mask", "i32 i32 i64")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> Values:
    product = _wide_product(e, a, b, True)
    total = e.b.add(product, c)
    # The carry is bit 64 of the exact sum: its sign, which differs from that of the low 64 bits on overflow.
    overflow = e.b.and_(e.b.xor(product, total), e.b.xor(c, total))
    return total, e.b.icmp_signed("<", e.b.xor(total, overflow), e.like(total, 0))


# ---- extremes -------------------------------------------------------------------------------------------------------


def _extremes(type_name: str, keep_high_half: bool) -> None:
    two, three = f"{type_name} {type_name}", f"{type_name} {type_name} {type_name}"

    def pick(e: Emitter, which: str, a: ir.Value, b: ir.Value) -> ir.Value:
        sign = "s" if type_name[0] == "i" else "u"
        return e.intrinsic(f"llvm.{sign}{which}", a.type, [a, b])

    for name in ("min", "max"):

        @vector(f"v_{name}_{type_name}", type_name, two)
        def _(e: Emitter, a: ir.Value, b: ir.Value, name: str = name) -> ir.Value:
            return pick(e, name, a, b)

        @vector(f"v_{name}3_{type_name}", type_name, three, keep_high_half=keep_high_half)
        def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value, name: str = name) -> ir.Value:
            return pick(e, name, pick(e, name, a, b), c)

    @vector(f"v_med3_{type_name}", type_name, three, keep_high_half=keep_high_half)
    def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        return pick(e, "max", pick(e, "min", a, b), pick(e, "min", pick(e, "max", a, b), c))


for _type in ("i32", "u32", "i16", "u16"):
    _extremes(_type, _type.endswith("16"))


# ---- absolute differences -------------------------------------------------------------------------------------------


def _difference(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    high = e.intrinsic("llvm.umax", a.type, [a, b])
    return e.b.sub(high, e.intrinsic("llvm.umin", a.type, [a, b]))


def _difference_sum(e: Emitter, a: ir.Value, b: ir.Value, bits: int) -> ir.Value:
    """Sum over the fields of ``bits`` bits of the absolute difference."""
    total = e.like(a, 0)
    for first in range(0, 32, bits):
        fields = [e.b.and_(e.b.lshr(v, e.like(v, first)), e.like(v, (1 << bits) - 1)) for v in (a, b)]
        total = e.b.add(total, _difference(e, *fields))
    return total


def _sad(name: str, bits: int, shift: int) -> None:
    @vector(name, "u32", "u32 u32 u32")
    def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        total = _difference(e, a, b) if bits == 32 else _difference_sum(e, a, b, bits)
        return e.b.add(e.b.shl(total, e.like(total, shift)), c)


_sad("v_sad_u8", 8, 0)
_sad("v_sad_hi_u8", 8, 16)
_sad("v_sad_u16", 16, 0)
_sad("v_sad_u32", 32, 0)
