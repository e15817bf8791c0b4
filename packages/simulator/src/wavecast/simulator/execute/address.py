"""Address translation, fault checks and trace records that every memory helper shares.

An instruction remembers the buffer that it touched last; only other addresses are looked up in the buffer table.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from wavecast.simulator.execute.builder import I1, I32, I64, POINTER, Builder
from wavecast.simulator.execute.layout import Argument, Context, Fault
from wavecast.simulator.execute.state import StateEmitter
from wavecast.simulator.execute.trace import RECORD, RecordKind
from wavecast.simulator.execute.transfer import Places, consecutive, is_checked

_BUFFER_ROW_BYTES = 24


def record(
    e: StateEmitter,
    addresses: ir.Value | None,
    mask: ir.Value | None = None,
    *,
    kind: RecordKind = RecordKind.ACCESS,
    end: ir.Value | None = None,
) -> None:
    """Append a trace record, if the launch is traced, and checked where only checks want it.

    Args:
        e: The helper.
        addresses: <lanes x i64> byte addresses, or one i64 for lane 0; None for an event.
        mask: i64, lanes that took part; None for EXEC. No record is made without any.
        kind: What it is.
        end: i64, first address that a range check cuts off; None where there is no check.
    """
    lanes = e.exec_mask() if mask is None else mask
    ring = e.context_load(Context.TRACE)
    wanted = e.b.icmp_unsigned("!=", ring, I64(0))
    if kind is not RecordKind.ACCESS:
        wanted = e.b.and_(wanted, is_checked(e))
    if mask is not None:
        wanted = e.b.and_(wanted, e.b.icmp_unsigned("!=", lanes, I64(0)))
    with e.b.if_then(wanted):
        count = e.context_load(Context.TRACE_COUNT)
        slot = e.at(e.b.inttoptr(ring, POINTER), e.b.mul(count, I64(RECORD.itemsize)))
        fields = RECORD.fields
        assert fields is not None
        offset = {name: int(fields[name][1]) for name in RECORD.names or ()}
        e.b.store(e.b.trunc(e.argument(Argument.INSTRUCTION), I32), e.at(slot, offset["instruction"]), align=4)
        e.b.store(e.b.trunc(e.context_load(Context.WAVE), I32), e.at(slot, offset["wave"]), align=4)
        e.b.store(e.context_load(Context.WORKGROUP), e.at(slot, offset["workgroup"]), align=8)
        e.b.store(lanes, e.at(slot, offset["exec"]), align=8)
        e.b.store(I64(kind), e.at(slot, offset["kind"]), align=8)
        e.b.store(I64(-1) if end is None else end, e.at(slot, offset["end"]), align=8)
        for name in ("changed", "lost"):
            e.b.store(I64(0), e.at(slot, offset[name]), align=8)
        if addresses is not None:
            e.b.store(addresses, e.at(slot, offset["address"]), align=8)
        e.context_store(Context.TRACE_COUNT, e.b.add(count, I64(1)))


def global_places(e: StateEmitter, addresses: ir.Value, mask: ir.Value, width: int) -> Places:
    """Translate device addresses to host memory, or leave the helper with a fault.

    Args:
        e: The helper. What is emitted after this call runs only if there was no fault.
        addresses: <lanes x i64> device addresses.
        mask: i64, lanes that take part.
        width: Bytes each lane touches.
    """
    host = translated(e, addresses, mask, width)

    def pointer(lane: ir.Value) -> ir.Value:
        return e.b.inttoptr(e.b.load(e.at(host, e.b.mul(lane, I64(8))), typ=I64), POINTER)

    # Buffers have unmapped space between them: consecutive elements lie in one.
    return Places(mask, pointer, lambda step: consecutive(e, addresses, mask, step))


def translated(e: StateEmitter, addresses: ir.Value, mask: ir.Value, width: int) -> ir.Value:
    """Pointer to the lanes' host addresses (i64), valid in the mask; leaves the helper with a fault."""
    known = _KnownBuffer(e)
    host = e.allocate(I64, e.lanes)
    offsets = e.b.sub(addresses, e.splat(known.base))
    fits = e.mask(e.b.icmp_unsigned("<=", offsets, e.splat(e.b.sub(known.size, I64(width)))))
    inside = e.b.and_(fits, e.b.sext(e.b.icmp_unsigned(">=", known.size, I64(width)), I64))
    all_known = e.b.icmp_unsigned("==", e.b.and_(mask, e.b.not_(inside)), I64(0))
    with e.b.if_else(all_known, likely=True) as (same, other):
        with same:
            e.b.store(e.b.add(addresses, e.splat(known.delta)), host, align=64)
        with other:
            e.b.store(addresses, host, align=64)
            _search(e, host, mask, width)
    return host


