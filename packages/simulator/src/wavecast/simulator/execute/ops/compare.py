"""Vector comparisons into a lane mask."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import vector


@vector("v_cmp_gt_i32", "mask", "i32 i32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.icmp_signed(">", a, b)


@vector("v_cndmask_b32", "b32", "b32 b32 mask")
def _(e: Emitter, no: ir.Value, yes: ir.Value, mask: ir.Value) -> ir.Value:
    return e.select(mask, yes, no)
