"""What one decoded instruction is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class RegisterFile(StrEnum):
    """Where a register lives. PTX has vector registers, and those of 16 bits and of one bit a lane beside them."""

    SCALAR = "s"
    VECTOR = "v"
    ACCUMULATION = "a"
    HALF = "h"
    PREDICATE = "p"


# Value of ``Instruction.encoding`` in PTX, whose opcodes are whole mnemonics with their types (``ld.global.v4.b32``).
PTX = "ptx"
# What the parser adds to PTX: the place where lanes that a branch parted meet again, the end of a warp, and where a
# warp stands until loads have come, with the modifiers ``vmcnt`` and ``lgkmcnt``: how many may remain.
RECONVERGE, WARP_END, WARP_WAIT = "reconverge", "warp_end", "warp_wait"


# Scalar slots with a name of their own, numbered as the ISA encodes them as operands; SCC and MODE, which no
# operand field can hold as a destination, follow behind.
SPECIAL_SCALARS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "flat_scratch": (102, 2),
        "flat_scratch_lo": (102, 1),
        "flat_scratch_hi": (103, 1),
        "xnack_mask": (104, 2),
        "xnack_mask_lo": (104, 1),
        "xnack_mask_hi": (105, 1),
        "vcc": (106, 2),
        "vcc_lo": (106, 1),
        "vcc_hi": (107, 1),
        "m0": (124, 1),
        "exec": (126, 2),
        "exec_lo": (126, 1),
        "exec_hi": (127, 1),
        "scc": (128, 1),
        "src_scc": (128, 1),
        "mode": (129, 1),
    }
)
VCC, M0, EXEC, SCC, MODE = 106, 124, 126, 128, 129


@dataclass(frozen=True, slots=True)
class Register:
    """``count`` consecutive 32-bit registers of one file, from ``index`` on."""

    file: RegisterFile
    index: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number in the text. ``is_float`` tells ``1.0`` from ``1``: the operation's type decides how it becomes bits."""

    value: int | float
    is_float: bool


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A word that stands for itself, such as ``off``, ``lds`` or ``hwreg(HW_REG_MODE, 23, 1)``."""

    text: str


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand with its source modifiers."""

    value: Register | Immediate | Label | Symbol
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A position in the source the kernel was compiled from; ``line`` 0 means the compiler gave none."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


ModifierValue = int | str | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction.

    Attributes:
        index: Position in the kernel, counted from 0.
        opcode: Base mnemonic, without the encoding suffix (``v_add_f32``).
        encoding: The suffix that was stripped: ``e32``, ``e64``, ``dpp``, ``sdwa``, ``e64_dpp`` or empty; ``PTX``.
        operands: Operands in the order of the text, destinations first.
        modifiers: ``{"offset": 16, "sc0": 1, "op_sel": (0, 1), "dst_sel": "WORD_1", …}``; a flag alone has the value 1.
        text: The line as the compiler wrote it, without the comment.
        source: Source line of the nearest ``.loc`` before it, or None.
        target: For a branch, the index of the instruction it jumps to, else None.
        block: Number of the basic block it belongs to.
        frames: Where it stands in inlined code, innermost first; the last is the place of ``source``.
    """

    index: int
    opcode: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, ModifierValue] = field(default_factory=dict)
    text: str = ""
    source: SourceLine | None = None
    target: int | None = None
    block: int = 0
    frames: tuple[SourceLine, ...] = ()
