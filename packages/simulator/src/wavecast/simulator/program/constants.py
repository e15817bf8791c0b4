"""What the linker puts in: names of functions and constants in operands, and the bytes of those constants."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.instruction import Operand, Symbol

# One half of the distance from the program counter to a symbol: ``callee@rel32@lo+4``.
_LINKED = re.compile(r"([.$A-Za-z_][\w.$]*)@rel32@(lo|hi)[-+]\d+$")
_SIZES = {".byte": 1, ".short": 2, ".hword": 2, ".long": 4, ".word": 4, ".quad": 8}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def linked_half(operand: Operand) -> tuple[str, str] | None:
    """Symbol and half (``lo``, ``hi``) of an operand that the linker fills in, or None for any other operand."""
    match = _LINKED.match(operand.value.text) if isinstance(operand.value, Symbol) else None
    return (match[1], match[2]) if match else None


def linked_symbol(operands: Sequence[Operand]) -> str | None:
    """The symbol whose address an instruction takes, or None."""
    for operand in operands:
        half = linked_half(operand)
        if half is not None:
            return half[0]
    return None


def parse_constant(text: str, symbol: str) -> bytes:
    """Bytes of a constant in assembly text.

    Raises:
        AssemblyError: It is not in the text, or has a directive that is not data.
    """
    match = re.search(rf"^{re.escape(symbol)}:[^\n]*\n(.*?)^\s*\.size\s+{re.escape(symbol)},", text, re.M | re.S)
    if match is None:
        raise AssemblyError(f"the constant {symbol!r} is not in the text", hint="give the complete assembly text")
    return b"".join(_directive(line.strip(), symbol) for line in match[1].splitlines() if line.strip())


def _directive(line: str, symbol: str) -> bytes:
    word, _, rest = line.partition("\t") if "\t" in line else line.partition(" ")
    if word in (".ascii", ".asciz", ".string") and (quoted := _STRING.match(rest.strip())):
        characters = _ESCAPE.sub(_unescape, quoted[1]).encode("latin-1")
        return characters if word == ".ascii" else characters + b"\0"
    numbers = rest.partition(";")[0].split(",")
    try:
        if word in _SIZES:
            size = _SIZES[word]
            return b"".join((int(item, 0) % (1 << 8 * size)).to_bytes(size, "little") for item in numbers)
        if word in (".zero", ".skip"):
            return bytes([int(numbers[1], 0) if len(numbers) > 1 else 0]) * int(numbers[0], 0)
    except ValueError:
        pass
    raise AssemblyError(f"constant {symbol!r}: {line!r} is no data that is understood here")


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
