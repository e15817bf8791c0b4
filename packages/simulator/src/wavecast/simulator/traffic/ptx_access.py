"""What a PTX memory instruction does, from its mnemonic."""

from __future__ import annotations

import functools
import re

from wavecast.simulator.program.instruction import Immediate, Instruction
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess

_VECTOR = re.compile(r"^v(\d)$")
_WIDTH = re.compile(r"^(?:[bsu]|f|bf|tf)(\d+)(x2)?$")
_MATRIX_ROW_BYTES = 16
_KINDS = {
    ("ld", "global"): AccessKind.LOAD,
    ("ld", "shared"): AccessKind.LDS_READ,
    ("ld", "local"): AccessKind.SCRATCH_LOAD,
    ("ld", "param"): AccessKind.SCALAR_LOAD,
    ("st", "global"): AccessKind.STORE,
    ("st", "shared"): AccessKind.LDS_WRITE,
    ("st", "local"): AccessKind.SCRATCH_STORE,
}
_SPACES = ("global", "shared", "local", "param")


def ptx_access(instruction: Instruction) -> MemoryAccess | None:
    """The memory access of a PTX instruction, or None if it makes none that has addresses."""
    if instruction.opcode.startswith("cp.async.c") and "bulk" not in instruction.opcode:
        size = instruction.operands[2].value if len(instruction.operands) > 2 else None
        if not isinstance(size, Immediate):
            return None
        return MemoryAccess(AccessKind.LDS_DIRECT, int(size.value))
    return _of_opcode(instruction.opcode)


@functools.lru_cache(maxsize=4096)
def _of_opcode(opcode: str) -> MemoryAccess | None:
    head, *parts = opcode.split(".")
    if head in ("ldmatrix", "stmatrix"):
        kind = AccessKind.LDS_READ if head == "ldmatrix" else AccessKind.LDS_WRITE
        return MemoryAccess(kind, _MATRIX_ROW_BYTES)
    space = next((part.partition("::")[0] for part in parts if part.partition("::")[0] in _SPACES), "global")
    width = _bytes(parts)
    if head in ("atom", "red"):
        return MemoryAccess(AccessKind.LDS_ATOMIC if space == "shared" else AccessKind.ATOMIC, width)
    found = _KINDS.get((head, space))
    return None if found is None else MemoryAccess(found, width)


def _bytes(parts: list[str]) -> int:
    """Bytes a lane: the last type, as often as the vector is long."""
    elements = next((int(found[1]) for found in map(_VECTOR.match, parts) if found), 1)
    widths = [int(found[1]) * (2 if found[2] else 1) for found in map(_WIDTH.match, parts) if found]
    return elements * widths[-1] // 8 if widths else 0
