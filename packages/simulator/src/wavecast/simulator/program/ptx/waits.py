"""Where a warp stands still until a load has come: before the first instruction that needs its result.

The hardware knows it from a scoreboard that the assembler fills in and PTX does not show. Loads of one kind complete in
the order of their issue, so that how many were issued since says which may still be under way. Moves, which take
vectors apart, leave no instruction behind in the machine code: who uses their result waits in their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavecast.simulator.program.instruction import ModifierValue, Operand
from wavecast.simulator.program.ptx.results import Counter, counter_of, is_copy, registers_of, results_of

# Operations of a kind that may be under way, by kind; a kind that is not named is not waited for.
Wait = Mapping[Counter, int]
_COMMIT, _WAIT_GROUP, _WAIT_ALL = "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all"


@dataclass(frozen=True, slots=True)
class Step:
    """What of an instruction matters here.

    Attributes:
        reads: Registers it reads, its guard included.
        writes: Registers it writes.
        counter: Kind of memory operation.
        remaining: For a wait of asynchronous copies: memory operations that may be under way behind it.
        is_move: Whether it only gives values other names.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    counter: Counter | None
    remaining: int | None
    is_move: bool = False


def step_of(opcode: str, operands: tuple[Operand, ...], modifiers: Mapping[str, ModifierValue], group: int) -> Step:
    """Take an instruction apart.

    Args:
        opcode: Its opcode.
        operands: Its operands.
        modifiers: Its modifiers.
        group: Copies that one group of the kernel's asynchronous copies has.
    """
    results = results_of(opcode, operands, modifiers)
    found = list(registers_of(operands))
    guard = modifiers.get("guard")
    reads = {register.index for position, register in found if position >= results}
    if isinstance(guard, tuple):
        reads.add(guard[0])
    writes = frozenset(register.index for position, register in found if position < results)
    remaining = None
    if opcode == _WAIT_ALL:
        remaining = 0
    elif opcode == _WAIT_GROUP:
        count = getattr(operands[0].value, "value", 0) if operands else 0
        remaining = int(count) * group
    is_move = opcode.startswith("mov.") and guard is None
    return Step(frozenset(reads), writes, counter_of(opcode), remaining, is_move)


def copies_of_a_group(opcodes: Sequence[str]) -> int:
    """Copies to shared memory that the kernel commits together, on average over its text and rounded up."""
    copies, groups = sum(map(is_copy, opcodes)), opcodes.count(_COMMIT)
    return -(-copies // groups) if groups else copies


def waits_of(
    steps: Sequence[Step], spans: Sequence[tuple[int, int]], following: Sequence[Sequence[int]]
) -> dict[int, Wait]:
    """Waits that have to stand before instructions.

    Args:
        steps: All instructions.
        spans: First and one beyond the last instruction of each block.
        following: Blocks that may follow each block.
    """
    before: list[_State | None] = [None for _ in spans]
    if spans:
        before[0] = {}
    pending = [0] if spans else []
    while pending:
        block = pending.pop()
        state = dict(before[block] or {})
        for index in range(*spans[block]):
            _advance(state, steps[index])
        for successor in following[block]:
            merged = _merged(before[successor], state)
            if merged != before[successor]:
                before[successor] = merged
                pending.append(successor)
    waits: dict[int, Wait] = {}
    for (first, end), known in zip(spans, before, strict=True):
        state = dict(known or {})
        for index in range(first, end):
            wait = _advance(state, steps[index])
            if wait:
                waits[index] = wait
    return waits


# Register to the kind of operation that it waits for, and how many of that kind were issued since.
_State = dict[int, tuple[Counter, int]]
_FORGOTTEN = 64


def _advance(state: _State, step: Step) -> Wait:
    """Execute one instruction; returns what it has to wait for."""
    wait: dict[Counter, int] = {}
    if step.is_move:
        sources = [state[register] for register in step.reads if register in state]
        for register in step.writes:
            state.pop(register, None)
            if sources:
                state[register] = min(sources, key=lambda item: item[1])
        return wait
    for register in step.reads:
        if register in state:
            counter, since = state[register]
            wait[counter] = min(since, wait.get(counter, since))
    if step.remaining is not None:
        wait[Counter.VECTOR] = min(step.remaining, wait.get(Counter.VECTOR, step.remaining))
    for register in [key for key, (counter, since) in state.items() if since >= wait.get(counter, _FORGOTTEN)]:
        del state[register]
    # Registers are the assembler's to give: a new value does not wait for the old one.
    for register in step.writes:
        state.pop(register, None)
    if step.counter is not None:
        for register, (counter, since) in state.items():
            if counter is step.counter:
                state[register] = counter, since + 1
        for register in step.writes:
            state[register] = step.counter, 0
    return wait


def _merged(known: _State | None, other: _State) -> _State:
    """What holds on whatever way a block is reached: the shorter distance decides."""
    if known is None:
        return dict(other)
    result = dict(known)
    for register, (counter, since) in other.items():
        have = result.get(register)
        result[register] = (counter, since) if have is None or since < have[1] else have
    return result
