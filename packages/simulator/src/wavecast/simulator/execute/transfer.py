"""Moves data between vector registers and the bytes that each lane addresses.

Every load and store comes down to two steps. ``fetch`` brings the elements of the lanes together, lane after lane, and
``spread`` takes them apart again; between the two, whole registers are made with wide shuffles. Lanes that touch
consecutive elements need no copying at all. A lane's element is moved by one host access of its full width, so cost
hardly depends on the width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from wavecast.simulator.execute.builder import I8, I16, I32, I64, POINTER, Builder, lanes_of
from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.state import StateEmitter
from wavecast.simulator.execute.trace import RECORD

# Lanes moved per turn of the loop that serves a full EXEC.
_UNROLL = 4


@dataclass(frozen=True, slots=True)
class Places:
    """Where the lanes' elements lie in host memory.

    Attributes:
        mask: i64, lanes that take part; the others are neither read nor written.
        pointer: Lane (i64) → pointer to its element, valid for lanes of the mask.
        dense: Element width in bytes → i1, set if all lanes take part and touch consecutive elements.
        is_recorded: Whether the trace has a record of the access, if there is a trace.
    """

    mask: ir.Value
    pointer: Callable[[ir.Value], ir.Value]
    dense: Callable[[int], ir.Value]
    is_recorded: bool = True


def is_checked(e: StateEmitter) -> ir.Value:
    """Whether the launch is checked, i1."""
    return e.b.icmp_unsigned("!=", e.context_load(Context.CHECKED), I64(0))


def consecutive(e: StateEmitter, addresses: ir.Value, mask: ir.Value, width: int) -> ir.Value:
    """Whether all lanes are in ``mask`` and their addresses (integers) ascend by ``width`` bytes."""
    first = e.splat(e.b.extract_element(addresses, I32(0)))
    steps = ir.Constant(addresses.type, [lane * width for lane in range(e.lanes)])
    equal = e.mask(e.b.icmp_unsigned("==", addresses, e.b.add(first, steps)))
    return e.b.icmp_unsigned("==", e.b.and_(equal, mask), e.everyone)


def each_lane(e: StateEmitter, mask: ir.Value, body: Callable[[ir.Value], None]) -> None:
    """Emit ``body`` for the lanes of an i64 mask, lowest first; a full mask takes an unrolled loop."""
    with e.b.if_else(e.b.icmp_unsigned("==", mask, e.everyone), likely=True) as (everyone, some):
        with everyone, e.for_each(e.lanes // _UNROLL) as turn:
            first = e.b.mul(turn, I64(_UNROLL))
            for step in range(_UNROLL):
                body(e.b.add(first, I64(step)))
        with some, e.for_each_lane(mask) as lane:
            body(lane)


def element_type(width: int) -> ir.Type:
    """The LLVM type that moves an element of so many bytes at once."""
    return ir.IntType(8 * width) if width <= 2 else lanes_of(I32, width // 4)


def fetch(e: StateEmitter, places: Places, width: int, *, clear: bool = False) -> ir.Value:
    """Pointer to the lanes' elements of ``width`` bytes, lane after lane.

    Lanes outside the mask hold zero with ``clear``, else anything.
    """
    element = element_type(width)
    staging = e.allocate(I8, e.lanes * width)
    chosen = e.allocate(I64, 1)
    with e.b.if_else(places.dense(width)) as (direct, scattered):
        with direct:
            e.b.store(places.pointer(I64(0)), chosen)
        with scattered:
            if clear:
                with e.b.if_then(e.b.icmp_unsigned("!=", places.mask, e.everyone), likely=False):
                    e.b.store(ir.Constant(lanes_of(I8, e.lanes * width), [0] * (e.lanes * width)), staging, align=64)

            def move(lane: ir.Value) -> None:
                data = e.b.load(places.pointer(lane), typ=element, align=1)
                e.b.store(data, e.at(staging, e.b.mul(lane, I64(width))), align=1)

            each_lane(e, places.mask, move)
            e.b.store(staging, chosen)
    return e.b.load(chosen, typ=POINTER)


def spread(e: StateEmitter, places: Places, width: int, block: ir.Value) -> None:
    """Write the lanes' elements, given lane after lane in one vector, to the places of the lanes in the mask."""
    element = element_type(width)
    _note_difference(e, places, width, block, "changed")
    with e.b.if_else(places.dense(width)) as (direct, scattered):
        with direct:
            e.b.store(block, places.pointer(I64(0)), align=1)
        with scattered:
            staging = e.allocate(I8, e.lanes * width)
            e.b.store(block, staging, align=64)

            def move(lane: ir.Value) -> None:
                data = e.b.load(e.at(staging, e.b.mul(lane, I64(width))), typ=element, align=1)
                e.b.store(data, places.pointer(lane), align=1)

            each_lane(e, places.mask, move)
    _note_difference(e, places, width, block, "lost")


def note_lanes(e: StateEmitter, lanes: ir.Value, field: str) -> None:
    """Add lanes (i64) to a mask of the newest trace record of a checked launch, which is this instruction's."""
    fields = RECORD.fields
    assert fields is not None
    newest = e.b.sub(e.context_load(Context.TRACE_COUNT), I64(1))
    slot = e.b.add(e.context_load(Context.TRACE), e.b.mul(newest, I64(RECORD.itemsize)))
    place = e.at(e.b.inttoptr(slot, POINTER), int(fields[field][1]))
    e.b.store(e.b.or_(e.b.load(place, typ=I64), lanes), place, align=8)


