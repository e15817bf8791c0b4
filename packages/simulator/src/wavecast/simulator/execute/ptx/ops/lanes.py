"""Between the lanes of a warp: shuffles, votes, reductions."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.builder import I32, I64, lanes_of
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.ops.arithmetic import result_type
from wavecast.simulator.execute.ptx.registry import ptx
from wavecast.simulator.execute.ptx.types import type_width

_LAST = 31


def _sources_of(mode: str, step: int, limits: int) -> list[tuple[int, bool]]:
    """Source lane of each lane and whether it is in range, for constant operands."""
    clamp, segment = limits & _LAST, limits >> 8 & _LAST
    result = []
    for lane in range(_LAST + 1):
        low = lane & segment
        high = low | (clamp & ~segment)
        source = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": low | (step & ~segment)}[mode]
        inside = source >= high if mode == "up" else source <= high
        result.append((source if inside else lane, inside))
    return result


@ptx("shfl", literals=(2, 3, 4))
def _(e: WarpEmitter) -> None:
    """d|p, a, b, c, membermask; ``p`` shifts the sources, so constants are looked for behind it."""
    e.expect_parts("sync", "up", "down", "bfly", "idx")
    mode = next(part for part in e.parts if part in ("up", "down", "bfly", "idx"))
    groups = e.form.modifier("groups", (1,))
    assert isinstance(groups, tuple)
    first = groups[0]
    step, limits = (e.form.operands[first + index].kind for index in (1, 2))
    if first == 1 and step.lstrip("-").isdigit() and limits.lstrip("-").isdigit():
        pairs = _sources_of(mode, int(step) & _LAST, int(limits))
        value = e.bits(first, 32)
        e.write_bits(0, e.shuffle(value, [source for source, _ in pairs]))
        return
    source, inside = _source_lanes(e, mode, _number(e, first + 1), _number(e, first + 2))
    e.write_bits(0, gathered(e, e.bits(first, 32), source))
    if first == 2:
        e.write_mask(1, e.mask(inside))


def _number(e: WarpEmitter, position: int) -> ir.Value:
    kind = e.form.operands[position].kind
    if kind.lstrip("-").isdigit():
        return e.constant(lanes_of(I32, e.lanes), int(kind))
    return e.bits(position, 32)


def _source_lanes(e: WarpEmitter, mode: str, step: ir.Value, limits: ir.Value) -> tuple[ir.Value, ir.Value]:
    lane = e.lane_numbers()
    last = e.like(lane, _LAST)
    step = e.b.and_(step, last)
    clamp, segment = e.b.and_(limits, last), e.b.and_(e.b.lshr(limits, e.like(limits, 8)), last)
    low = e.b.and_(lane, segment)
    high = e.b.or_(low, e.b.and_(clamp, e.b.not_(segment)))
    if mode == "up":
        source = e.b.sub(lane, step)
    elif mode == "down":
        source = e.b.add(lane, step)
    elif mode == "bfly":
        source = e.b.xor(lane, step)
    else:
        source = e.b.or_(low, e.b.and_(step, e.b.not_(segment)))
    inside = e.b.icmp_signed(">=" if mode == "up" else "<=", source, high)
    return e.select(inside, source, lane), inside


def gathered(e: WarpEmitter, value: ir.Value, source: ir.Value) -> ir.Value:
    """Each lane's value from the lane that ``source`` (0…31) names."""
    have, want, result = (e.allocate(I32, e.lanes) for _ in range(3))
    e.b.store(value, have, align=64)
    e.b.store(e.b.and_(source, e.like(source, _LAST)), want, align=64)
    with e.for_each(e.lanes) as lane:
        place = e.b.mul(lane, I64(4))
        other = e.b.zext(e.b.load(e.at(want, place), typ=I32, align=4), I64)
        e.b.store(e.b.load(e.at(have, e.b.mul(other, I64(4))), typ=I32, align=4), e.at(result, place), align=4)
    return e.b.load(result, typ=value.type, align=64)


@ptx("vote")
def _(e: WarpEmitter) -> None:
    e.expect_parts("sync", "all", "any", "uni", "ballot")
    true = e.b.and_(e.predicate(1), e.active)
    if e.has("ballot"):
        e.write_bits(0, e.splat(e.b.trunc(true, I32)))
        return
    everyone = e.b.icmp_unsigned("==", true, e.active)
    someone = e.b.icmp_unsigned("!=", true, I64(0))
    truth = {"all": everyone, "any": someone, "uni": e.b.or_(everyone, e.b.not_(someone))}
    found = next(part for part in e.parts if part in truth)
    e.write_mask(0, e.b.select(truth[found], e.everyone, I64(0)))


@ptx("activemask")
def _(e: WarpEmitter) -> None:
    e.write_bits(0, e.splat(e.b.trunc(e.active, I32)))


@ptx("elect")
def _(e: WarpEmitter) -> None:
    """The first active lane is the one that is elected."""
    e.expect_parts("sync")
    leader = e.call("llvm.cttz.i64", I64, [e.active, ir.Constant(ir.IntType(1), 0)])
    e.write_bits(0, e.splat(e.b.trunc(leader, I32)))
    e.write_mask(1, e.b.and_(e.active, e.b.neg(e.active)))


@ptx("redux")
def _(e: WarpEmitter) -> None:
    e.expect_parts("sync", "add", "min", "max", "and", "or", "xor")
    kind = result_type(e)
    if type_width(kind) != 32 or kind == "f32":
        raise NotImplementedError(f"a reduction of .{kind}")
    value = e.read(1, kind)
    signed = kind[0] == "s"
    lowest, highest = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    neutral = {"add": 0, "min": highest, "max": lowest, "and": -1, "or": 0, "xor": 0}
    name = next(part for part in e.parts if part in neutral)
    members = e.b.and_(e.active, e.b.zext(e.b.extract_element(e.bits(2, 32), I32(0)), I64))
    taken = e.select(e.flags(members), value, e.like(value, neutral[name]))
    sign = kind[0] if name in ("min", "max") else ""
    total = e.call(f"llvm.vector.reduce.{sign}{name}.v{e.lanes}i32", I32, [taken])
    e.write_bits(0, e.splat(total))


@ptx("match")
def _(e: WarpEmitter) -> None:
    """``match.any``: the lanes that have the same value as each lane."""
    e.expect_parts("sync", "any")
    if not e.has("any"):
        raise NotImplementedError("match.all")
    width = type_width(result_type(e))
    value = e.bits(1, width)
    result = e.constant(lanes_of(I32, e.lanes), 0)
    for lane in range(e.lanes):
        same = e.b.icmp_unsigned("==", value, e.splat(e.b.extract_element(value, I32(lane))))
        takes_part = e.b.and_(e.b.lshr(e.active, I64(lane)), I64(1))
        bit = e.b.shl(e.b.trunc(takes_part, I32), I32(lane))
        result = e.b.or_(result, e.select(same, e.splat(bit), e.like(result, 0)))
    e.write_bits(0, result)
