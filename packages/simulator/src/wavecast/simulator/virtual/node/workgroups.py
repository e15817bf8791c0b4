"""A workgroup as a task: it runs in slices, and is set aside while it only polls memory that nobody changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wavecast.simulator.errors import ExecutionError
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.launch_state import workgroup_place
from wavecast.simulator.execute.slices import RunningWorkgroup, SlicedLaunch
from wavecast.simulator.execute.trace import RecordKind
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.memory_access import classify
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.acquire import Acquired, CheckedCode
from wavecast.simulator.virtual.node.operations import Operation, Task, Watched

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node.scheduler import Scheduler

# Instructions of each wave between two accesses of a loop that only polls.
_LOOK = 256
# Accesses of all waves in a round of a loop that counts as polling, at most, and states that are compared.
_LONGEST_LOOP = 128
_ROUNDS = 4
_LATEST = 64
# Slices of a workgroup that is left to count until it gives up, before it is looked at again.
_WAITED_OUT = 64
# Places that one waiting workgroup may poll; one that reads more does something else.
_MOST_WATCHED = 1024


class GlobalAccesses:
    """Which instructions of a kernel touch memory that others see, and how many bytes a lane."""

    def __init__(self, kernel: Kernel) -> None:
        found = [classify(instruction) for instruction in kernel.instructions]
        self.nbytes = np.array(
            [access.piece_bytes if access is not None and access.kind.is_global else 0 for access in found],
            dtype=np.int64,
        )


@dataclass(eq=False, kw_only=True)
class KernelLaunch(Operation):
    """A kernel in a stream; each of its workgroups is a task.

    Attributes:
        kernel: What runs.
        grid: Workgroups in x, y, z.
        block: Work-items of a workgroup in x, y, z.
        arguments: One value per explicit argument.
        accesses: What its instructions touch.
        code: What they mean for the check of acquires; None without one.
        sliced: The open launch, while it runs.
        started: When it was opened.
    """

    kind = "kernel"
    kernel: Kernel
    grid: Grid
    block: Grid
    arguments: Sequence[ArgumentValue]
    accesses: GlobalAccesses
    code: CheckedCode | None = None
    sliced: SlicedLaunch | None = None
    started: int = 0

    def start(self, scheduler: Scheduler) -> None:
        """Open the launch: what is mapped now is what the kernel can reach."""
        self.sliced = scheduler.begin(self)
        self.started = scheduler.time

    def task(self, index: int) -> Task:
        """A workgroup."""
        assert self.sliced is not None
        acquired = Acquired(self.started, self.started)
        return WorkgroupTask(self, index, launch=self, running=self.sliced.start(index), acquired=acquired)

    def finish(self) -> None:
        """Close the launch."""
        assert self.sliced is not None
        self.sliced.close()

    def describe(self) -> str:
        """Name and grid."""
        return f"kernel {self.name} of {self.count} workgroups"


@dataclass(eq=False, kw_only=True)
class WorkgroupTask(Task):
    """A resident workgroup of a kernel.

    Attributes:
        launch: Its kernel.
        running: Its registers and progress.
        acquired: Until when it sees what others wrote.
        polls: The instruction that reads each of the watched places, for messages.
        may_end_alone: Whether it counts while it polls, and so may give up.
    """

    launch: KernelLaunch
    running: RunningWorkgroup
    acquired: Acquired
    polls: tuple[Instruction, ...] = ()
    may_end_alone: bool = False
    _patience: int = field(default=1, repr=False)
    _left: int = field(default=1, repr=False)

    def advance(self, scheduler: Scheduler) -> bool:
        """Run a slice, or a few to find out that it only polls."""
        accesses, instructions = scheduler.policy.slice()
        records = self._slice(scheduler, accesses, instructions)
        if records is not None and self._may_poll(records):
            self._left -= 1
            if self._left <= 0:
                records = self._look(scheduler)
        if records is None:
            assert self.launch.sliced is not None
            self.launch.sliced.retire(self.running)
            return True
        return False

    def wait_out(self) -> None:
        """Go on although nothing has changed, without looking for a while whether it only polls."""
        self._left = self._patience = _WAITED_OUT

    def _step(self, scheduler: Scheduler) -> np.ndarray | None:
        """Go on to the next access, all waves in turn, so that a round of a loop ends where it began."""
        return self._slice(scheduler, 1, _LOOK * len(self.running.state.waves), turn=1)

    def _slice(self, scheduler: Scheduler, accesses: int, instructions: int, **options: int) -> np.ndarray | None:
        """Accesses of a slice; None if the workgroup has ended."""
        before = self.running.instructions
        try:
            done = self.running.advance(accesses=accesses, instructions=instructions, **options)
        except ExecutionError as error:
            raise type(error)(f"rank {self.operation.rank}: {error}", hint=error.hint) from None
        if scheduler.check is not None and self.launch.code is not None and self.launch.sliced is not None:
            scheduler.check.executed(
                self.launch.code,
                done.records,
                self.launch.sliced.buffers,
                self.acquired,
                rank=self.operation.rank,
                place=workgroup_place(self.index, self.launch.grid),
                time=scheduler.time,
            )
        scheduler.spent(self.running.instructions - before)
        return None if done.is_done else done.records

    def _may_poll(self, records: np.ndarray) -> bool:
        """Whether the latest access to memory that others see repeats an earlier one."""
        latest = records[-_LATEST:]
        sizes = self.launch.accesses.nbytes
        latest = latest[(sizes[latest["instruction"]] > 0) & (latest["kind"] == RecordKind.ACCESS)]
        if len(latest) < 2:
            return False
        last, rest = latest[-1], latest[:-1]
        alike = rest[(rest["instruction"] == last["instruction"]) & (rest["wave"] == last["wave"])]
        lanes = _lanes(last["exec"])
        return bool((alike["address"][:, lanes] == last["address"][lanes]).all(axis=1).any())

    def _look(self, scheduler: Scheduler) -> np.ndarray | None:
        """Watch the workgroup for a few rounds of a loop; if only what counts changes, it waits for what it reads.

        Returns:
            The latest accesses; None if it has ended.
        """
        running = self.running
        passed: set[bytes] = set()
        while (position := running.position()) not in passed and len(passed) < _LONGEST_LOOP:
            passed.add(position)
            records = self._step(scheduler)
            if records is None:
                return None
        snapshots = [running.snapshot()]
        seen: dict[tuple[int, int], bytes] = {}
        places: dict[tuple[int, int], int] = {}
        while True:
            round_places: dict[tuple[int, int], int] = {}
            for _ in range(_LONGEST_LOOP):
                records = self._step(scheduler)
                if records is None:
                    return None
                round_places.update(self._places(records))
                if running.position() == position:
                    break
            snapshots.append(running.snapshot())
            if len(snapshots) == 2:
                places = round_places
                seen = {place: host_memory.read(*place) for place in places}
            elif round_places != places or any(host_memory.read(*place) != value for place, value in seen.items()):
                break
            if not 0 < len(places) <= _MOST_WATCHED:
                break
            if len(snapshots) == _ROUNDS:
                if not snapshots[-3].is_repeated(snapshots[-2], snapshots[-1]):
                    break
                code = self.launch.kernel.instructions
                self.watched = tuple(Watched(*place, value) for place, value in seen.items())
                self.polls = tuple(code[instruction] for instruction in places.values())
                self.may_end_alone = snapshots[-2].counts(snapshots[-1])
                self._patience = self._left = 1
                return records
        # It does something: look again later, and later each time.
        self._patience *= 2
        self._left = self._patience
        return records

    def _places(self, records: np.ndarray) -> dict[tuple[int, int], int]:
        """Host address and bytes of every place in memory that others see which accesses touch, and the instruction."""
        sizes = self.launch.accesses.nbytes
        assert self.launch.sliced is not None
        buffers = self.launch.sliced.buffers
        chosen = records[(sizes[records["instruction"]] > 0) & (records["kind"] == RecordKind.ACCESS)]
        places: dict[tuple[int, int], int] = {}
        # A loop that only polls does the same again and again.
        different = dict.fromkeys(
            (int(item["instruction"]), item["address"][_lanes(item["exec"])].tobytes()) for item in chosen
        )
        for instruction, addresses in different:
            nbytes = int(sizes[instruction])
            for address in np.unique(np.frombuffer(addresses, dtype=np.int64)):
                row = int(np.searchsorted(buffers[:, 0], address, side="right")) - 1
                if row >= 0 and address + nbytes <= buffers[row, 1]:
                    places[int(address + buffers[row, 2]), nbytes] = instruction
        return places


def _lanes(mask: np.uint64) -> np.ndarray:
    """Numbers of the lanes in a mask."""
    return np.flatnonzero(np.unpackbits(np.array([mask], dtype=np.uint64).view(np.uint8), bitorder="little"))
