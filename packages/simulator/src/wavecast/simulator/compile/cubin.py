"""What NVIDIA's assembler says about a kernel in the binary that it makes: registers and stack.

Facts from the attributes that ``cuobjdump -elf`` lists: in the section ``.nv.info`` each is a format byte, an attribute
byte and a size of two bytes, followed by so many bytes; those of a function begin with its number in the symbol table.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wavecast.simulator.errors import AssemblyError

_INFO = ".nv.info"
_SIZED = 4
_REGISTERS, _FRAME = 0x2F, 0x11
_VALUE_BYTES = 2


@dataclass(frozen=True, slots=True)
class AssemblerReport:
    """What a lane of a kernel occupies.

    Attributes:
        registers: 32-bit registers.
        stack_bytes: Local memory for arrays and spilled registers.
    """

    registers: int
    stack_bytes: int


def assembler_report(binary: bytes, name: str) -> AssemblerReport:
    """Registers and stack of one kernel of a cubin.

    Raises:
        AssemblyError: The binary does not say.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(binary))
        symbols, info = elf.get_section_by_name(".symtab"), elf.get_section_by_name(_INFO)
    except ELFError as error:
        raise AssemblyError(f"the binary of {name} is no cubin: {error}") from error
    if symbols is None or info is None:
        raise AssemblyError(f"the binary of {name} has no {_INFO} section or no symbols")
    numbers = {index for index, symbol in enumerate(symbols.iter_symbols()) if symbol.name == name}
    found = {
        attribute: value
        for attribute, number, value in _attributes(info.data())
        if number in numbers and attribute in (_REGISTERS, _FRAME)
    }
    if _REGISTERS not in found:
        raise AssemblyError(f"the binary does not say how many registers {name} has")
    return AssemblerReport(found[_REGISTERS], found.get(_FRAME, 0))


def _attributes(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Attribute, symbol and first value of all attributes of functions that have one."""
    place = 0
    while place + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, place)
        place += 4
        if form != _SIZED:
            continue
        if size >= 4 * _VALUE_BYTES:
            symbol, value = struct.unpack_from("<II", data, place)
            yield attribute, symbol, value
        place += size
