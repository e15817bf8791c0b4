"""Moves whose register number the wave computes: what ``s_set_gpr_idx_on`` makes of ``v_mov_b32``.

From ``s_set_gpr_idx_on`` to ``s_set_gpr_idx_off`` the low byte of M0 is added to register numbers of vector
instructions. Compilers put nothing but moves there, without a branch between, so a move's row in the table can say by
itself that it is indexed: it becomes ``v_movreld_b32`` (index on the destination) or ``v_movrels_b32`` (on the source),
the names that other generations have for just that, with the number of registers up to the last one as an operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.program.instruction import Immediate, Instruction, Operand, Register, RegisterFile
from wavecast.simulator.program.kernel import Kernel

_ON, _OFF = "s_set_gpr_idx_on", "s_set_gpr_idx_off"
_INDEXED = {"gpr_idx(DST)": ("v_movreld_b32", 0), "gpr_idx(SRC0)": ("v_movrels_b32", 1)}


def resolved_instructions(kernel: Kernel, vector_rows: int) -> Iterator[Instruction]:
    """The kernel's instructions, indexed moves under the name that says so.

    Args:
        kernel: Whose instructions.
        vector_rows: Ordinary vector registers of a wave.

    Raises:
        UnsupportedInstructionError: A mode, a vector instruction or a branch that has no meaning here under an index.
    """
    mode = ""
    block = 0
    for instruction in kernel.instructions:
        if mode and instruction.block != block:
            raise UnsupportedInstructionError(f"{instruction.text!r}: register indexing goes on across a branch")
        if instruction.opcode == _ON:
            mode, block = str(getattr(instruction.operands[1].value, "text", "")).replace(" ", ""), instruction.block
            if mode not in _INDEXED:
                raise UnsupportedInstructionError(
                    f"{instruction.text!r}: only one of source 0 and destination is indexed here"
                )
        elif instruction.opcode == _OFF:
            mode = ""
        elif mode and instruction.opcode.startswith("v_"):
            yield _indexed_move(instruction, mode, vector_rows)
            continue
        yield instruction


def _indexed_move(instruction: Instruction, mode: str, vector_rows: int) -> Instruction:
    opcode, position = _INDEXED[mode]
    register = instruction.operands[position].value
    if (
        instruction.opcode != "v_mov_b32"
        or instruction.encoding not in ("e32", "e64", "")
        or not isinstance(register, Register)
        or register.file is not RegisterFile.VECTOR
    ):
        raise UnsupportedInstructionError(
            f"{instruction.text!r}: only plain moves of vector registers can be indexed here"
        )
    limit = Operand(Immediate(vector_rows - register.index, is_float=False))
    return replace(instruction, opcode=opcode, operands=(*instruction.operands, limit))
