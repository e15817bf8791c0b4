"""Vector floating-point arithmetic."""

from __future__ import annotations

from llvmlite import ir

from wavecast.simulator.execute.emitter import Emitter
from wavecast.simulator.execute.registry import vector


@vector("v_add_f32", "f32", "f32 f32")
@vector("v_add_f64", "f64", "f64 f64")
@vector("v_add_f16", "f16", "f16 f16")
def _(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    return e.b.fadd(a, b)


@vector("v_fma_f32", "f32", "f32 f32 f32")
def _(e: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.fma", a.type, [a, b, c])
