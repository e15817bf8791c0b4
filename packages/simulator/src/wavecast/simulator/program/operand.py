"""Operand and modifier syntax of AMDGCN assembly text."""

from __future__ import annotations

import functools
import re

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.instruction import (
    SPECIAL_SCALARS,
    Immediate,
    Label,
    ModifierValue,
    Operand,
    Register,
    RegisterFile,
    Symbol,
)

# Registers that an instruction can name in each file.
_REGISTERS = {RegisterFile.SCALAR: 102, RegisterFile.VECTOR: 256, RegisterFile.ACCUMULATION: 256}
_SINGLE_REGISTER = re.compile(r"([vsa])(\d+)$")
_REGISTER_RANGE = re.compile(r"([vsa])\[(\d+)(?::(\d+))?\]$")
_INTEGER = re.compile(r"[+-]?(?:0x[0-9a-fA-F]+|\d+)$")
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?$")
_LABEL = re.compile(r"[.$A-Za-z_][\w.$@]*$")
# What the assembler or linker computes: ``callee@rel32@lo+4``, ``(.LBB0_9-.Lpost_getpc0)&4294967295``.
_EXPRESSION = re.compile(r"(?:[.$A-Za-z_][\w.$]*@[\w@]+|\(\.L[\w.$]*-\.L[\w.$]*\))[-+&>\w]*$")
_WRAPPED = re.compile(r"(neg|abs|sext)\((.*)\)$")


@functools.lru_cache(maxsize=4096)
def parse_operand(text: str) -> Operand:
    """Parse one operand, modifiers included (``-|v3|``, ``sext(v1)``, ``s[0:1]``, ``0x40``, ``hwreg(…)``).

    Raises:
        AssemblyError: The text is no operand this parser knows.
    """
    negate = absolute = sign_extend = False
    body = text
    while True:
        wrapped = _WRAPPED.match(body)
        if wrapped:
            word, body = wrapped.groups()
            negate, absolute, sign_extend = (
                negate or word == "neg",
                absolute or word == "abs",
                sign_extend or word == "sext",
            )
        elif body.startswith("|") and body.endswith("|") and len(body) > 1:
            absolute, body = True, body[1:-1]
        elif body.startswith("-") and not _FLOAT.match(body) and not _INTEGER.match(body):
            negate, body = True, body[1:]
        else:
            break
    value = _parse_value(body)
    if value is None:
        raise AssemblyError(f"operand {text!r} is no operand of gfx942 or gfx950 assembly known here")
    return Operand(value, negate, absolute, sign_extend)


def _parse_value(body: str) -> Register | Immediate | Label | Symbol | None:
    if match := _SINGLE_REGISTER.match(body):
        return _register(match[1], int(match[2]), int(match[2]))
    if match := _REGISTER_RANGE.match(body):
        first = int(match[2])
        return _register(match[1], first, int(match[3] or first))
    if body in SPECIAL_SCALARS:
        index, count = SPECIAL_SCALARS[body]
        return Register(RegisterFile.SCALAR, index, count)
    if _INTEGER.match(body):
        return Immediate(int(body, 0), is_float=False)
    if _FLOAT.match(body):
        return Immediate(float(body), is_float=True)
    if body.startswith(("hwreg(", "sendmsg(", "gpr_idx(")) or body in ("off", "lds", "null", "src_lds_direct"):
        return Symbol(body)
    if _EXPRESSION.match(body):
        return Symbol(body)
    if body.startswith((".L", "$")) or _LABEL.match(body):
        return Label(body) if body.startswith(".") else Symbol(body)
    return None


def _register(letter: str, first: int, last: int) -> Register | None:
    """Consecutive registers, or None where the file does not have them."""
    file = RegisterFile(letter)
    return Register(file, first, last - first + 1) if first <= last < _REGISTERS[file] else None


def split_operands(text: str) -> list[str]:
    """Split at the commas that are outside brackets."""
    parts: list[str] = []
    depth = start = 0
    for position, char in enumerate(text):
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def split_words(text: str) -> list[str]:
    """Split at the spaces that are outside brackets."""
    words: list[str] = []
    depth = 0
    current = ""
    for char in text:
        if char in "[(":
            depth += 1
        elif char in "])":
            depth -= 1
        if char.isspace() and depth == 0:
            if current:
                words.append(current)
            current = ""
        elif not char.isspace():
            current += char
    if current:
        words.append(current)
    return words


@functools.lru_cache(maxsize=4096)
def parse_modifier(word: str) -> tuple[str, ModifierValue]:
    """Parse ``offset:16``, ``op_sel:[0,1]``, ``dst_sel:WORD_1`` or a bare flag (value 1)."""
    name, _, value = word.partition(":")
    if not value:
        return name, 1
    if value.startswith("["):
        return name, tuple(int(item, 0) for item in value[1:-1].split(","))
    if _INTEGER.match(value):
        return name, int(value, 0)
    return name, value
