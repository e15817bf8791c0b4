"""Issue cycles of a kernel as counts by class, so that they can be priced again for every set of constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.opcodes import Unit, is_8bit_matrix, is_quarter_rate, is_taken, matrix_clk, unit_of

_VALU, _QUARTER, _MATRIX, _MATRIX_8BIT, _SCALAR, _BRANCH = range(6)
_CLASSES = 6
_MATRIX_CLASSES = (_MATRIX, _MATRIX_8BIT)
_ON_SIMD = (_VALU, _QUARTER, *_MATRIX_CLASSES)


@dataclass(frozen=True, slots=True)
class IssueClasses:
    """A kernel's instructions by issue class.

    Attributes:
        weights: float64 (instructions, classes): one in the column of its class; for a matrix instruction the cycles
            of its shape and type, which no constant with a range changes.
    """

    weights: np.ndarray

    def prices(self, device: Device) -> np.ndarray:
        """Cycles of one unit of weight of each class.

        Matrix cycles pass at the clock that the device holds under matrix load of that operand width, counted in cycles
        of the peak clock. A branch costs its full price where it is taken: unconditional, or backward.
        """
        compute, issue = device.compute, device.issue
        wide, narrow = (
            compute.clock_ghz / clock for clock in (compute.matrix_clock_ghz, compute.matrix_clock_8bit_ghz)
        )
        return np.array([issue.valu_clk, issue.quarter_rate_clk, wide, narrow, issue.salu_clk, issue.branch_clk])

    def matrix_clk(self, times: np.ndarray) -> tuple[float, float]:
        """Cycles of matrix instructions for executions per instruction: (operands wider than 8 bits, 8 bits)."""
        wide, narrow = (times @ self.weights)[list(_MATRIX_CLASSES)]
        return float(wide), float(narrow)

    def clk(self, device: Device) -> np.ndarray:
        """float64 per instruction: cycles that it occupies its SIMD or, if it is none of theirs, its own wave."""
        return self.weights @ self.prices(device)

    def split_clk(self, times: np.ndarray, device: Device) -> tuple[float, float]:
        """(cycles on the SIMD, cycles of the wave alone) for executions per instruction."""
        by_class = (times @ self.weights) * self.prices(device)
        on_simd = float(by_class[list(_ON_SIMD)].sum())
        return on_simd, float(by_class.sum()) - on_simd


def issue_classes(kernel: Kernel, device: Device) -> IssueClasses:
    """Classify every instruction of a kernel.

    Raises:
        UnsupportedInstructionError: if the device has no rate for a matrix instruction.
    """
    weights = np.zeros((len(kernel.instructions), _CLASSES))
    for row, instruction in zip(weights, kernel.instructions, strict=True):
        column, weight = _class_of(instruction, device)
        row[column] = weight
    return IssueClasses(weights)


def _class_of(instruction: Instruction, device: Device) -> tuple[int, float]:
    unit = unit_of(instruction)
    if unit is Unit.MATRIX:
        return (_MATRIX_8BIT if is_8bit_matrix(instruction) else _MATRIX), matrix_clk(instruction, device)
    if unit is Unit.VALU:
        return (_QUARTER if is_quarter_rate(instruction) else _VALU), 1.0
    if unit is Unit.BRANCH and is_taken(instruction):
        return _BRANCH, 1.0
    return _SCALAR, 1.0
