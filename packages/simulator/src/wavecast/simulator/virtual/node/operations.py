"""What a stream holds, and the tasks of which each operation consists: those that run share the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.occupancy import Need, Place

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node.scheduler import Scheduler
    from wavecast.simulator.virtual.node.streams import NodeStream

# A kernel that copies: workgroups of 256 work-items that move 16 bytes each at a time.
_COPYING = Need(waves=4, vgpr=32, sgpr=32)
_COPIED_BYTES = 256 * 16
_ONE_WAVE = Need(waves=1, vgpr=16, sgpr=32)


@dataclass(frozen=True, slots=True)
class Watched:
    """Bytes whose change lets a task that waits go on.

    Attributes:
        pointer: Host address.
        nbytes: How many.
        seen: Their value when the task looked last.
    """

    pointer: int
    nbytes: int
    seen: bytes


@dataclass(eq=False)
class Task:
    """One piece of an operation that runs by itself: a workgroup, or what a copy engine or the command processor does.

    Attributes:
        operation: What it is a part of.
        index: Which of the operation's tasks.
        place: Compute unit on which it runs; None if it needs none.
        due: Time at which it can run.
        watched: What it waits for; empty if it can run.
    """

    operation: Operation
    index: int
    place: Place | None = None
    due: int = 0
    watched: tuple[Watched, ...] = ()

    def advance(self, scheduler: Scheduler) -> bool:
        """Run until preempted, waiting (then ``watched`` is set) or done; whether it is done."""
        raise NotImplementedError


@dataclass(eq=False)
class Operation:
    """One entry of a stream.

    Attributes:
        rank: Whose stream.
        stream: The stream.
        name: What messages call it.
        count: Tasks of which it consists.
        need: What each of them occupies; None if they need no compute unit.
        owners: Objects that must live until it has ended.
        due: Time at which it can start, once it is the first of its queue.
        is_started: Whether it has.
        placed: How many of its tasks have started in each XCD.
        running: Those of its tasks that have started and not ended.
        ended: How many of its tasks have ended.
        is_over: Whether all of it has.
        when_over: Called then.
        kind: What it is, for the history.
        nbytes: Bytes that it copies; 0 for others.
    """

    rank: int
    stream: NodeStream
    name: str
    count: int = 1
    need: Need | None = None
    owners: tuple[Any, ...] = ()
    due: int | None = None
    is_started: bool = False
    placed: list[int] = field(default_factory=list)
    running: list[Task] = field(default_factory=list)
    ended: int = 0
    is_over: bool = False
    when_over: Callable[[], None] = field(default=lambda: None, repr=False)
    kind: ClassVar[str] = ""
    nbytes: int = field(default=0, init=False)

    def start(self, scheduler: Scheduler) -> None:
        """Called once, before its tasks are made."""

    def task(self, index: int) -> Task:
        """Make one of its tasks."""
        raise NotImplementedError

    def finish(self) -> None:
        """Called once, when all its tasks have ended."""

    def writes(self, pointer: int) -> bool:
        """Whether it is known that it will write the byte at a host address."""
        return False

    def describe(self) -> str:
        """For messages."""
        return self.name


@dataclass(eq=False, kw_only=True)
class Copy(Operation):
    """Bytes moved by a copy engine, or by a kernel if the operation has a need.

    Attributes:
        pieces: (target, source, bytes), host addresses.
        delays: When its parts land; None: when the policy says so.
    """

    kind = "copy"
    pieces: list[tuple[int, int, int]]
    delays: list[int] | None = None

    def __post_init__(self) -> None:
        self.nbytes = sum(count for _, _, count in self.pieces)

    def by_kernel(self, most_workgroups: int) -> None:
        """Let compute units do it."""
        self.need = _COPYING
        self.count = max(1, min(most_workgroups, -(-self.nbytes // _COPIED_BYTES)))

    def start(self, scheduler: Scheduler) -> None:
        """Draw when its pieces land."""
        self.delays = scheduler.policy.copy_delays(self.nbytes)
        if self.need is None:
            self.count = 1 if self.delays is None else len(self.delays)

    def task(self, index: int) -> Task:
        """A part of the bytes."""
        total = self.nbytes
        first, end = total * index // self.count, total * (index + 1) // self.count
        return CopyTask(self, index, pieces=_part(self.pieces, first, end), delays=self.delays)

    def writes(self, pointer: int) -> bool:
        """Whether it lies in the target."""
        return any(target <= pointer < target + count for target, _, count in self.pieces)

    def describe(self) -> str:
        """Name and size."""
        return f"{self.name} of {self.nbytes} bytes"


def _part(pieces: list[tuple[int, int, int]], first: int, end: int) -> list[tuple[int, int, int]]:
    """Bytes ``first`` to ``end`` of a copy."""
    found, position = [], 0
    for target, source, count in pieces:
        low, high = max(first - position, 0), min(end - position, count)
        if low < high:
            found.append((target + low, source + low, high - low))
        position += count
    return found


@dataclass(eq=False, kw_only=True)
class CopyTask(Task):
    """A part of a copy, which lands at once.

    Attributes:
        pieces: (target, source, bytes), host addresses.
        delays: What the policy drew for the copy.
    """

    pieces: list[tuple[int, int, int]]
    delays: list[int] | None

    def advance(self, scheduler: Scheduler) -> bool:
        """Move the bytes."""
        for target, source, count in self.pieces:
            host_memory.move(target, source, count)
            if scheduler.check is not None:
                scheduler.check.copied(target, count, scheduler.time)
        return True


@dataclass(eq=False, kw_only=True)
class Command(Operation):
    """What the command processor does in the order of the stream, or a kernel of one wave in its place."""

    def by_kernel(self) -> None:
        """Let a compute unit do it."""
        self.need = _ONE_WAVE


@dataclass(eq=False, kw_only=True)
class SignalCommand(Command):
    """A command on a word of memory.

    Attributes:
        pointer: Host address of the word.
        value: What to write or to wait for, or the host address of a word that has it then.
        is_indirect: Whether ``value`` is an address.
    """

    pointer: int
    value: int
    is_indirect: bool = False


@dataclass(eq=False, kw_only=True)
class WriteSignal(SignalCommand):
    """A word written in the order of the stream."""

    kind = "signal"

    def task(self, index: int) -> Task:
        """The write."""
        return _WriteTask(self, index)

    def writes(self, pointer: int) -> bool:
        """Whether it is the word."""
        return self.pointer <= pointer < self.pointer + 4


class _WriteTask(Task):
    def advance(self, scheduler: Scheduler) -> bool:
        operation = self.operation
        assert isinstance(operation, WriteSignal)
        value = host_memory.read_word(operation.value) if operation.is_indirect else operation.value
        host_memory.write_word(operation.pointer, value)
        return True


@dataclass(eq=False, kw_only=True)
class WaitSignal(SignalCommand):
    """Holds the stream until a word has reached a value: until their difference modulo 2^32 is less than 2^31."""

    kind = "wait"

    def task(self, index: int) -> Task:
        """The wait."""
        return _WaitTask(self, index)


class _WaitTask(Task):
    def advance(self, scheduler: Scheduler) -> bool:
        operation = self.operation
        assert isinstance(operation, WaitSignal)
        words = [operation.pointer, *([operation.value] if operation.is_indirect else [])]
        wanted = host_memory.read_word(operation.value) if operation.is_indirect else operation.value
        if (host_memory.read_word(operation.pointer) - wanted) & 0xFFFFFFFF < 1 << 31:
            return True
        self.watched = tuple(Watched(word, 4, host_memory.read(word, 4)) for word in words)
        return False


@dataclass(eq=False, kw_only=True)
class HostCall(Operation):
    """Something that the host does in the order of the stream, in place of the device.

    Attributes:
        function: What.
    """

    kind = "host"
    function: Callable[[], object]

    def task(self, index: int) -> Task:
        """The call."""
        return _CallTask(self, index)


class _CallTask(Task):
    def advance(self, scheduler: Scheduler) -> bool:
        operation = self.operation
        assert isinstance(operation, HostCall)
        operation.function()
        return True


class Event:
    """A mark in a stream."""

    def __init__(self) -> None:
        self.word = np.zeros(1, dtype=np.int32)

    @property
    def pointer(self) -> int:
        """Host address of the word that says whether it was reached."""
        return int(self.word.ctypes.data)

    @property
    def is_reached(self) -> bool:
        """Whether the stream has come to it."""
        return bool(self.word[0])


@dataclass(eq=False, kw_only=True)
class Meeting:
    """Where the streams of all ranks meet.

    Attributes:
        arrived: int32 (1,), how many have come.
        ranks: How many there will be.
    """

    ranks: int
    arrived: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int32))


@dataclass(eq=False, kw_only=True)
class Barrier(Command):
    """Holds the stream until those of all ranks have come."""

    kind = "barrier"
    meeting: Meeting

    def task(self, index: int) -> Task:
        """The arrival and the wait."""
        return _BarrierTask(self, index)

    def writes(self, pointer: int) -> bool:
        """Whether it is the count of arrivals, which it raises when it starts."""
        return not self.running and pointer == self.meeting.arrived.ctypes.data


class _BarrierTask(Task):
    has_arrived = False

    def advance(self, scheduler: Scheduler) -> bool:
        operation = self.operation
        assert isinstance(operation, Barrier)
        arrived = operation.meeting.arrived
        if not self.has_arrived:
            arrived += 1
            self.has_arrived = True
        if arrived[0] == operation.meeting.ranks:
            return True
        self.watched = (Watched(int(arrived.ctypes.data), 4, arrived.tobytes()),)
        return False
