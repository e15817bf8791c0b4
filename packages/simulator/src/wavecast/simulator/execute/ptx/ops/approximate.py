"""Approximate functions of one argument: reciprocal, roots, exponential, logarithm, sine, cosine, hyperbolic tangent.

The hardware's tables are not public. What stands here are the host computations that AMD's instructions have too,
within the error that the PTX manual allows: ``docs/concepts/exactness.md`` lists both.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from wavecast.simulator.execute.numeric import is_nan
from wavecast.simulator.execute.ops.transcendental import (
    cosine,
    exponential,
    logarithm,
    reciprocal,
    reciprocal_root,
    sine,
    square_root,
)
from wavecast.simulator.execute.ptx.emitter import WarpEmitter
from wavecast.simulator.execute.ptx.ops.arithmetic import finish_float, result_type, singles
from wavecast.simulator.execute.ptx.registry import ptx

_SMALLEST_NORMAL = 2.0**-126
Function = Callable[..., ir.Value]


def _register(name: str, function: Function, *modes: str) -> None:
    @ptx(name)
    def _(e: WarpEmitter) -> None:
        e.expect_parts("approx", "rn", "ftz", *modes)
        kind = result_type(e)
        (value,) = singles(e, kind, 1)
        finish_float(e, kind, function(e, value))


def _logarithm(e: WarpEmitter, value: ir.Value) -> ir.Value:
    """Of denormals too: scaled by 2^24, which its logarithm then loses again."""
    small = e.b.fcmp_ordered("<", e.intrinsic("llvm.fabs", value.type, [value]), e.like(value, _SMALLEST_NORMAL))
    zero = e.b.fcmp_ordered("==", value, e.like(value, 0.0))
    small = e.b.and_(small, e.b.not_(zero))
    scaled = e.select(small, e.b.fmul(value, e.like(value, 2.0**24)), value)
    result = logarithm(e, scaled)
    return e.select(small, e.b.fsub(result, e.like(value, 24.0)), result)


def _in_turns(function: Function) -> Function:
    """Of an angle in radians: the hardware, too, first makes turns of it, in f32, and leaves whole ones out."""

    def turned(e: WarpEmitter, value: ir.Value) -> ir.Value:
        turns = e.b.fmul(value, e.like(value, 0.5 / math.pi))
        return function(e, e.b.fsub(turns, e.intrinsic("llvm.roundeven", turns.type, [turns])))

    return turned


def _tangent(e: WarpEmitter, value: ir.Value) -> ir.Value:
    """tanh(value) = 1 - 2 / (e^2|value| + 1), with the sign of the value; near 0 the value less a third of its cube."""
    size = e.intrinsic("llvm.fabs", value.type, [value])
    power = exponential(e, e.b.fmul(size, e.like(value, 2.0 / math.log(2.0))))
    one = e.like(value, 1.0)
    far = e.b.fsub(one, e.b.fdiv(e.like(value, 2.0), e.b.fadd(power, one)))
    cube = e.b.fmul(e.b.fmul(size, size), size)
    near = e.b.fsub(size, e.b.fmul(cube, e.like(value, 1.0 / 3.0)))
    chosen = e.select(e.b.fcmp_ordered("<", size, e.like(value, 0.02)), near, far)
    result = e.intrinsic("llvm.copysign", value.type, [chosen, value])
    return e.select(is_nan(e, value), value, result)


_register("rcp", reciprocal)
_register("sqrt", square_root)
_register("rsqrt", reciprocal_root)
_register("ex2", exponential)
_register("lg2", _logarithm)
_register("sin", _in_turns(sine))
_register("cos", _in_turns(cosine))
_register("tanh", _tangent)
