"""The loop that shares the host's processor among all workgroups, copies and queues of a node."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import DeadlockError
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.slices import SlicedLaunch
from wavecast.simulator.execute.trace import record_ring
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.acquire import AcquireCheck
from wavecast.simulator.virtual.node.occupancy import ComputeUnits
from wavecast.simulator.virtual.node.operations import CopyTask, Operation, Task
from wavecast.simulator.virtual.node.policy import MOST_ACCESSES, Policy
from wavecast.simulator.virtual.node.streams import HardwareQueue, Streams
from wavecast.simulator.virtual.node.workgroups import KernelLaunch, WorkgroupTask


@dataclass(eq=False, frozen=True)
class Machine:
    """One rank's device.

    Attributes:
        memory: Its address space.
        units: Its compute units.
        streams: Its streams and hardware queues.
    """

    memory: AddressSpace
    units: ComputeUnits
    streams: Streams


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the history: an operation that started or ended.

    Attributes:
        time: Slices executed before, waits included.
        rank: Whose.
        stream: Name of the stream.
        kind: What kind of operation it is: ``kernel``, ``copy``, ``signal``, ``wait``, ``barrier``, ``host``.
        operation: What the operation is called.
        nbytes: Bytes that it copies; 0 for others.
        is_end: Whether it ended.
    """

    time: int
    rank: int
    stream: str
    kind: str
    operation: str
    nbytes: int
    is_end: bool


