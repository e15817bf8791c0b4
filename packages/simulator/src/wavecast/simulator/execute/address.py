"""Address translation, fault checks and trace records that every memory helper shares.

``resolve`` and ``record`` are functions of the helper module, emitted once per module and inlined or called as LLVM
sees fit.
"""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import I1, I8, I32, I64, POINTER, Emitter, lanes_of
from wavecast.simulator.execute.layout import LANES, Argument, Context, Fault
from wavecast.simulator.execute.trace import RECORD

_ADDRESSES = lanes_of(I64)
_BUFFER_ROW_BYTES = 24


def record(e: Emitter, addresses: ir.Value) -> None:
    """Append a trace record with these lane addresses (<64 x i64>), if the launch is traced."""
    ring = e.context_load(Context.TRACE)
    with e.b.if_then(e.b.icmp_unsigned("!=", ring, I64(0))):
        count = e.context_load(Context.TRACE_COUNT)
        slot = e.at(e.b.inttoptr(ring, POINTER), e.b.mul(count, I64(RECORD.itemsize)))
        fields = RECORD.fields
        assert fields is not None
        offset = {name: int(fields[name][1]) for name in RECORD.names or ()}
        e.b.store(e.b.trunc(e.argument(Argument.INSTRUCTION), I32), e.at(slot, offset["instruction"]), align=4)
        e.b.store(e.b.trunc(e.context_load(Context.WAVE), I32), e.at(slot, offset["wave"]), align=4)
        e.b.store(e.context_load(Context.WORKGROUP), e.at(slot, offset["workgroup"]), align=8)
        e.b.store(e.exec_mask(), e.at(slot, offset["exec"]), align=8)
        e.b.store(addresses, e.at(slot, offset["address"]), align=8)
        e.context_store(Context.TRACE_COUNT, e.b.add(count, I64(1)))


def resolve(e: Emitter, addresses: ir.Value, mask: ir.Value, width: int) -> tuple[ir.Value, ir.Value]:
    """Translate device addresses of the lanes in ``mask`` to host addresses, or leave the helper with a fault.

    Args:
        e: The helper.
        addresses: <64 x i64> device addresses.
        mask: i64, lanes that take part.
        width: Bytes each lane touches.

    Returns:
        Pointer to 64 host addresses (i64) of which those in ``mask`` are valid, and an i1 that is set if every lane
        lies in one buffer. The code that follows runs only if there was no fault.
    """
    device = e.allocate(I64, LANES)
    e.b.store(addresses, device, align=64)
    arguments = [e.context, e.arguments, device, mask, I64(width)]
    outcome = e.b.call(_resolve_function(e.module), arguments)
    fault = e.b.icmp_unsigned("==", outcome, I32(2))
    with e.b.if_then(fault, likely=False):
        e.b.ret_void()
    return device, e.b.icmp_unsigned("==", outcome, I32(0))


def _resolve_function(module: ir.Module) -> ir.Function:
    """``i32 resolve(context, arguments, addresses, mask, width)``: 0 one buffer, 1 several buffers, 2 fault."""
    existing = module.globals.get("resolve")
    if existing is not None:
        return existing
    function = ir.Function(module, ir.FunctionType(I32, [POINTER, POINTER, POINTER, I64, I64]), name="resolve")
    function.linkage = "internal"
    context, arguments, addresses, mask, width = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    search = function.append_basic_block("search")

    def at(base: ir.Value, offset: ir.Value) -> ir.Value:
        return b.gep(base, [offset], source_etype=I8)

    base, end, delta = (
        b.load(at(arguments, I64(8 * slot)), typ=I64)
        for slot in (Argument.BUFFER_BASE, Argument.BUFFER_END, Argument.BUFFER_DELTA)
    )
    values = b.load(addresses, typ=_ADDRESSES, align=64)
    lanes = b.bitcast(mask, lanes_of(I1))
    lowest = _reduce(module, b, "umin", b.select(lanes, values, ir.Constant(_ADDRESSES, [(1 << 64) - 1] * LANES)))
    highest = _reduce(module, b, "umax", b.select(lanes, values, ir.Constant(_ADDRESSES, [0] * LANES)))
    inside = b.and_(
        b.icmp_unsigned(">=", lowest, base),
        b.and_(b.icmp_unsigned(">=", end, width), b.icmp_unsigned("<=", highest, b.sub(end, width))),
    )
    same = function.append_basic_block("same")
    b.cbranch(inside, same, search)
    b.position_at_end(same)
    spread = b.insert_element(ir.Constant(_ADDRESSES, ir.Undefined), delta, I32(0))
    spread = b.shuffle_vector(spread, ir.Constant(_ADDRESSES, ir.Undefined), ir.Constant(lanes_of(I32), [0] * LANES))
    b.store(b.add(values, spread), addresses, align=64)
    b.ret(I32(0))

    b.position_at_end(search)
    b.ret(b.call(_search_function(module), [context, arguments, addresses, mask, width]))
    return function


