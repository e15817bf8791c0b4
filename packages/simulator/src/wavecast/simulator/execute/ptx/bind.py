"""A PTX instruction taken apart: the form of its helper, and the numbers that only this instruction has."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.form import Bound, Form, OperandForm
from wavecast.simulator.execute.layout import Argument
from wavecast.simulator.execute.ptx.emitter import PACKED_BITS, PACKED_FROM, RUNTIME_VALUES
from wavecast.simulator.execute.ptx.layout import WARP_LANES
from wavecast.simulator.execute.ptx.registry import WarpOperation
from wavecast.simulator.execute.ptx.types import parts_of
from wavecast.simulator.program.instruction import (
    PTX,
    Immediate,
    Instruction,
    Label,
    ModifierValue,
    Operand,
    Register,
    RegisterFile,
    Symbol,
)

_ROW_BYTES = 4 * WARP_LANES
_KINDS = {RegisterFile.VECTOR: "v", RegisterFile.HALF: "h", RegisterFile.PREDICATE: "p"}


def bind(
    instruction: Instruction, entry: WarpOperation, rows: Mapping[int, int], addresses: Mapping[str, int]
) -> Bound:
    """Split an instruction into form and arguments.

    Args:
        instruction: What to bind.
        entry: Its operation.
        rows: Row of each register.
        addresses: Address of each constant that the code refers to by name.

    Raises:
        UnsupportedInstructionError: It has more operands than a row of the table has room for.
    """
    operands: list[OperandForm] = []
    numbers: list[int] = []
    for position, operand in enumerate(_without_policy(instruction)):
        what = operand.value
        if isinstance(what, Label) and what.name in addresses:
            operand = Operand(Immediate(addresses[what.name], False))
        form, number = _operand(instruction, operand, rows, is_literal=position in entry.literals)
        operands.append(form)
        numbers.append(number)
    if len(operands) > PACKED_FROM:
        numbers = _packed(instruction, operands, numbers)
    fixed: list[tuple[str, ModifierValue]] = []
    modifiers = instruction.modifiers
    groups = modifiers.get("groups")
    if groups is not None:
        fixed.append(("groups", groups))
    values: dict[str, int] = {}
    guard = modifiers.get("guard")
    if isinstance(guard, tuple):
        fixed.append(("guard", "!p" if guard[1] else "p"))
        values["guard"] = rows[guard[0]] * _ROW_BYTES
    for name in ("offset", "offset1"):
        value = modifiers.get(name)
        if isinstance(value, int):
            values[name] = value
    if instruction.target is not None:
        values["target"] = instruction.target
    if instruction.opcode.startswith("bra"):
        meet = modifiers.get("reconverge", -1)
        assert isinstance(meet, int)
        values["reconverge"] = meet
    fixed += [(name, "runtime") for name in values if name != "guard"]
    numbers += [values[name] for name in RUNTIME_VALUES if name in values]
    if len(numbers) > Argument.OPERAND_LIMIT:
        raise UnsupportedInstructionError(f"{instruction.text}: more operands than a row has room for")
    return Bound(Form(instruction.opcode, PTX, tuple(operands), tuple(fixed)), tuple(numbers))


def _without_policy(instruction: Instruction) -> tuple[Operand, ...]:
    """Operands without the one that only tells the L2 what to keep."""
    return instruction.operands[:-1] if "L2::cache_hint" in instruction.opcode else instruction.operands


def _operand(
    instruction: Instruction, operand: Operand, rows: Mapping[int, int], *, is_literal: bool
) -> tuple[OperandForm, int]:
    what = operand.value
    if isinstance(what, Register):
        return OperandForm(_KINDS[what.file], what.count, operand.negate), rows[what.index] * _ROW_BYTES
    if isinstance(what, Immediate):
        if is_literal:
            return OperandForm(str(what.value), 0), 0
        return OperandForm("k", 0), _bits(instruction, what)
    if isinstance(what, Symbol):
        return OperandForm(what.text, 0), 0
    assert isinstance(what, Label)
    return OperandForm("label", 0), 0


def _bits(instruction: Instruction, immediate: Immediate) -> int:
    """A constant as a signed number of 64 bits; one with a decimal point takes the type of the opcode."""
    value = immediate.value
    if immediate.is_float:
        types = parts_of(instruction.opcode)[2]
        if types and types[-1] == "f64":
            return int(struct.unpack("<q", struct.pack("<d", value))[0])
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    bits = int(value) & 0xFFFFFFFFFFFFFFFF
    return bits - (1 << 64) if bits >> 63 else bits


def _packed(instruction: Instruction, operands: list[OperandForm], numbers: list[int]) -> list[int]:
    if any(operand.kind not in ("v", "h", "p") for operand in operands):
        raise UnsupportedInstructionError(f"{instruction.text}: more than {PACKED_FROM} operands that are no registers")
    per_word = 64 // PACKED_BITS
    words = []
    for first in range(0, len(numbers), per_word):
        word = sum(
            number // _ROW_BYTES << PACKED_BITS * place
            for place, number in enumerate(numbers[first : first + per_word])
        )
        words.append(word - (1 << 64) if word >> 63 else word)
    return words
