"""Logic, shifts, bit fields, byte permutation, moves and selection."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I8, I32, I64, lanes_of
from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.layout import BLOCK_INDEX, BLOCK_SHAPE, GRID_SHAPE, THREAD_ROW
from wavecast.simulator.execute.ptx.ops.arithmetic import result_type
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import type_width

_AXIS_BITS = 10


def _logic(name: str, operation: str) -> None:
    @ptx(name)
    def _(e: WarpEmitter) -> None:
        e.expect_parts()
        kind = result_type(e)
        if kind == "pred":
            e.write_mask(0, getattr(e.b, operation)(e.predicate(1), e.predicate(2)))
        else:
            a, b = e.sources(kind, 2)
            e.write(0, kind, getattr(e.b, operation)(a, b))


_logic("and", "and_")
_logic("or", "or_")
_logic("xor", "xor")


@ptx("not")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    kind = result_type(e)
    if kind == "pred":
        e.write_mask(0, e.b.not_(e.predicate(1)))
    else:
        e.write(0, kind, e.b.not_(e.read(1, kind)))


@ptx("cnot")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    value = e.read(1, kind)
    e.write(0, kind, e.truth(e.b.icmp_unsigned("==", value, e.like(value, 0)), value.type.element))


@ptx("shl")
def _(e: WarpEmitter) -> None:
    kind, value, amount, inside = _shift(e)
    e.write(0, kind, e.select(inside, e.b.shl(value, amount), e.like(value, 0)))


@ptx("shr")
def _(e: WarpEmitter) -> None:
    kind, value, amount, inside = _shift(e)
    if kind[0] == "s":
        # Beyond the width the sign remains.
        most = e.like(amount, type_width(kind) - 1)
        e.write(0, kind, e.b.ashr(value, e.select(inside, amount, most)))
    else:
        e.write(0, kind, e.select(inside, e.b.lshr(value, amount), e.like(value, 0)))


def _shift(e: WarpEmitter) -> tuple[str, ir.Value, ir.Value, ir.Value]:
    """Type, value, amount and where the amount is less than the width."""
    e.expect_parts()
    kind = result_type(e)
    value, count = e.read(1, kind), e.bits(2, 32)
    inside = e.b.icmp_unsigned("<", count, e.like(count, type_width(kind)))
    limited = e.select(inside, count, e.like(count, 0))
    return kind, value, e.convert(limited, value.type.element), inside


@ptx("shf")
def _(e: WarpEmitter) -> None:
    e.expect_parts("l", "r", "wrap", "clamp")
    low, high, count = (e.bits(position, 32) for position in (1, 2, 3))
    if e.has("wrap"):
        count = e.b.and_(count, e.like(count, 31))
    else:
        count = e.intrinsic("llvm.umin", count.type, [count, e.like(count, 32)])
    wide = e.b.or_(e.convert(low, I64), e.b.shl(e.convert(high, I64), e.constant(lanes_of(I64, e.lanes), 32)))
    amount = e.convert(count, I64)
    if e.has("l"):
        shifted = e.b.lshr(e.b.shl(wide, amount), e.like(wide, 32))
        # A whole word to the left leaves the low one.
        whole = e.b.icmp_unsigned("==", count, e.like(count, 32))
        e.write_bits(0, e.select(whole, low, e.convert(shifted, I32)))
    else:
        e.write_bits(0, e.convert(e.b.lshr(wide, amount), I32))


@ptx("bfe")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    kind = result_type(e)
    width = type_width(kind)
    value = e.read(1, kind)
    start, length = (e.b.and_(e.bits(position, 32), e.constant(lanes_of(I32, e.lanes), 0xFF)) for position in (2, 3))
    element = value.type.element
    # Through the wider type, where no shift reaches the width.
    wide = ir.IntType(128 if width == 64 else 64)
    signed = kind[0] == "s"
    extended = e.convert(value, wide, signed=signed)
    begin = e.convert(e.intrinsic("llvm.umin", start.type, [start, e.like(start, width)]), wide)
    # Beyond its last bit a signed value goes on with its sign, as the extension does.
    taken = e.intrinsic("llvm.umin", length.type, [length, e.like(length, width)])
    shifted = e.b.ashr(extended, begin) if signed else e.b.lshr(extended, begin)
    room = e.convert(e.b.sub(e.like(taken, wide.width), taken), wide)
    none = e.b.icmp_unsigned("==", taken, e.like(taken, 0))
    room = e.select(none, e.like(room, 0), room)
    field = e.b.shl(shifted, room)
    field = e.b.ashr(field, room) if signed else e.b.lshr(field, room)
    e.write(0, kind, e.select(none, e.like(value, 0), e.convert(field, element)))


@ptx("bfi")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    kind = result_type(e)
    width = type_width(kind)
    field, base = e.read(1, kind), e.read(2, kind)
    start, length = (e.b.and_(e.bits(position, 32), e.constant(lanes_of(I32, e.lanes), 0xFF)) for position in (3, 4))
    wide = ir.IntType(128 if width == 64 else 64)
    begin = e.convert(e.intrinsic("llvm.umin", start.type, [start, e.like(start, width)]), wide)
    taken = e.convert(e.intrinsic("llvm.umin", length.type, [length, e.like(length, width)]), wide)
    one = e.constant(lanes_of(wide, e.lanes), 1)
    mask = e.b.shl(e.b.sub(e.b.shl(one, taken), one), begin)
    mask = e.convert(mask, field.type.element)
    placed = e.convert(e.b.shl(e.convert(field, wide), begin), field.type.element)
    e.write(0, kind, e.b.or_(e.b.and_(base, e.b.not_(mask)), e.b.and_(placed, mask)))


@ptx("prmt", literals=(3,))
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    a, b = (e.b.bitcast(e.bits(position, 32), lanes_of(I8, 4 * e.lanes)) for position in (1, 2))
    selector = e.form.operands[3].kind
    if selector not in ("v", "h", "k"):
        _permute_bytes(e, a, b, int(selector))
        return
    # Chosen at run time: byte by byte out of both words.
    both = e.b.or_(
        e.convert(e.bits(1, 32), I64), e.b.shl(e.convert(e.bits(2, 32), I64), e.constant(lanes_of(I64, e.lanes), 32))
    )
    chosen, result = e.bits(3, 32), e.constant(lanes_of(I32, e.lanes), 0)
    for place in range(4):
        nibble = e.b.lshr(chosen, e.like(chosen, 4 * place))
        shift = e.b.shl(e.convert(e.b.and_(nibble, e.like(nibble, 7)), I64), e.like(both, 3))
        byte = e.convert(e.b.lshr(both, shift), I32)
        byte = e.b.and_(byte, e.like(byte, 0xFF))
        sign = e.b.mul(e.b.lshr(byte, e.like(byte, 7)), e.like(byte, 0xFF))
        replicated = e.b.icmp_unsigned("!=", e.b.and_(nibble, e.like(nibble, 8)), e.like(nibble, 0))
        byte = e.select(replicated, sign, byte)
        result = e.b.or_(result, e.b.shl(byte, e.like(byte, 8 * place)))
    e.write_bits(0, result)


def _permute_bytes(e: WarpEmitter, a: ir.Value, b: ir.Value, selector: int) -> None:
    nibbles = [selector >> 4 * place & 15 for place in range(4)]
    indices = [
        4 * lane + (nibble & 3) + (4 * e.lanes if nibble & 4 else 0) for lane in range(e.lanes) for nibble in nibbles
    ]
    mixed = e.shuffle(a, indices, b)
    if any(nibble & 8 for nibble in nibbles):
        signs = e.b.ashr(mixed, e.like(mixed, 7))
        pattern = [bool(nibble & 8) for nibble in nibbles] * e.lanes
        mixed = e.select(ir.Constant(lanes_of(I1, 4 * e.lanes), pattern), signs, mixed)
    e.write_bits(0, e.b.bitcast(mixed, lanes_of(I32, e.lanes)))


@ptx("lop3", literals=(4,))
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    a, b, c = (e.bits(position, 32) for position in (1, 2, 3))
    table = int(e.form.operands[4].kind)
    result: ir.Value = e.like(a, 0)
    for number in range(8):
        if table >> number & 1:
            term = a if number & 4 else e.b.not_(a)
            term = e.b.and_(term, b if number & 2 else e.b.not_(b))
            term = e.b.and_(term, c if number & 1 else e.b.not_(c))
            result = e.b.or_(result, term)
    e.write_bits(0, result)


def _count(name: str, intrinsic: str, *, flag: bool) -> None:
    @ptx(name)
    def _(e: WarpEmitter) -> None:
        e.expect_parts()
        value = e.read(1, result_type(e))
        extra = [I1(0)] if flag else []
        e.write_bits(0, e.convert(e.intrinsic(f"llvm.{intrinsic}", value.type, [value, *extra]), I32))


_count("popc", "ctpop", flag=False)
_count("clz", "ctlz", flag=True)


@ptx("brev")
def _(e: WarpEmitter) -> None:
    kind = result_type(e)
    value = e.read(1, kind)
    e.write(0, kind, e.intrinsic("llvm.bitreverse", value.type, [value]))


@ptx("bfind")
def _(e: WarpEmitter) -> None:
    e.expect_parts("shiftamt")
    kind = result_type(e)
    value = e.read(1, kind)
    if kind[0] == "s":
        value = e.select(e.b.icmp_signed("<", value, e.like(value, 0)), e.b.not_(value), value)
    width = type_width(kind)
    zeros = e.convert(e.intrinsic("llvm.ctlz", value.type, [value, I1(0)]), I32)
    found = e.b.icmp_unsigned("!=", zeros, e.like(zeros, width))
    place = zeros if e.has("shiftamt") else e.b.sub(e.like(zeros, width - 1), zeros)
    e.write_bits(0, e.select(found, place, e.like(zeros, -1)))


@ptx("selp")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    width = type_width(result_type(e))
    e.write_bits(0, e.select(e.read(3, "pred"), e.bits(1, width), e.bits(2, width)))


@ptx("slct")
def _(e: WarpEmitter) -> None:
    e.expect_parts("ftz")
    first, second = e.types
    width = type_width(first)
    judge = e.read(3, second)
    zero = e.like(judge, 0.0 if second == "f32" else 0)
    positive = e.b.fcmp_ordered(">=", judge, zero) if second == "f32" else e.b.icmp_signed(">=", judge, zero)
    e.write_bits(0, e.select(positive, e.bits(1, width), e.bits(2, width)))


@ptx("mov")
def _(e: WarpEmitter) -> None:
    e.expect_parts()
    kind = result_type(e)
    groups = e.form.modifier("groups", (1, 1))
    assert isinstance(groups, tuple)
    if kind == "pred":
        e.write_mask(0, e.predicate(1))
    elif groups[0] > 1:
        _unpack(e, type_width(kind), groups[0])
    elif groups[1] > 1:
        _pack(e, type_width(kind), groups[1])
    elif e.form.operands[1].kind.startswith("%"):
        e.write_bits(0, special_register(e, e.form.operands[1].kind))
    else:
        e.write_bits(0, e.bits(1, type_width(kind)))


def _unpack(e: WarpEmitter, width: int, count: int) -> None:
    whole = e.bits(count, width)
    part = width // count
    for position in range(count):
        shifted = e.b.lshr(whole, e.like(whole, part * position))
        e.write_bits(position, e.convert(shifted, ir.IntType(part)))


def _pack(e: WarpEmitter, width: int, count: int) -> None:
    part, element = width // count, ir.IntType(width)
    result: ir.Value | None = None
    for position in range(count):
        value = e.convert(e.bits(1 + position, part), element)
        value = e.b.shl(value, e.like(value, part * position))
        result = value if result is None else e.b.or_(result, value)
    e.write_bits(0, result)


def special_register(e: WarpEmitter, name: str) -> ir.Value:
    """A special register in every lane, <lanes x i32> or, for clocks of 64 bits, <lanes x i64>."""
    base, _, axis = name.partition(".")
    index = "xyz".find(axis) if axis else 0
    if base == "%tid":
        packed = e.load_rows(e.at(e.vectors, THREAD_ROW * e.row_bytes))
        shifted = e.b.lshr(packed, e.like(packed, _AXIS_BITS * index))
        return e.b.and_(shifted, e.like(packed, (1 << _AXIS_BITS) - 1))
    for known, slot in (("%ctaid", BLOCK_INDEX), ("%ntid", BLOCK_SHAPE), ("%nctaid", GRID_SHAPE)):
        if base == known:
            return e.splat(e.scalar_load(slot + index))
    lanes = e.lane_numbers()
    one = e.like(lanes, 1)
    if base == "%laneid":
        return lanes
    if base == "%warpid":
        return e.splat(e.b.trunc(e.context_load(Context.WAVE), I32))
    if base == "%lanemask_eq":
        return e.b.shl(one, lanes)
    if base in ("%lanemask_lt", "%lanemask_le"):
        below = e.b.sub(e.b.shl(one, lanes), one)
        return below if base.endswith("lt") else e.b.or_(below, e.b.shl(one, lanes))
    if base in ("%lanemask_gt", "%lanemask_ge"):
        below = e.b.sub(e.b.shl(one, lanes), one)
        at_least = e.b.not_(below)
        return at_least if base.endswith("ge") else e.b.and_(at_least, e.b.not_(e.b.shl(one, lanes)))
    if base in ("%clock", "%clock_hi"):
        return e.splat(e.b.trunc(e.context_load(Context.CLOCK), I32))
    if base in ("%clock64", "%globaltimer"):
        return e.splat(e.context_load(Context.CLOCK))
    constants = {"%cluster_ctarank": 0, "%cluster_nctarank": 1, "%cluster_ctaid": 0, "%cluster_nctaid": 1}
    if base in constants:
        return e.constant(lanes_of(I32, e.lanes), constants[base])
    raise NotImplementedError(f"special register {name} has no value here")
