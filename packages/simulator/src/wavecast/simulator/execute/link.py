"""What a linker and a loader do for one kernel: addresses for its functions and constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.layout import CODE_BASE, CODE_STEP, CONSTANT_BASE
from wavecast.simulator.program.constants import linked_half, linked_symbol
from wavecast.simulator.program.instruction import Immediate, Instruction, Operand
from wavecast.simulator.program.kernel import Kernel

# Constants start at multiples of this, more than any of them asks for.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Image:
    """A linked kernel.

    Attributes:
        constants: uint8, what lies at ``CONSTANT_BASE``.
        addresses: Address of each function and constant.
    """

    constants: np.ndarray
    addresses: Mapping[str, int]

    def linked(self, instructions: Iterable[Instruction]) -> Iterator[Instruction]:
        """The instructions with addresses in place of names.

        Code takes an address as the program counter plus a distance. Here the program counter reads as zero, and the
        distance is the address itself.

        Raises:
            UnsupportedInstructionError: A name that stands for nothing in the text.
        """
        for instruction in instructions:
            if linked_symbol(instruction.operands) is None:
                yield instruction
            else:
                operands = tuple(self._linked(instruction, operand) for operand in instruction.operands)
                yield replace(instruction, operands=operands)

    def _linked(self, instruction: Instruction, operand: Operand) -> Operand:
        half = linked_half(operand)
        if half is None:
            return operand
        symbol, part = half
        if symbol not in self.addresses:
            raise UnsupportedInstructionError(
                f"{instruction.text!r} ({instruction.source or 'no source line'}) refers to {symbol!r}, "
                "which is neither a function nor a constant of this assembly text",
                hint="give the text of the whole program; variables on the device are not modelled",
            )
        address = self.addresses[symbol]
        return replace(operand, value=Immediate(address >> 32 if part == "hi" else address & 0xFFFFFFFF, False))


def link(kernel: Kernel) -> Image:
    """Place a kernel's functions and constants."""
    addresses = {name: CODE_BASE + index * CODE_STEP for name, index in kernel.functions.items()}
    data = bytearray()
    for name, content in kernel.constants.items():
        addresses[name] = CONSTANT_BASE + len(data)
        data += content + bytes(-len(content) % _ALIGNMENT)
    return Image(np.frombuffer(bytes(data), dtype=np.uint8), addresses)
