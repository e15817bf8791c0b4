"""Scalar arithmetic and logic."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import I1, I32, I64, Emitter
from wavecast.simulator.execute.registry import scalar
from wavecast.simulator.program.instruction import SCC


def _nonzero(e: Emitter, value: ir.Value) -> ir.Value:
    """Set SCC to whether the result is not zero, and pass the result on."""
    e.set_scc(e.b.icmp_unsigned("!=", value, e.like(value, 0)))
    return value


@scalar("s_mov_b32", "b32", "b32")
@scalar("s_mov_b64", "b64", "b64")
def _(e: Emitter, a: ir.Value) -> ir.Value:
    return a


@scalar("s_add_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    total = e.b.add(a, b)
    e.set_scc(e.b.icmp_unsigned("<", total, a))
    return total


@scalar("s_addc_u32", "u32", "u32 u32")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    wide = e.b.add(e.b.add(e.b.zext(a, I64), e.b.zext(b, I64)), e.b.zext(e.scalar_load(SCC), I64))
    e.set_scc(e.b.trunc(e.b.lshr(wide, I64(32)), I1))
    return e.b.trunc(wide, I32)


@scalar("s_and_b32", "b32", "b32 b32")
@scalar("s_and_b64", "b64", "b64 b64")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return _nonzero(e, e.b.and_(a, b))


@scalar("s_lshl_b32", "b32", "b32 u32")
def _(e: Emitter, a: ir.Value, count: ir.Value) -> ir.Value:
    return _nonzero(e, e.b.shl(a, e.b.and_(count, I32(31))))
