"""What to say when nothing can happen any more: who waits for what, and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.operations import Barrier, Operation, Task, WaitSignal
from wavecast.simulator.virtual.node.scheduler import Machine, Scheduler
from wavecast.simulator.virtual.node.workgroups import KernelLaunch, WorkgroupTask

Naming = Callable[[int, AddressSpace], str]
# Places and operations of a kind that a message names before it counts the rest.
_NAMED = 4


def stuck_report(scheduler: Scheduler, name_of: Naming) -> str:
    """Who waits for what, a line each.

    Args:
        scheduler: A node in which nothing can happen.
        name_of: What to call a host address, given also the address space of the rank that waits for it.
    """
    lines = []
    for machine in scheduler.machines:
        for queue in machine.streams.queues:
            if not queue.operations:
                continue
            head = queue.operations[0]
            where = f"rank {head.rank}, stream {head.stream.name!r}: {head.describe()}"
            lines += [f"{where} {text}" for text in _of(head, machine, scheduler, name_of)]
            lines += _behind(list(queue.operations))
    return "\n".join(f"  {line}" for line in lines)


def _of(head: Operation, machine: Machine, scheduler: Scheduler, name_of: Naming) -> Iterator[str]:
    """What the first operation of a queue waits for."""
    waiting = Counter(
        text for task in head.running for text in dict.fromkeys(_awaited(task, machine, scheduler, name_of))
    )
    for text, count in waiting.items():
        many = f"with {count} of its {len(head.running)} resident workgroups " if isinstance(head, KernelLaunch) else ""
        yield f"{many}{text}"
    if head.placed and sum(head.placed) < head.count:
        yield _without_room(head, machine)
    if head.ended:
        yield f"has ended {head.ended} of {head.count}"


def _awaited(task: Task, machine: Machine, scheduler: Scheduler, name_of: Naming) -> Iterator[str]:
    if isinstance(task.operation, Barrier):
        meeting = task.operation.meeting
        yield f"waits at a barrier that {int(meeting.arrived[0])} of {meeting.ranks} ranks have reached"
        return
    places = (
        list(zip(task.watched, task.polls, strict=True))
        if isinstance(task, WorkgroupTask)
        else [(watched, None) for watched in task.watched]
    )
    for watched, instruction in places[:_NAMED]:
        value = int.from_bytes(host_memory.read(watched.pointer, watched.nbytes), "little", signed=True)
        at = f" at {instruction.source or instruction.text}" if instruction is not None else ""
        wanted = ""
        if isinstance(task.operation, WaitSignal):
            number = task.operation.value
            wanted = f", and waits for {host_memory.read_word(number) if task.operation.is_indirect else number}"
        writer = _writer(watched.pointer, scheduler)
        yield f"polls {name_of(watched.pointer, machine.memory)}{at} and sees {value}{wanted}; {writer}"
    if len(places) > _NAMED:
        yield f"polls {len(places) - _NAMED} places more"


def _writer(pointer: int, scheduler: Scheduler) -> str:
    """Which operation that has not ended would write there."""
    for queue in scheduler.queues():
        for position, operation in enumerate(queue.operations):
            if operation.writes(pointer):
                state = "running" if operation.is_started else f"{position} behind the first of its queue"
                if operation.is_started and not operation.running:
                    state = "without a compute unit"
                return (
                    f"{operation.describe()!r} of rank {operation.rank}, stream {operation.stream.name!r}, would write "
                    f"it and is {state}"
                )
    return "no copy or signal that is on a stream would write it"


def _without_room(head: Operation, machine: Machine) -> str:
    """For which compute units an operation waits, and who has them."""
    full = []
    for xcd in range(machine.units.xcds):
        if xcd + head.placed[xcd] * machine.units.xcds < head.count:
            engine, holders = machine.units.awaited(xcd)
            who = Counter(holder.describe() for holder in holders if isinstance(holder, Operation))
            held = ", ".join(f"{count} of {name}" for name, count in who.items()) or "nobody"
            full.append(f"shader engine {engine} of XCD {xcd}, whose compute units hold {held}")
    left = head.count - sum(head.placed)
    more = f" (and {len(full) - 1} more XCDs)" if len(full) > 1 else ""
    return f"waits with {left} of {head.count} workgroups for room in {full[0]}{more}"


def _behind(operations: list[Operation]) -> Iterator[str]:
    """What a queue holds behind its first operation."""
    for operation in operations[1 : 1 + _NAMED]:
        shared = operation.stream is not operations[0].stream
        note = f" (another stream on the same hardware queue {operation.stream.queue.index})" if shared else ""
        yield f"  behind it: {operation.describe()} of stream {operation.stream.name!r}{note}"
    if len(operations) > 1 + _NAMED:
        yield f"  behind it: {len(operations) - 1 - _NAMED} operations more"
