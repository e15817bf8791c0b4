"""Flat addresses: global memory, a window onto the workgroup's LDS, and one onto each lane's scratch."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import record, stop_stray, translated
from wavecast.simulator.execute.builder import I64, POINTER
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, PRIVATE_BASE, SHARED_BASE, Context
from wavecast.simulator.execute.trace import RecordKind
from wavecast.simulator.execute.transfer import Places, consecutive


def flat_places(e: Emitter, addresses: ir.Value, width: int) -> Places:
    """Places of the active lanes, wherever each one's address points; leaves the helper with a fault on a stray lane.

    Only the lanes that go to global memory become part of the trace.

    Args:
        e: The helper. What is emitted after this call runs only if there was no fault.
        addresses: <64 x i64> flat addresses.
        width: Bytes each lane touches.
    """
    window = e.b.lshr(addresses, e.like(addresses, 32))
    active = e.exec_mask()
    to_lds, to_scratch = (
        e.b.and_(active, e.b.bitcast(e.b.icmp_unsigned("==", window, e.like(window, base >> 32)), I64))
        for base in (SHARED_BASE, PRIVATE_BASE)
    )
    elsewhere = e.b.or_(to_lds, to_scratch)
    to_global = e.b.and_(active, e.b.not_(elsewhere))
    record(e, addresses, to_global)
    host = translated(e, addresses, to_global, width)
    with e.b.if_then(e.b.icmp_unsigned("!=", elsewhere, I64(0)), likely=False):
        offsets = e.b.and_(addresses, e.like(addresses, 0xFFFFFFFF))
        record(e, offsets, to_lds, kind=RecordKind.LDS_SIDE)
        lane_bytes = e.context_load(Context.SCRATCH_BYTES)
        lanes = ir.Constant(addresses.type, list(range(LANES)))
        own = e.b.add(e.splat(e.context_load(Context.SCRATCH)), e.b.mul(lanes, e.splat(lane_bytes)))
        for mask, start, size in (
            (to_lds, e.splat(e.context_load(Context.LDS)), e.context_load(Context.LDS_BYTES)),
            (to_scratch, own, lane_bytes),
        ):
            ends = e.b.add(offsets, e.like(offsets, width))
            outside = e.b.bitcast(e.b.icmp_unsigned(">", ends, e.splat(size)), I64)
            stop_stray(e, addresses, e.b.and_(mask, outside), width)
            inside = e.b.bitcast(mask, ir.VectorType(ir.IntType(1), LANES))
            known = e.b.load(host, typ=addresses.type, align=64)
            e.b.store(e.b.select(inside, e.b.add(start, offsets), known), host, align=64)

    def pointer(lane: ir.Value) -> ir.Value:
        return e.b.inttoptr(e.b.load(e.at(host, e.b.mul(lane, I64(8))), typ=I64), POINTER)

    def dense(step: int) -> ir.Value:
        # Lanes with consecutive scratch addresses are a lane's scratch apart in host memory.
        no_scratch = e.b.icmp_unsigned("==", to_scratch, I64(0))
        return e.b.and_(no_scratch, consecutive(e, addresses, active, step))

    return Places(active, pointer, dense)