def _note_difference(e: StateEmitter, places: Places, width: int, block: ir.Value, field: str) -> None:
    """In a checked launch, note the lanes whose memory does not hold what ``block`` has for them."""
    if not places.is_recorded:
        return
    with e.b.if_then(e.b.and_(is_checked(e), e.b.icmp_unsigned("!=", places.mask, I64(0))), likely=False):
        staging, hosts = e.allocate(I8, e.lanes * width), e.allocate(POINTER, e.lanes)
        e.b.store(block, staging, align=64)
        with e.for_each_lane(places.mask) as lane:
            e.b.store(places.pointer(lane), e.at(hosts, e.b.mul(lane, I64(8))))
        function = e.shared("differing_lanes", I64, [POINTER, POINTER, I64, I64], _differing_body)
        note_lanes(e, e.b.call(function, [hosts, staging, places.mask, I64(width)]), field)


def _differing_body(e: Builder, hosts: ir.Value, staging: ir.Value, mask: ir.Value, width: ir.Value) -> None:
    """Lanes of the mask whose ``width`` bytes in memory are not those of ``staging``."""
    result = e.allocate(I64, 1)
    e.b.store(I64(0), result)
    with e.for_each_lane(mask) as lane:
        host = e.b.load(e.at(hosts, e.b.mul(lane, I64(8))), typ=POINTER)
        wanted = e.at(staging, e.b.mul(lane, width))
        bit = e.b.shl(I64(1), lane)
        with e.for_each(width) as byte:
            have, want = (e.b.load(e.at(place, byte), typ=I8) for place in (host, wanted))
            differs = e.b.icmp_unsigned("!=", have, want)
            e.b.store(e.b.or_(e.b.load(result, typ=I64), e.b.select(differs, bit, I64(0))), result)
    e.b.ret(e.b.load(result, typ=I64))


def fetch_words(e: StateEmitter, places: Places, words: int, *, clear: bool = False) -> list[ir.Value]:
    """``words`` x 32 bits a lane, as one <lanes x i32> per word."""
    block = e.b.load(fetch(e, places, 4 * words, clear=clear), typ=lanes_of(I32, e.lanes * words), align=1)
    if words == 1:
        return [block]
    return [e.shuffle(block, [lane * words + word for lane in range(e.lanes)]) for word in range(words)]


def spread_words(e: StateEmitter, places: Places, rows: list[ir.Value]) -> None:
    """Write one or several words a lane."""
    spread(e, places, 4 * len(rows), interleave(e, rows))


def interleave(e: StateEmitter, rows: list[ir.Value]) -> ir.Value:
    """Rows of words as one vector with each lane's words side by side."""
    if len(rows) == 1:
        return rows[0]
    if len(rows) == 3:
        quads = interleave(e, [*rows, rows[0]])
        return e.shuffle(quads, [4 * lane + word for lane in range(e.lanes) for word in range(3)])
    low = e.shuffle(rows[0], list(range(2 * e.lanes)), rows[1])
    if len(rows) == 2:
        return e.shuffle(low, [word * e.lanes + lane for lane in range(e.lanes) for word in range(2)])
    high = e.shuffle(rows[2], list(range(2 * e.lanes)), rows[3])
    return e.shuffle(low, [word * e.lanes + lane for lane in range(e.lanes) for word in range(4)], high)


@dataclass(frozen=True, slots=True)
class SmallLoad:
    """A load of 8 or 16 bits a lane.

    Attributes:
        element: What is loaded.
        signed: Sign extension instead of zero extension.
        half: None to extend to 32 bits; 0 or 1 to extend to 16 and replace that half of the register.
    """

    element: ir.IntType
    signed: bool = False
    half: int | None = None


def fetch_small(e: StateEmitter, places: Places, load: SmallLoad, old: ir.Value, *, clear: bool = False) -> ir.Value:
    """An element of 8 or 16 bits a lane as <lanes x i32>; ``old`` gives the half that is kept."""
    width = load.element.width // 8
    data = e.b.load(fetch(e, places, width, clear=clear), typ=lanes_of(load.element, e.lanes), align=1)
    if load.half is None:
        return e.convert(data, I32, signed=load.signed)
    value = e.convert(e.convert(data, I16, signed=load.signed), I32)
    if load.half:
        value = e.b.shl(value, e.like(value, 16))
    kept = e.b.and_(old, e.like(old, 0xFFFF if load.half else 0xFFFF0000))
    return e.b.or_(value, kept)


def spread_small(e: StateEmitter, places: Places, element: ir.IntType, row: ir.Value, *, half: int = 0) -> None:
    """Write the low bits of one half of a register."""
    if half:
        row = e.b.lshr(row, e.like(row, 16))
    spread(e, places, element.width // 8, e.convert(row, element))


def read_rows(e: StateEmitter, position: int, words: int, first: int = 0) -> list[ir.Value]:
    """Rows of a vector-register operand as <lanes x i32> each."""
    return [e.load_rows(e.row(position, first + word)) for word in range(words)]


def write_rows(e: StateEmitter, position: int, rows: list[ir.Value], first: int = 0) -> None:
    """Store rows of a vector-register operand in the active lanes."""
    for word, row in enumerate(rows):
        e.store_rows(e.row(position, first + word), row)
