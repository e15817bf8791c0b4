"""What to say when nothing can happen any more: who waits for what, and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.operations import Barrier, Operation, Task, WaitSignal, Watched
from wavecast.simulator.virtual.node.scheduler import Machine, Scheduler
from wavecast.simulator.virtual.node.workgroups import KernelLaunch, WorkgroupTask

Naming = Callable[[int, AddressSpace], str]
# Places and operations of a kind that a message names before it counts the rest.
_NAMED = 3


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
            lines.append(f"rank {head.rank}, stream {head.stream.name!r}: {head.describe()}{_progress(head)}")
            lines += [f"  {text}" for text in _waits(head, machine, scheduler, name_of)]
            lines += [f"  {text}" for text in _behind(list(queue.operations))]
    return "\n".join(f"  {line}" for line in lines)


def _progress(head: Operation) -> str:
    if not isinstance(head, KernelLaunch):
        return ""
    resident = [task for task in head.running if task.watched]
    return f", {head.ended} ended, {len(head.running)} resident of which {len(resident)} poll"


def _waits(head: Operation, machine: Machine, scheduler: Scheduler, name_of: Naming) -> Iterator[str]:
    """What the first operation of a queue waits for."""
    if isinstance(head, Barrier) and head.running:
        meeting = head.meeting
        yield f"waits at a barrier that {int(meeting.arrived[0])} of {meeting.ranks} ranks have reached"
    else:
        yield from _polled(head, machine, scheduler, name_of)
    if head.placed and sum(head.placed) < head.count:
        yield _without_room(head, machine)


def _polled(head: Operation, machine: Machine, scheduler: Scheduler, name_of: Naming) -> Iterator[str]:
    """Which words its tasks watch, with how many of them at which line; the most watched first."""
    found: Counter[tuple[Watched, str]] = Counter()
    first: dict[tuple[Watched, str], Task] = {}
    for task in head.running:
        for watched, at in _places(task):
            found[watched, at] += 1
            first.setdefault((watched, at), task)
    for (watched, at), count in found.most_common(_NAMED):
        value = int.from_bytes(watched.seen, "little", signed=True)
        task = first[watched, at]
        who = f"workgroup {task.index}" if isinstance(head, KernelLaunch) else "it"
        others = f" and {count - 1} others" if count > 1 else ""
        wanted = ""
        if isinstance(head, WaitSignal):
            wanted = f", and waits for {host_memory.read_word(head.value) if head.is_indirect else head.value}"
        yield (
            f"{who}{others} polls {name_of(watched.pointer, machine.memory)}{at} and sees {value}{wanted}; "
            f"{_writer(watched.pointer, scheduler)}"
        )
    if len(found) > _NAMED:
        yield f"and polls {len(found) - _NAMED} places more"


def _places(task: Task) -> Sequence[tuple[Watched, str]]:
    """What a task watches, and at which line."""
    if not isinstance(task, WorkgroupTask):
        return [(watched, "") for watched in task.watched]
    return [
        (watched, f" at {instruction.source or repr(instruction.text)}")
        for watched, instruction in zip(task.watched, task.polls, strict=False)
    ]


def _writer(pointer: int, scheduler: Scheduler) -> str:
    """Which operation that has not ended would write there."""
    for queue in scheduler.queues():
        for position, operation in enumerate(queue.operations):
            if operation.writes(pointer):
                state = f"{position} behind the first of its queue"
                if operation.is_started:
                    state = "running" if operation.running else "without a compute unit"
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
    more = f" (and in {len(full) - 1} more XCDs)" if len(full) > 1 else ""
    return f"waits with {left} of {head.count} workgroups for room in {full[0]}{more}"


def _behind(operations: list[Operation]) -> Iterator[str]:
    """What a queue holds behind its first operation."""
    for operation in operations[1 : 1 + _NAMED]:
        shared = operation.stream is not operations[0].stream
        note = f", which shares hardware queue {operation.stream.queue.index} with it" if shared else ""
        yield f"behind it: {operation.describe()} of stream {operation.stream.name!r}{note}"
    if len(operations) > 1 + _NAMED:
        yield f"behind it: {len(operations) - 1 - _NAMED} operations more"