class Scheduler:
    """Runs what the queues of all ranks hold.

    Args:
        device: Specification of every rank's device.
        machines: The ranks.
        engine: Executes kernels.
        policy: Decides what a real machine leaves open.
        budget: Instructions a wave may execute.
        stall_instructions: Instructions that workgroups may execute without any operation's or workgroup's start or
            end before the node counts as stuck.
        describe: Says who waits for what.
        check: Looks for reads without an acquire; None for none.

    Attributes:
        time: Slices executed so far; jumps where all wait for a copy or the start of an operation.
        history: Starts and ends of operations.
        parked: Tasks that wait for a change of memory.
        check: As given.
        stuck: Who waited for what when nothing could happen but that workgroups give up; empty if that never was so.
    """

    def __init__(
        self,
        device: Device,
        machines: Sequence[Machine],
        engine: Engine,
        policy: Policy,
        *,
        budget: int,
        stall_instructions: int,
        describe: Callable[[Scheduler], str],
        check: AcquireCheck | None = None,
    ) -> None:
        self.device, self.machines, self.policy = device, machines, policy
        self.time = 0
        self.history: list[Step] = []
        self._engine, self._budget = engine, budget
        self._stall, self._idle = stall_instructions, 0
        self._ring = record_ring(MOST_ACCESSES + 1)
        self._ready: list[list[Task]] = [[] for _ in machines]
        self._asleep: list[tuple[int, int, Task]] = []
        self._number = itertools.count()
        self._landing: list[Task] = []
        self._placing: list[Operation] = []
        self._must_place = False
        self.parked = Parked()
        self.stuck = ""
        self.describe = describe
        self.check = check
        policy.begin(len(machines))

    def queues(self) -> Iterator[HardwareQueue]:
        """All hardware queues of all ranks."""
        for machine in self.machines:
            yield from machine.streams.queues

    def begin(self, launch: KernelLaunch) -> SlicedLaunch:
        """Open a kernel's launch."""
        return self._engine.begin(
            launch.kernel,
            grid=launch.grid,
            block=launch.block,
            arguments=launch.arguments,
            memory=self.machines[launch.rank].memory,
            ring=self._ring,
            budget=self._budget,
            events=None if launch.code is None else launch.code.events,
        )

    def spent(self, instructions: int) -> None:
        """Count what a workgroup executed.

        Raises:
            DeadlockError: Too much since anything began or ended.
        """
        self._idle += instructions
        if self._idle > self._stall:
            raise DeadlockError(
                f"{self._idle} instructions executed, and no workgroup, copy or queue came further\n"
                f"{self.stuck or self.describe(self)}",
                hint="a loop without end that changes something each time; raise stall_instructions if it is just long",
            )

    @property
    def is_idle(self) -> bool:
        """Whether every queue is empty."""
        return not any(queue.operations for queue in self.queues())

    def step(self) -> bool:
        """Let one thing happen; False if nothing can, until something is put on a queue."""
        while self._asleep and self._asleep[0][0] <= self.time:
            task = heapq.heappop(self._asleep)[2]
            self._ready[task.operation.rank].append(task)
        self._start_heads()
        if self._must_place:
            self._place()
        if any(self._ready):
            rank, position = self.policy.choose(self._ready)
            self._advance(self._ready[rank].pop(position))
            return True
        following = [queue.operations[0].due for queue in self.queues() if queue.operations]
        waits = [due for due in following if due is not None and due > self.time]
        waits += [self._asleep[0][0]] if self._asleep else []
        if waits:
            self.time = min(waits)
            return True
        if self._landing:
            self._advance(self._landing.pop(self.policy.landing(self._landing)))
            return True
        return self._wait_out()

    def _wait_out(self) -> bool:
        """Let workgroups that count their polls go on: they may give up. False if there is none."""
        counting = [task for task in self.parked.tasks if isinstance(task, WorkgroupTask) and task.may_end_alone]
        if counting and not self.stuck:
            self.stuck = self.describe(self)
        for task in counting:
            self.parked.remove(task)
            task.wait_out()
            self._ready[task.operation.rank].append(task)
        return bool(counting)

    def _start_heads(self) -> None:
        for queue in self.queues():
            if not queue.operations:
                continue
            head = queue.operations[0]
            if head.is_started:
                continue
            if head.due is None:
                head.due = self.time + self.policy.start_delay()
            if head.due <= self.time:
                self._start(head)

    def _start(self, operation: Operation) -> None:
        operation.is_started = True
        operation.start(self)
        self._happened(operation, is_end=False)
        if operation.need is None:
            for index in range(operation.count):
                self._enter(operation.task(index))
        else:
            operation.placed = [0] * self.machines[operation.rank].units.xcds
            self._placing.append(operation)
            self._must_place = True

    def _place(self) -> None:
        """Start workgroups where there is room, of each kernel in turn."""
        self._must_place = False
        for operation in list(self._placing):
            units = self.machines[operation.rank].units
            for xcd in range(units.xcds):
                while (index := xcd + operation.placed[xcd] * units.xcds) < operation.count:
                    assert operation.need is not None
                    place = units.place(xcd, operation.need, operation)
                    if place is None:
                        break
                    operation.placed[xcd] += 1
                    task = operation.task(index)
                    task.place = place
                    self._enter(task)
            if sum(operation.placed) == operation.count:
                self._placing.remove(operation)

    def _enter(self, task: Task) -> None:
        """A task has what it needs."""
        self._idle = 0
        task.operation.running.append(task)
        if isinstance(task, CopyTask):
            delays = task.delays
            if delays is None:
                self._landing.append(task)
                return
            task.due = self.time + delays[task.index % len(delays)]
        if task.due > self.time:
            heapq.heappush(self._asleep, (task.due, next(self._number), task))
        else:
            self._ready[task.operation.rank].append(task)

    def _advance(self, task: Task) -> None:
        done = task.advance(self)
        self.time += 1
        if done:
            self._end(task)
        elif task.watched:
            self.parked.add(task)
        else:
            self._ready[task.operation.rank].append(task)
        for woken in self.parked.changed():
            self._ready[woken.operation.rank].append(woken)

    def _end(self, task: Task) -> None:
        self._idle = 0
        operation = task.operation
        operation.running.remove(task)
        operation.ended += 1
        if task.place is not None and operation.need is not None:
            self.machines[operation.rank].units.free(task.place, operation.need, operation)
            self._must_place = True
        if operation.ended == operation.count:
            operation.finish()
            operation.stream.queue.operations.popleft()
            operation.is_over = True
            operation.when_over()
            self._happened(operation, is_end=True)

    def _happened(self, operation: Operation, *, is_end: bool) -> None:
        self.stuck = ""
        stream = operation.stream
        self.history.append(
            Step(
                self.time,
                operation.rank,
                stream.name,
                operation.kind,
                operation.describe(),
                operation.nbytes,
                is_end,
            )
        )


class Parked:
    """Tasks that wait for a change of memory."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], tuple[bytes, dict[Task, None]]] = {}

    @property
    def tasks(self) -> list[Task]:
        """Those that wait, each once."""
        return list(dict.fromkeys(task for _, tasks in self._waiting.values() for task in tasks))

    def add(self, task: Task) -> None:
        """Set a task aside until what it watches is not what it saw."""
        for place in task.watched:
            _, tasks = self._waiting.setdefault((place.pointer, place.nbytes), (place.seen, {}))
            tasks[task] = None

    def changed(self) -> list[Task]:
        """Tasks that can go on, taken out."""
        found = [key for key, (seen, _) in self._waiting.items() if host_memory.read(key[0], key[1]) != seen]
        woken = dict.fromkeys(task for key in found for task in self._waiting[key][1])
        for task in woken:
            self.remove(task)
        return list(woken)

    def remove(self, task: Task) -> None:
        """Let a task go on."""
        for place in task.watched:
            key = place.pointer, place.nbytes
            tasks = self._waiting[key][1]
            del tasks[task]
            if not tasks:
                del self._waiting[key]
        task.watched = ()
