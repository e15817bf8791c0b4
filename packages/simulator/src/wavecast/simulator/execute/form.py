"""The form of an instruction: everything that decides its generated code, and nothing else.

Two instructions of one form share a helper; register offsets, immediates and memory offsets are passed as arguments.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.layout import PRIVATE_BASE, ROW_BYTES, SHARED_BASE, Argument
from wavecast.simulator.program.instruction import (
    Immediate,
    Instruction,
    ModifierValue,
    Register,
    RegisterFile,
    Symbol,
)

# Modifiers whose value is passed at run time, in this order, after the operands.
RUNTIME_MODIFIERS = ("offset", "offset0", "offset1")
# Modifiers that only concern caches, ordering or encoding: no influence on results.
_RESULT_NEUTRAL = frozenset({"sc0", "sc1", "nt", "glc", "slc"})
# Opcodes whose ``offset`` is a lane pattern rather than an address, and so decides the code.
_PATTERN_OFFSET = frozenset({"ds_swizzle_b32"})

# Operands that stand for the bounds of the flat windows; only 64-bit operands read them whole.
_WINDOWS = {
    "src_shared_base": SHARED_BASE,
    "src_shared_limit": SHARED_BASE + 0xFFFFFFFF,
    "src_private_base": PRIVATE_BASE,
    "src_private_limit": PRIVATE_BASE + 0xFFFFFFFF,
}


class OperandForm(NamedTuple):
    """An operand without its register number or value.

    Attributes:
        kind: ``v`` vector or accumulation register, ``s`` scalar register, ``k`` constant, ``zero`` the constant 0 as
            a pair (type ``f32x2``), or the text of a symbol or of a constant that decides the code (type ``literal``).
        count: 32-bit registers; 0 for constants and symbols.
        negate: Source modifier ``-``.
        absolute: Source modifier ``|…|``.
        sign_extend: Source modifier ``sext(…)``.
    """

    kind: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on an operand
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False


class Form(NamedTuple):
    """The signature of a helper."""

    opcode: str
    encoding: str
    operands: tuple[OperandForm, ...]
    modifiers: tuple[tuple[str, ModifierValue], ...]

    @property
    def symbol(self) -> str:
        """Name of the helper, the same in every process."""
        return f"{self.opcode}.{hashlib.sha1(repr(tuple(self)).encode()).hexdigest()[:16]}"

    def modifier(self, name: str, default: ModifierValue = 0) -> ModifierValue:
        """Value of a modifier, or ``default`` if the instruction does not have it."""
        for key, value in self.modifiers:
            if key == name:
                return value
        return default

    def bits(self, name: str, width: int, default: int = 0) -> tuple[int, ...]:
        """A bracketed modifier such as ``op_sel:[0,1]``, filled up to ``width`` entries with ``default``."""
        value = self.modifier(name, ())
        given = value if isinstance(value, tuple) else ()
        return given + (default,) * (width - len(given))


class WatchedForm(Form):
    """A form that notes which modifiers were asked for, so that none is ignored in silence."""

    asked: set[str]

    def __init__(self, *_: object) -> None:
        self.asked = set()

    def modifier(self, name: str, default: ModifierValue = 0) -> ModifierValue:
        """As ``Form.modifier``."""
        self.asked.add(name)
        return super().modifier(name, default)

    def check_modifiers(self) -> None:
        """Refuse modifiers that say something (``op_sel:[0,0]`` does not) and that nothing asked for.

        Zeros of ``op_sel_hi`` do say something: where it is not written, packed sources have ones.

        Raises:
            NotImplementedError: Names them.
        """
        ignored = [
            name
            for name, value in self.modifiers
            if name not in self.asked and (name == "op_sel_hi" or not _is_neutral(value))
        ]
        if ignored:
            raise NotImplementedError(f"modifier {', '.join(ignored)} has no semantics here")


def _is_neutral(value: ModifierValue) -> bool:
    return value == 0 or (isinstance(value, tuple) and not any(value))


class Bound(NamedTuple):
    """An instruction taken apart: the helper's form, and the arguments of its row."""

    form: Form
    arguments: tuple[int, ...]


