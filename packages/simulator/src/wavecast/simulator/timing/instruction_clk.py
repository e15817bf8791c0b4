"""Cycles of the average wave, instruction by instruction and source line by source line."""

from __future__ import annotations

import numpy as np

from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.compute_unit import Spent
from wavecast.simulator.timing.prediction import InstructionClk


def instruction_clk(kernel: Kernel, spent_clk: np.ndarray, *, waves: int) -> tuple[InstructionClk, ...]:
    """Executed instructions with their cycles.

    Args:
        kernel: The kernel.
        spent_clk: float64 (instructions, Spent), cycles of all waves of the average workgroup.
        waves: Of a workgroup.
    """
    each = spent_clk / waves
    return tuple(
        InstructionClk(
            index=instruction.index,
            executed=float(row[Spent.EXECUTED]),
            issue_clk=float(row[Spent.ISSUE]),
            stall_clk=float(row[Spent.STALL]),
            wait_clk=float(row[Spent.WAIT]),
            caused_clk=float(row[Spent.CAUSED]),
        )
        for instruction, row in zip(kernel.instructions, each, strict=True)
        if row[Spent.EXECUTED]
    )
