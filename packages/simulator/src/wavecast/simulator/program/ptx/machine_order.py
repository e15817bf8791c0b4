"""PTX in the order that its assembler gave it.

The assembler moves instructions within their block, above all loads, so that many are under way before the first result
is needed. In PTX as Triton writes it each load stands in front of what uses it, which is not how a warp waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from wavecast.simulator.program.machine import MachineInstruction, MachineWork
from wavecast.simulator.program.ptx.waits import Step

# What one instruction of PTX becomes one of, and no other does: as many as there are copies of its block.
_COUNTED = {
    ("ld", "global"): ("LDG",),
    ("st", "global"): ("STG",),
    ("ld", "shared"): ("LDS",),
    ("st", "shared"): ("STS",),
    ("atom", "global"): ("ATOMG", "ATOM"),
    ("red", "global"): ("RED", "REDG"),
    ("cp", "async"): ("LDGSTS",),
    ("shfl", ""): ("SHFL",),
    ("bar", ""): ("BAR",),
    ("ldmatrix", ""): ("LDSM",),
    ("stmatrix", ""): ("STSM",),
    ("mma", ""): ("HMMA", "IMMA", "QMMA", "DMMA"),
}
_SPACES = ("global", "shared", "local", "param", "async")
_STILL = ("bar", "barrier", "fence", "membar", "bra", "ret", "exit", "trap", "cp", "griddepcontrol", "nanosleep")
_UPDATES = ("st", "atom", "red", "stmatrix")
_LAST = 1 << 60


@dataclass(frozen=True, slots=True)
class Statement:
    """What of an instruction of PTX matters here.

    Attributes:
        opcode: Its opcode.
        line: Its line in the text.
        step: What it reads and writes.
        is_guarded: Whether lanes may leave its results as they were.
    """

    opcode: str
    line: int
    step: Step
    is_guarded: bool


def counted_heads(opcode: str) -> tuple[str, ...]:
    """Mnemonics of which one execution of the opcode is exactly one; none if that is not known."""
    head, *parts = opcode.split(".")
    space = next((part.partition("::")[0] for part in parts if part.partition("::")[0] in _SPACES), "")
    return _COUNTED.get((head, space)) or _COUNTED.get((head, "")) or ()


def machine_order(
    statements: Sequence[Statement], spans: Sequence[tuple[int, int]], machine: Sequence[MachineInstruction]
) -> list[int]:
    """Statements in the order of the machine code, each block by itself and as far as results do not change.

    Args:
        statements: All of a kernel.
        spans: First and one beyond the last statement of each block.
        machine: The machine code; none leaves the order as it is.

    Returns:
        The old index of each statement.
    """
    if not machine:
        return list(range(len(statements)))
    first: dict[int, int] = {}
    of_memory: dict[tuple[int, str], int] = {}
    for place, item in enumerate(machine):
        first.setdefault(item.line, place)
        of_memory.setdefault((item.line, item.head), place)
    wanted = [_place(statement, first, of_memory) for statement in statements]
    order: list[int] = []
    for begin, end in spans:
        order += _sorted(statements, wanted, begin, end)
    return order


def machine_work(
    statements: Sequence[Statement], spans: Sequence[tuple[int, int]], machine: Sequence[MachineInstruction]
) -> list[MachineWork]:
    """What each statement is in machine code; nothing for those that the assembler merged, folded or dropped."""
    of_line: dict[int, list[MachineInstruction]] = {}
    for item in machine:
        of_line.setdefault(item.line, []).append(item)
    found: list[MachineWork] = []
    for begin, end in spans:
        counts = [
            sum(item.head in heads for item in of_line.get(statement.line, ()))
            for statement in statements[begin:end]
            for heads in [counted_heads(statement.opcode)]
        ]
        usual = float(median([count for count in counts if count] or [1]))
        for statement, count in zip(statements[begin:end], counts, strict=True):
            mine = of_line.get(statement.line, ())
            heads, stall_clk = tuple(item.head for item in mine), sum(item.stall_clk for item in mine)
            found.append(MachineWork(heads, stall_clk, float(count or usual)))
    return found


def _place(statement: Statement, first: Mapping[int, int], of_memory: Mapping[tuple[int, str], int]) -> int:
    """Where a statement stands in the machine code: a memory operation where it is issued, not where its address is."""
    places = [
        of_memory[statement.line, head]
        for head in counted_heads(statement.opcode)
        if (statement.line, head) in of_memory
    ]
    return min(places) if places else first.get(statement.line, _LAST)


def _sorted(statements: Sequence[Statement], wanted: Sequence[int], begin: int, end: int) -> list[int]:
    """A block's statements by their places, none before what it depends on."""
    before = _dependencies(statements, begin, end)
    urgent = list(wanted[begin:end])
    for index in reversed(range(end - begin)):
        for earlier in before[index]:
            urgent[earlier] = min(urgent[earlier], urgent[index])
    after: list[list[int]] = [[] for _ in before]
    missing = [len(earlier) for earlier in before]
    for index, those in enumerate(before):
        for one in those:
            after[one].append(index)
    ready = [(urgent[index], index) for index, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(begin + index)
        for later in after[index]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(ready, (urgent[later], later))
    return order


def _dependencies(statements: Sequence[Statement], begin: int, end: int) -> list[set[int]]:
    """For each statement of a block those that have to stand before it."""
    before: list[set[int]] = []
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    updates: dict[str, int] = {}
    accesses: dict[str, list[int]] = {}
    still = -1
    for index in range(end - begin):
        statement = statements[begin + index]
        step, head = statement.step, statement.opcode.partition(".")[0]
        mine: set[int] = set()
        reads = step.reads | step.writes if statement.is_guarded else step.reads
        mine.update(writer[register] for register in reads if register in writer)
        for register in step.writes:
            mine.update(readers.get(register, ()))
            if register in writer:
                mine.add(writer[register])
        if head in _STILL or "volatile" in statement.opcode or begin + index + 1 == end:
            mine.update(range(index))
            still = index
        elif still >= 0:
            mine.add(still)
        space = _space(statement.opcode)
        if space is not None:
            if space in updates:
                mine.add(updates[space])
            if head in _UPDATES:
                mine.update(accesses.get(space, ()))
                updates[space] = index
            accesses.setdefault(space, []).append(index)
        for register in reads:
            readers.setdefault(register, []).append(index)
        for register in step.writes:
            writer[register] = index
            readers[register] = []
        mine.discard(index)
        before.append(mine)
    return before


def _space(opcode: str) -> str | None:
    """Memory that an instruction touches, None if it touches none that can change."""
    head, *parts = opcode.split(".")
    if head in ("ldmatrix", "stmatrix"):
        return "shared"
    if head not in ("ld", "st", "atom", "red"):
        return None
    space = next((part.partition("::")[0] for part in parts if part.partition("::")[0] in _SPACES), "global")
    return None if space == "param" else space
