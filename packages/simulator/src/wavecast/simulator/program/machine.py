"""What an assembler made of each line of a text that is not the machine code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction of the machine code that PTX was assembled to.

    Attributes:
        line: Line of the PTX that it comes from.
        opcode: Mnemonic with its modifiers, ``LDG.E.128``.
        stall_clk: Cycles that its warp has to wait before it issues the next one, as the assembler wrote into it.
    """

    line: int
    opcode: str
    stall_clk: int

    @property
    def head(self) -> str:
        """The mnemonic alone, ``LDG``."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, slots=True)
class MachineWork:
    """What one execution of an instruction of PTX is in machine code.

    Attributes:
        heads: Mnemonics of its instructions, of all copies that the assembler made of its block.
        stall_clk: Cycles that they hold their warp, likewise.
        copies: How many copies there are: a loop that was unrolled has several, of which one runs at a time.
    """

    heads: tuple[str, ...]
    stall_clk: int
    copies: float