def stop_stray(
    e: StateEmitter, addresses: ir.Value, stray: ir.Value, width: int, *, fault: Fault = Fault.STRAY_ADDRESS
) -> None:
    """Leave the helper with a fault of the first lane in the mask ``stray``, if there is one.

    Args:
        e: The helper.
        addresses: <lanes x i64>, what to report of that lane.
        stray: i64, lanes whose access is out of bounds.
        width: Bytes each lane touches.
        fault: What it is.
    """
    with e.b.if_then(e.b.icmp_unsigned("!=", stray, I64(0)), likely=False):
        lane = e.call("llvm.cttz.i64", I64, [stray, I1(1)])
        for slot, value in (
            (Context.FAULT_ADDRESS, e.b.extract_element(addresses, lane)),
            (Context.FAULT_LANE, lane),
            (Context.FAULT_BYTES, I64(width)),
            (Context.FAULT, I64(fault)),
        ):
            e.context_store(slot, value)
        e.b.ret_void()


def scalar_place(e: StateEmitter, address: ir.Value, width: int) -> ir.Value:
    """Host pointer for one device address (i64), or leave the helper with a fault of lane 0."""
    known = _KnownBuffer(e)
    host = e.allocate(I64, 1)
    fits = e.b.icmp_unsigned("<=", e.b.sub(address, known.base), e.b.sub(known.size, I64(width)))
    inside = e.b.and_(fits, e.b.icmp_unsigned(">=", known.size, I64(width)))
    with e.b.if_else(inside, likely=True) as (same, other):
        with same:
            e.b.store(e.b.add(address, known.delta), host)
        with other:
            e.b.store(address, host)
            _search(e, host, I64(1), width)
    return e.b.load(host, typ=POINTER)


class _KnownBuffer:
    """The buffer that the instruction touched last: where it looks first."""

    def __init__(self, e: StateEmitter) -> None:
        self.base = e.argument(Argument.BUFFER_BASE)
        self.size = e.b.sub(e.argument(Argument.BUFFER_END), self.base)
        self.delta = e.argument(Argument.BUFFER_DELTA)


def _search(e: StateEmitter, host: ir.Value, mask: ir.Value, width: int) -> None:
    """Turn the device addresses at ``host`` into host addresses by the buffer table; ends the helper on a fault."""
    function = e.shared("search_buffers", I1, [POINTER, POINTER, POINTER, I64, I64], _search_body)
    stray = e.b.call(function, [e.context, e.arguments, host, mask, I64(width)])
    with e.b.if_then(stray, likely=False):
        e.b.ret_void()


def _search_body(
    e: Builder, context: ir.Value, arguments: ir.Value, addresses: ir.Value, mask: ir.Value, width: ir.Value
) -> None:
    """Look up every lane of the mask; true, and a fault in the context, if one strays."""

    def load(base: ir.Value, index: int) -> ir.Value:
        return e.b.load(e.at(base, 8 * index), typ=I64)

    def store(base: ir.Value, values: Sequence[tuple[int, ir.Value]]) -> None:
        for index, value in values:
            e.b.store(value, e.at(base, 8 * index))

    table = e.b.inttoptr(load(context, Context.BUFFERS), POINTER)
    count = load(context, Context.BUFFER_COUNT)
    with e.for_each_lane(mask) as lane:
        place = e.at(addresses, e.b.mul(lane, I64(8)))
        address = load(place, 0)
        found = e.function.append_basic_block("found")
        with e.for_each(count) as number:
            row = e.at(table, e.b.mul(number, I64(_BUFFER_ROW_BYTES)))
            base, end, delta = (load(row, column) for column in range(3))
            # Differences instead of sums: an access at the very end of the address space must not wrap into a buffer.
            size = e.b.sub(end, base)
            inside = e.b.icmp_unsigned("<=", e.b.sub(address, base), e.b.sub(size, width))
            fits = e.b.and_(inside, e.b.icmp_unsigned(">=", size, width))
            other = e.function.append_basic_block("other")
            e.b.cbranch(fits, found, other)
            e.b.position_at_end(other)
        store(
            context,
            (
                (Context.FAULT_ADDRESS, address),
                (Context.FAULT_LANE, lane),
                (Context.FAULT_BYTES, width),
                (Context.FAULT, I64(Fault.STRAY_ADDRESS)),
            ),
        )
        e.b.ret(I1(1))
        e.b.position_at_end(found)
        e.b.store(e.b.add(address, delta), place)
        remembered = (Argument.BUFFER_BASE, base), (Argument.BUFFER_END, end), (Argument.BUFFER_DELTA, delta)
        store(arguments, remembered)
    e.b.ret(I1(0))
