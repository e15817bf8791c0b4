"""PTX's unlimited registers to rows: what a warp works on should lie in the host's nearest cache."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from wavecast.simulator.execute.ptx.layout import FIRST_ROW
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.program.ptx.control_flow import live_after
from wavecast.simulator.program.ptx.results import registers_of, results_of


@dataclass(frozen=True, slots=True)
class Rows:
    """Where registers lie.

    Attributes:
        row: First row of each register, by its index.
        total: Rows a warp needs.
    """

    row: Mapping[int, int]
    total: int


def allocate(kernel: Kernel) -> Rows:
    """Give registers that are never live at the same time the same rows.

    A lane that a branch left out keeps its values: a row is shared only by registers of which no way through the code
    needs two, and every lane goes one such way.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}

    def touch(register: int, position: int) -> None:
        first[register] = min(first.get(register, position), position)
        last[register] = max(last.get(register, position), position)

    spans = _spans(kernel)
    uses: list[set[int]] = []
    definitions: list[set[int]] = []
    for begin, end in spans:
        used, defined = set[int](), set[int]()
        for instruction in kernel.instructions[begin:end]:
            read, written = _touched(instruction, sizes)
            used |= read - defined
            defined |= written
            for register in read | written:
                touch(register, instruction.index)
        uses.append(used)
        definitions.append(defined)
    following = _following(kernel, spans)
    for (begin, end), out, used in zip(spans, live_after(following, uses, definitions), uses, strict=True):
        for register in out:
            touch(register, end)
        for register in used:
            touch(register, begin)
    # A register that lives through a block is live at the end of the one before it and of this one.
    return _scan(first, last, sizes)


def _spans(kernel: Kernel) -> list[tuple[int, int]]:
    ends = (*kernel.blocks[1:], len(kernel.instructions))
    return list(zip(kernel.blocks, ends, strict=True))


def _following(kernel: Kernel, spans: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    number = {begin: block for block, (begin, _) in enumerate(spans)}
    result = []
    for block, (_, end) in enumerate(spans):
        last = kernel.instructions[end - 1]
        after = [] if last.target is None else [number[last.target]]
        if (last.target is None or "guard" in last.modifiers) and block + 1 < len(spans):
            after.append(block + 1)
        result.append(tuple(after))
    return result


def _touched(instruction: Instruction, sizes: dict[int, int]) -> tuple[set[int], set[int]]:
    """Registers that an instruction reads, and those that it writes in every lane that executes it."""
    results = results_of(instruction.opcode, instruction.operands, instruction.modifiers)
    read, written = set[int](), set[int]()
    for position, register in registers_of(instruction.operands):
        sizes[register.index] = register.count
        (written if position < results else read).add(register.index)
    guard = instruction.modifiers.get("guard")
    if isinstance(guard, tuple):
        sizes.setdefault(guard[0], 1)
        # Lanes that the guard leaves out keep what they had.
        read |= written | {guard[0]}
        written = set()
    return read, written


def _scan(first: Mapping[int, int], last: Mapping[int, int], sizes: Mapping[int, int]) -> Rows:
    """Linear scan; a row is free again where the last use of a register stands, since results are written after."""
    row: dict[int, int] = {}
    free: dict[int, list[int]] = {}
    active: list[tuple[int, int]] = []
    total = FIRST_ROW
    for register in sorted(first, key=lambda key: (first[key], last[key])):
        while active and active[0][0] <= first[register]:
            _, done = heapq.heappop(active)
            heapq.heappush(free.setdefault(sizes[done], []), row[done])
        size = sizes[register]
        available = free.setdefault(size, [])
        if available:
            row[register] = heapq.heappop(available)
        else:
            row[register] = total
            total += size
        heapq.heappush(active, (last[register] if last[register] > first[register] else first[register] + 1, register))
    return Rows(row, total)