def bind(
    instruction: Instruction, types: tuple[str, ...], accum_row: int, *, arch: str = "", flushes_by_mode: bool = False
) -> Bound:
    """Split an instruction into form and arguments.

    Args:
        instruction: What to bind.
        types: Type name of each operand, which decides how an immediate becomes bits.
        accum_row: Row of the first accumulation register.
        arch: Architecture, for opcodes whose meaning depends on it; it becomes a modifier of the form.
        flushes_by_mode: Whether single-precision denormals are what MODE says at run time; else they are kept.
    """
    operands: list[OperandForm] = []
    arguments: list[int] = []
    for position, operand in enumerate(instruction.operands):
        what = operand.value
        if isinstance(what, Register):
            if what.file is RegisterFile.SCALAR:
                kind, argument = "s", what.index * 4
            else:
                row = what.index + (accum_row if what.file is RegisterFile.ACCUMULATION else 0)
                kind, argument = "v", row * ROW_BYTES
            operands.append(OperandForm(kind, what.count, operand.negate, operand.absolute, operand.sign_extend))
        elif isinstance(what, Immediate):
            name = types[position] if position < len(types) else "b32"
            if name == "mixed":
                name = "f16" if _is_half_source(instruction, position - 1) else "f32"
            # Both halves of a pair are zero; what the high half of another constant is, the ISA text leaves open.
            is_zero_pair = name == "f32x2" and what.value == 0
            kind = str(what.value) if name == "literal" else "zero" if is_zero_pair else "k"
            operands.append(OperandForm(kind, 0, operand.negate, operand.absolute, operand.sign_extend))
            argument = 0 if name == "literal" else immediate_bits(what, name)
        elif isinstance(what, Symbol) and what.text in _WINDOWS and types[position].endswith("64"):
            operands.append(OperandForm("k", 0, operand.negate, operand.absolute, operand.sign_extend))
            argument = _WINDOWS[what.text]
        else:
            operands.append(OperandForm(what.text if isinstance(what, Symbol) else what.name, 0))
            argument = 0
        arguments.append(argument)
    fixed: list[tuple[str, ModifierValue]] = [("arch", arch)] if arch else []
    if flushes_by_mode:
        fixed.append(("flushes_by_mode", 1))
    modifiers = instruction.modifiers
    runtime = () if instruction.opcode in _PATTERN_OFFSET else RUNTIME_MODIFIERS
    # A buffer atomic has the same operands with and without a result: only sc0 tells.
    neutral = _RESULT_NEUTRAL - {"sc0"} if instruction.opcode.startswith("buffer_atomic_") else _RESULT_NEUTRAL
    for key in sorted(modifiers):
        if key in runtime and isinstance(modifiers[key], int):
            fixed.append((key, "runtime"))
        elif key not in neutral:
            fixed.append((key, modifiers[key]))
    for key in runtime:
        value = modifiers.get(key)
        if isinstance(value, int):
            arguments.append(value)
    if len(arguments) > Argument.OPERAND_LIMIT:
        raise UnsupportedInstructionError(f"{instruction.text}: more than {Argument.OPERAND_LIMIT} operands")
    return Bound(Form(instruction.opcode, instruction.encoding, tuple(operands), tuple(fixed)), tuple(arguments))


def _is_half_source(instruction: Instruction, source: int) -> bool:
    """Whether ``op_sel_hi`` makes a source of a mixed-precision instruction a half."""
    halves = instruction.modifiers.get("op_sel_hi", ())
    return isinstance(halves, tuple) and source < len(halves) and bool(halves[source])


def immediate_bits(immediate: Immediate, type_name: str) -> int:
    """The bits an immediate stands for in an operand of the given type, as a signed 64-bit integer.

    A float constant is a bit pattern of the operand's width. An integer is a raw pattern: an inline constant
    (-16…64) is sign-extended; a literal is the high half of an f64 and is sign- or zero-extended for integers.
    """
    width = int(type_name[1:]) if type_name[1:].isdigit() else 32
    value = immediate.value
    if immediate.is_float:
        if width == 64:
            return _signed64(struct.unpack("<Q", struct.pack("<d", value))[0])
        if width == 16:
            return int(struct.unpack("<H", struct.pack("<e", value))[0])
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    value = int(value)
    if width == 64:
        if -16 <= value <= 64:
            return value
        if type_name == "f64":
            return _signed64((value & 0xFFFFFFFF) << 32)
        if type_name == "i64" and value & 0x80000000 and value > 0:
            return value - (1 << 32)
        return _signed64(value & 0xFFFFFFFFFFFFFFFF)
    return value & (0xFFFF if width == 16 else 0xFFFFFFFF)


def _signed64(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
