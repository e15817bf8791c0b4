"""Copies that the compiler makes where branches join, before the lanes that took the other branch are active again.

LLVM ends a divergent branch with ``s_or_b64 exec, exec, …`` at the beginning of the block that both ways come to. When
registers run short, its allocator copies some of them there, and has to do so behind that instruction. In front of it
only the lanes of the branch have their value copied; the others find in the copy what it held before
(llvm-project#166657, mended by #117544).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wavecast.simulator.program.instruction import EXEC, Instruction, Operand, Register, RegisterFile
from wavecast.simulator.program.kernel import Kernel

_COPIES = ("v_mov_b32", "v_mov_b64", "v_accvgpr_write_b32", "v_accvgpr_read_b32", "v_accvgpr_mov_b32")
_LANE_FILES = (RegisterFile.VECTOR, RegisterFile.ACCUMULATION)


@dataclass(frozen=True, slots=True)
class EarlyCopies:
    """Copies in front of one join.

    Attributes:
        copies: Indices of instructions.
        join: Index of the instruction that makes all lanes active again.
    """

    copies: tuple[int, ...]
    join: int


def early_copies(kernel: Kernel) -> list[EarlyCopies]:
    """Copies between the place where a branch that some lanes skip ends and the instruction that joins the lanes."""
    targets = {i.target for i in kernel.instructions if i.opcode == "s_cbranch_execz" and i.target is not None}
    return list(_found(kernel, sorted(targets)))


def _found(kernel: Kernel, targets: list[int]) -> Iterator[EarlyCopies]:
    for target in targets:
        copies: list[int] = []
        for instruction in kernel.instructions[target:]:
            if instruction.block != kernel.instructions[target].block or instruction.target is not None:
                break
            if _changes_lanes(instruction):
                if copies and _joins(instruction):
                    yield EarlyCopies(tuple(copies), instruction.index)
                break
            if _is_copy(instruction):
                copies.append(instruction.index)


def _changes_lanes(instruction: Instruction) -> bool:
    """Whether it writes EXEC: so begins a branch too short for the compiler to skip, and copies in it are its own."""
    implicitly = "saveexec" in instruction.opcode or "wrexec" in instruction.opcode or "v_cmpx" in instruction.opcode
    return implicitly or bool(instruction.operands and _is_exec(instruction.operands[0]))


def _joins(instruction: Instruction) -> bool:
    return instruction.opcode == "s_or_b64" and any(_is_exec(operand) for operand in instruction.operands[1:])


def _is_exec(operand: Operand) -> bool:
    value = operand.value
    return isinstance(value, Register) and value.file is RegisterFile.SCALAR and value.index == EXEC


def _is_copy(instruction: Instruction) -> bool:
    if instruction.opcode not in _COPIES or instruction.modifiers or len(instruction.operands) != 2:
        return False
    return all(isinstance(o.value, Register) and o.value.file in _LANE_FILES for o in instruction.operands)
