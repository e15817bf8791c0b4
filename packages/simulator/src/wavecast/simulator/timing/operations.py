"""Operations that a launch executes: what a roofline counts."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.layout import LANES
from wavecast.simulator.execute.ptx.layout import WARP_LANES
from wavecast.simulator.timing.opcodes import matrix_flop, unit_of
from wavecast.simulator.timing.units import Unit


@dataclass(frozen=True, slots=True)
class Operations:
    """Executed operations of the whole grid.

    Attributes:
        matrix_flop: Floating-point operations of matrix instructions, a multiplication and an addition each counted.
        vector_ops: Lane operations of vector instructions: as many as a wave has lanes, whatever lanes are active, as
            the hardware spends them.
        instructions: Wave instructions that make them.
    """

    matrix_flop: float
    vector_ops: float
    instructions: float


def executed_operations(execution: Execution) -> Operations:
    """Count what ran, scaled from the workgroups that ran to the grid."""
    flop = vector = instructions = 0
    lanes = WARP_LANES if execution.kernel.is_ptx else LANES
    for instruction, times in zip(execution.kernel.instructions, execution.executed.tolist(), strict=True):
        unit = unit_of(instruction)
        if unit is Unit.MATRIX:
            flop += times * matrix_flop(instruction)
        elif unit is Unit.VALU:
            vector += times * lanes
        instructions += times if unit in (Unit.MATRIX, Unit.VALU) else 0
    return Operations(flop * execution.scale, vector * execution.scale, instructions * execution.scale)
