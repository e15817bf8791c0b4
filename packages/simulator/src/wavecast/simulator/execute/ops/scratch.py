"""Scratch (private memory of a lane) loads and stores: register spills and local arrays. Not part of the trace."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.address import stop_stray
from wavecast.simulator.execute.builder import I32, I64, POINTER
from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.layout import LANES, Context, Fault, RowKind
from wavecast.simulator.execute.ops.global_memory import (
    LOADS,
    STORES,
    load,
    skip_if_idle,
    store,
    width_of_load,
    width_of_store,
)
from wavecast.simulator.execute.registry import raw
from wavecast.simulator.execute.transfer import Places


def scratch_places(e: Emitter, vector: int, scalar: int, width: int) -> Places:
    """The active lanes' places: vector register + scalar register + ``offset``; leaves the helper on a stray lane."""
    common = e.convert(e.runtime_modifier("offset"), I32)
    if e.form.operands[scalar].kind != "off":
        common = e.b.add(common, e.read_scalar(scalar, "b32"))
    offsets = e.splat(common)
    if e.form.operands[vector].kind != "off":
        offsets = e.b.add(offsets, e.load_rows(e.row(vector)))
    size = e.context_load(Context.SCRATCH_BYTES)
    fits = e.b.sext(e.b.icmp_unsigned(">=", size, I64(width)), I64)
    limit = e.splat(e.convert(e.b.sub(size, I64(width)), I32))
    inside = e.b.and_(e.b.bitcast(e.b.icmp_unsigned("<=", offsets, limit), I64), fits)
    stray = e.b.and_(e.exec_mask(), e.b.not_(inside))
    stop_stray(e, e.convert(offsets, I64, signed=True), stray, width, fault=Fault.STRAY_SCRATCH)
    slots = e.allocate(I32, LANES)
    e.b.store(offsets, slots, align=64)
    base = e.b.inttoptr(e.context_load(Context.SCRATCH), POINTER)

    def pointer(lane: ir.Value) -> ir.Value:
        offset = e.b.zext(e.b.load(e.at(slots, e.b.mul(lane, I64(4))), typ=I32, align=4), I64)
        return e.at(base, e.b.add(e.b.mul(lane, size), offset))

    # Lanes are a lane's scratch apart, never side by side.
    return Places(e.exec_mask(), pointer, lambda step: ir.Constant(ir.IntType(1), 0), is_recorded=False)


def _loader(suffix: str) -> None:
    @raw(f"scratch_load_{suffix}", "b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        load(e, suffix, 0, scratch_places(e, 1, 2, width_of_load(suffix)))


def _storer(suffix: str) -> None:
    @raw(f"scratch_store_{suffix}", "b32 b32 b32", kind=RowKind.MEMORY)
    def _(e: Emitter) -> None:
        skip_if_idle(e)
        store(e, suffix, 1, scratch_places(e, 0, 2, width_of_store(suffix)))


for _suffix in LOADS:
    _loader(_suffix)
for _suffix in STORES:
    _storer(_suffix)
