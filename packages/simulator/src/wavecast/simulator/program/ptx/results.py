"""What a PTX instruction reads and writes, and which memory counter tells of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from wavecast.simulator.program.instruction import ModifierValue, Operand, Register

_NO_RESULT = (
    *("st", "red", "bra", "bar", "barrier", "ret", "exit", "trap", "membar", "fence", "stmatrix", "prefetch"),
    *("cp", "nanosleep", "griddepcontrol", "applypriority", "discard", "prefetchu", "brkpt", "pmevent"),
)


class Counter(StrEnum):
    """Memory operations that complete in the order in which they were issued, as the timing sees them."""

    VECTOR = "vmcnt"  # global and local memory
    SHARED = "lgkmcnt"  # shared memory, exchange between lanes, parameters


def results_of(opcode: str, operands: tuple[Operand, ...], modifiers: Mapping[str, ModifierValue]) -> int:
    """Operands in front that an instruction writes."""
    if opcode.partition(".")[0] in _NO_RESULT or not operands:
        return 0
    groups = modifiers.get("groups", ())
    return groups[0] if isinstance(groups, tuple) and groups else 1


def registers_of(operands: tuple[Operand, ...]) -> Iterator[tuple[int, Register]]:
    """Register operands with their positions."""
    for position, operand in enumerate(operands):
        if isinstance(operand.value, Register):
            yield position, operand.value


def counter_of(opcode: str) -> Counter | None:
    """The counter of a memory operation; None for all else."""
    head, *parts = opcode.split(".")
    if head in ("shfl", "ldmatrix", "stmatrix", "match"):
        return Counter.SHARED
    if head == "cp":
        return Counter.VECTOR if opcode.startswith("cp.async.c") and "bulk" not in parts and len(parts) > 2 else None
    if head not in ("ld", "st", "atom", "red"):
        return None
    is_near = any(part.partition("::")[0] in ("shared", "param") for part in parts)
    return Counter.SHARED if is_near else Counter.VECTOR


def is_copy(opcode: str) -> bool:
    """Whether it copies to shared memory asynchronously."""
    return opcode.startswith("cp.async.c") and counter_of(opcode) is Counter.VECTOR