def _search_function(module: ir.Module) -> ir.Function:
    """The slow path of ``resolve``: look every lane up in the buffer table."""
    function = ir.Function(module, ir.FunctionType(I32, [POINTER, POINTER, POINTER, I64, I64]), name="search_buffers")
    function.linkage = "internal"
    function.attributes.add("noinline")
    context, arguments, addresses, mask, width = function.args
    entry, lane_head, lane_body, row_head, row_body, found, next_row, stray, done = (
        function.append_basic_block(name)
        for name in ("entry", "lane", "lane_body", "row", "row_body", "found", "next_row", "stray", "done")
    )
    b = ir.IRBuilder(entry)

    def at(base: ir.Value, offset: ir.Value) -> ir.Value:
        return b.gep(base, [offset], source_etype=I8)

    def slot(pointer: ir.Value, index: int) -> ir.Value:
        return at(pointer, I64(8 * index))

    table = b.inttoptr(b.load(slot(context, Context.BUFFERS), typ=I64), POINTER)
    count = b.load(slot(context, Context.BUFFER_COUNT), typ=I64)
    b.branch(lane_head)

    b.position_at_end(lane_head)
    rest = b.phi(I64)
    first_delta, several = b.phi(I64), b.phi(I32)
    rest.add_incoming(mask, entry)
    first_delta.add_incoming(I64(0), entry)
    several.add_incoming(I32(0), entry)
    b.cbranch(b.icmp_unsigned("!=", rest, I64(0)), lane_body, done)

    b.position_at_end(lane_body)
    count_zeros = module.globals.get("llvm.cttz.i64") or ir.Function(
        module, ir.FunctionType(I64, [I64, I1]), name="llvm.cttz.i64"
    )
    lane = b.call(count_zeros, [rest, I1(1)])
    place = at(addresses, b.mul(lane, I64(8)))
    address = b.load(place, typ=I64)
    b.branch(row_head)

    b.position_at_end(row_head)
    row = b.phi(I64)
    row.add_incoming(I64(0), lane_body)
    b.cbranch(b.icmp_unsigned("<", row, count), row_body, stray)
    b.position_at_end(row_body)
    entry_pointer = at(table, b.mul(row, I64(_BUFFER_ROW_BYTES)))
    base, end, delta = (b.load(slot(entry_pointer, index), typ=I64) for index in range(3))
    fits = b.and_(b.icmp_unsigned(">=", address, base), b.icmp_unsigned("<=", b.add(address, width), end))
    b.cbranch(fits, found, next_row)
    b.position_at_end(next_row)
    row.add_incoming(b.add(row, I64(1)), next_row)
    b.branch(row_head)

    b.position_at_end(found)
    b.store(b.add(address, delta), place)
    for index, value in ((Argument.BUFFER_BASE, base), (Argument.BUFFER_END, end), (Argument.BUFFER_DELTA, delta)):
        b.store(value, slot(arguments, index))
    is_first = b.icmp_unsigned("==", rest, mask)
    differs = b.icmp_unsigned("!=", delta, b.select(is_first, delta, first_delta))
    rest.add_incoming(b.and_(rest, b.sub(rest, I64(1))), found)
    first_delta.add_incoming(b.select(is_first, delta, first_delta), found)
    several.add_incoming(b.or_(several, b.zext(differs, I32)), found)
    b.branch(lane_head)

    b.position_at_end(stray)
    for index, value in (
        (Context.FAULT_ADDRESS, address),
        (Context.FAULT_LANE, lane),
        (Context.FAULT_BYTES, width),
        (Context.FAULT, I64(Fault.STRAY_ADDRESS)),
    ):
        b.store(value, slot(context, index))
    b.ret(I32(2))

    b.position_at_end(done)
    b.ret(several)
    return function


def _reduce(module: ir.Module, b: ir.IRBuilder, kind: str, values: ir.Value) -> ir.Value:
    name = f"llvm.vector.reduce.{kind}.v64i64"
    function = module.globals.get(name) or ir.Function(module, ir.FunctionType(I64, [_ADDRESSES]), name=name)
    return b.call(function, [values])
