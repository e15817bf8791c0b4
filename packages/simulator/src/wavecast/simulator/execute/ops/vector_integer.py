"""Vector integer arithmetic, logic and moves."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import vector


@vector("v_mov_b32", "b32", "b32")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return a


@vector("v_add_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.add(a, b)


@vector("v_lshlrev_b32", "u32", "u32 u32")
def _(e: Emitter, count: ir.Value, a: ir.Value) -> ir.Value:
    return e.b.shl(a, e.b.and_(count, e.like(count, 31)))


@vector("v_and_b32", "b32", "b32 b32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.and_(a, b)
