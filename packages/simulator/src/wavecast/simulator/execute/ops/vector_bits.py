"""Vector logic, shifts, bit fields, bit counts and byte permutation."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I32, I64
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.registry import vector

# ---- logic ----------------------------------------------------------------------------------------------------------


@vector("v_and_b32", "b32", "b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.and_(a, b)


@vector("v_or_b32", "b32", "b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.or_(a, b)


@vector("v_xor_b32", "b32", "b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.xor(a, b)


@vector("v_xnor_b32", "b32", "b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _invert(e, e.b.xor(a, b))


@vector("v_not_b32", "b32", "b32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return _invert(e, a)


@vector("v_and_or_b32", "b32", "b32 b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.b.or_(e.b.and_(a, b), c)


@vector("v_or3_b32", "b32", "b32 b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.b.or_(e.b.or_(a, b), c)


@vector("v_bfi_b32", "b32", "b32 b32 b32")
def _(e: Emitter, mask: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    return e.b.xor(no, e.b.and_(mask, e.b.xor(yes, no)))


def _invert(e: Emitter, value: ir.Value) -> ir.Value:
    return e.b.xor(value, e.like(value, -1))


@vector("v_bitop3_b32", "b32", "b32 b32 b32")
@vector("v_bitop3_b16", "b16", "b16 b16 b16", keep_high_half=True)
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    table = e.form.modifier("bitop3")
    assert isinstance(table, int)
    return _function_of_bits(e, table, 8, [a, b, c])


def _function_of_bits(e: Emitter, table: int, size: int, sources: list[ir.Value]) -> ir.Value:
    """Any logic function of the sources: bit ``i`` of the table is its value where they spell ``i``, first on top."""
    if table == 0:
        return e.like(sources[0], 0)
    half = size // 2
    low, high = table & (1 << half) - 1, table >> half
    first, rest = sources[0], sources[1:]
    ones = (1 << half) - 1
    if low == high:
        return e.like(first, -1) if low == ones else _function_of_bits(e, low, half, rest)
    if low == 0:
        return first if high == ones else e.b.and_(first, _function_of_bits(e, high, half, rest))
    if high == 0:
        inverse = _invert(e, first)
        return inverse if low == ones else e.b.and_(inverse, _function_of_bits(e, low, half, rest))
    if high == ones:
        return e.b.or_(first, _function_of_bits(e, low, half, rest))
    if low == ones:
        return e.b.or_(_invert(e, first), _function_of_bits(e, high, half, rest))
    if low == high ^ ones:
        return e.b.xor(first, _function_of_bits(e, low, half, rest))
    when_set, when_clear = (_function_of_bits(e, part, half, rest) for part in (high, low))
    return e.b.xor(when_clear, e.b.and_(first, e.b.xor(when_set, when_clear)))


# ---- shifts ---------------------------------------------------------------------------------------------------------


def _places(e: Emitter, count: ir.Value, like: ir.Value) -> ir.Value:
    """A shift count reduced to the bits that the hardware looks at, in the width of the value it shifts."""
    count = e.convert(count, like.type.element)
    return e.b.and_(count, e.like(like, like.type.element.width - 1))


def _reverse_shift(name: str, type_name: str) -> None:
    counts = "u16" if type_name.endswith("16") else "u32"

    @vector(name, type_name, f"{counts} {type_name}")
    def _(e: Emitter, count: ir.Value, a: ir.Value) -> ir.Value:
        operation = {"lshl": e.b.shl, "lshr": e.b.lshr, "ashr": e.b.ashr}[name[2:6]]
        return operation(a, _places(e, count, a))


for _width in (16, 32, 64):
    _reverse_shift(f"v_lshlrev_b{_width}", f"u{_width}")
    _reverse_shift(f"v_lshrrev_b{_width}", f"u{_width}")
    _reverse_shift(f"v_ashrrev_i{_width}", f"i{_width}")


@vector("v_lshl_add_u32", "u32", "u32 u32 u32")
def _(e: Emitter, a: ir.Value, count: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.add(e.b.shl(a, _places(e, count, a)), b)


@vector("v_lshl_add_u64", "u64", "u64 u32 u64")
def _(e: Emitter, a: ir.Value, count: ir.Value, b: ir.Value) -> ir.Value:
    places = e.b.and_(e.convert(count, I64), e.like(a, 7))
    # Counts of 5 to 7 are not supported, and the hardware takes them for 0.
    supported = e.b.icmp_unsigned("<=", places, e.like(a, 4))
    return e.b.add(e.b.shl(a, e.select(supported, places, e.like(a, 0))), b)


@vector("v_add_lshl_u32", "u32", "u32 u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value, count: ir.Value) -> ir.Value:
    return e.b.shl(e.b.add(a, b), _places(e, count, a))


@vector("v_lshl_or_b32", "b32", "b32 u32 b32")
def _(e: Emitter, a: ir.Value, count: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.or_(e.b.shl(a, _places(e, count, a)), b)


@vector("v_alignbit_b32", "b32", "b32 b32 u32")
def _(e: Emitter, high: ir.Value, low: ir.Value, count: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.fshr", high.type, [high, low, _places(e, count, high)])


@vector("v_alignbyte_b32", "b32", "b32 b32 u32")
def _(e: Emitter, high: ir.Value, low: ir.Value, count: ir.Value) -> ir.Value:
    bits = e.b.shl(e.b.and_(count, e.like(count, 3)), e.like(count, 3))
    return e.intrinsic("llvm.fshr", high.type, [high, low, bits])


# ---- bit fields and counts ------------------------------------------------------------------------------------------


def _ones(e: Emitter, count: ir.Value) -> ir.Value:
    """A mask of the low ``count`` bits, count taken modulo 32."""
    one = e.like(count, 1)
    return e.b.sub(e.b.shl(one, _places(e, count, count)), one)


@vector("v_bfe_u32", "u32", "u32 u32 u32")
def _(e: Emitter, a: ir.Value, offset: ir.Value, size: ir.Value) -> ir.Value:
    return e.b.and_(e.b.lshr(a, _places(e, offset, a)), _ones(e, size))


@vector("v_bfe_i32", "i32", "i32 u32 u32")
def _(e: Emitter, a: ir.Value, offset: ir.Value, size: ir.Value) -> ir.Value:
    field = e.b.and_(e.b.ashr(a, _places(e, offset, a)), _ones(e, size))
    spare = e.b.and_(e.b.sub(e.like(size, 32), size), e.like(size, 31))
    # A field of size 0 is 0, which the shifts leave as it is.
    return e.b.ashr(e.b.shl(field, spare), spare)


@vector("v_bfm_b32", "b32", "u32 u32")
def _(e: Emitter, size: ir.Value, offset: ir.Value) -> ir.Value:
    return e.b.shl(_ones(e, size), _places(e, offset, size))


@vector("v_bfrev_b32", "b32", "b32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.bitreverse", a.type, [a])


@vector("v_bcnt_u32_b32", "u32", "b32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.add(e.intrinsic("llvm.ctpop", a.type, [a]), b)


def _lanes_below(first: int) -> list[int]:
    """For each lane, which of the 32 lanes from ``first`` on lie below it, as a bit mask."""
    return [(1 << min(max(lane - first, 0), 32)) - 1 for lane in range(LANES)]


def _count_below(name: str, first: int) -> None:
    @vector(name, "u32", "b32 u32")
    def _(e: Emitter, mask: ir.Value, start: ir.Value) -> ir.Value:
        below = e.b.and_(mask, ir.Constant(mask.type, _lanes_below(first)))
        return e.b.add(e.intrinsic("llvm.ctpop", mask.type, [below]), start)


_count_below("v_mbcnt_lo_u32_b32", 0)
_count_below("v_mbcnt_hi_u32_b32", 32)


def _find(name: str, intrinsic: str, signed: bool) -> None:
    """Distance of the first set bit (signed: the first that differs from the sign) from one end; -1 without one."""

    @vector(name, "u32", "i32" if signed else "u32")
    def _(e: Emitter, a: ir.Value) -> ir.Value:
        value = e.b.xor(a, e.b.ashr(a, e.like(a, 31))) if signed else a
        place = e.intrinsic(intrinsic, value.type, [value, I1(0)])
        return e.select(e.b.icmp_unsigned("==", value, e.like(value, 0)), e.like(value, -1), place)


_find("v_ffbh_u32", "llvm.ctlz", False)
_find("v_ffbh_i32", "llvm.ctlz", True)
_find("v_ffbl_b32", "llvm.cttz", False)


@vector("v_prng_b32", "u32", "u32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    """Next state of a linear feedback shift register."""
    taps = e.b.and_(e.b.ashr(a, e.like(a, 31)), e.like(a, 197))
    return e.b.xor(e.b.shl(a, e.like(a, 1)), taps)


# ---- bytes ----------------------------------------------------------------------------------------------------------


@vector("v_perm_b32", "b32", "b32 b32 b32")
def _(e: Emitter, high: ir.Value, low: ir.Value, selectors: ir.Value) -> ir.Value:
    """Each byte of the selectors picks a byte of {high, low}, the sign of one of their halves, 0x00 or 0xFF."""
    uniform = e.form.operands[3].kind != "v"
    chosen = e.read_scalar(3, "b32") if uniform else selectors
    # Compilers nearly always pick plain bytes, mostly with one set of selectors for all lanes.
    unusual = e.b.and_(chosen, e.like(chosen, 0xF8F8F8F8))
    if not uniform:
        unusual = e.call(f"llvm.vector.reduce.or.v{LANES}i32", I32, [unusual])
    plain = e.b.icmp_unsigned("==", unusual, I32(0))
    outcomes = []
    with e.b.if_else(plain, likely=True) as (then, otherwise):
        with then:
            outcomes.append((_plain_bytes(e, high, low, chosen), e.b.block))
        with otherwise:
            outcomes.append((_any_bytes(e, high, low, selectors), e.b.block))
    result = e.b.phi(low.type)
    for value, block in outcomes:
        result.add_incoming(value, block)
    return result


def _plain_bytes(e: Emitter, high: ir.Value, low: ir.Value, selectors: ir.Value) -> ir.Value:
    """Byte permutation for selectors below 8, given a lane each or one for all lanes: turn the word, keep a byte."""
    result = e.like(low, 0)
    differing = e.b.xor(high, low)
    for place in range(4):
        field = e.b.lshr(selectors, e.like(selectors, 8 * place)) if place else selectors
        from_high = e.b.neg(e.b.and_(e.b.lshr(field, e.like(field, 2)), e.like(field, 1)))
        turn = e.b.shl(e.b.sub(e.b.and_(field, e.like(field, 3)), e.like(field, place)), e.like(field, 3))
        if not isinstance(selectors.type, ir.VectorType):
            from_high, turn = e.splat(from_high), e.splat(turn)
        word = e.b.xor(low, e.b.and_(differing, from_high))
        turned = e.intrinsic("llvm.fshr", low.type, [word, word, turn])
        result = e.b.or_(result, e.b.and_(turned, e.like(low, 0xFF << 8 * place)))
    return result


def _any_bytes(e: Emitter, high: ir.Value, low: ir.Value, selectors: ir.Value) -> ir.Value:
    """Byte permutation for any selectors."""
    result = e.like(low, 0)
    for position in range(0, 32, 8):
        field = e.b.lshr(selectors, e.like(low, position)) if position else selectors
        byte = e.b.and_(_picked(e, high, low, field), e.like(low, 0xFF))
        result = e.b.or_(result, e.b.shl(byte, e.like(low, position)) if position else byte)
    return result


def _picked(e: Emitter, high: ir.Value, low: ir.Value, field: ir.Value) -> ir.Value:
    """What one selector picks, in the low byte; ``field`` has the selector in its low byte."""

    def has(bit: int) -> ir.Value:
        return e.b.icmp_unsigned("!=", e.b.and_(field, e.like(field, bit)), e.like(field, 0))

    three = e.like(field, 3)
    word = e.select(has(4), high, low)
    byte = e.b.lshr(word, e.b.shl(e.b.and_(field, three), three))
    # Selectors 8 to 11: bit 15 or 31 of the low source, then of the high one, spread over the byte.
    source = e.select(has(2), high, low)
    sign = e.b.ashr(e.b.shl(source, e.select(has(1), e.like(field, 0), e.like(field, 16))), e.like(field, 31))
    number = e.b.and_(field, e.like(field, 0xFF))
    constant = e.select(e.b.icmp_unsigned("==", number, e.like(field, 12)), e.like(field, 0), e.like(field, 0xFF))
    special = e.select(e.b.icmp_unsigned(">=", number, e.like(field, 12)), constant, sign)
    return e.select(e.b.icmp_unsigned(">=", number, e.like(field, 8)), special, byte)
