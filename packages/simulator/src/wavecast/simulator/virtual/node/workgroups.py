"""A workgroup as a task: it runs in slices, and is set aside while it only polls memory that nobody changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wavecast.simulator.errors import ExecutionError
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.slices import RunningWorkgroup, SlicedLaunch
from wavecast.simulator.execute.trace import RecordKind
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.memory_access import classify
from wavecast.simulator.virtual.node import host_memory
from wavecast.simulator.virtual.node.operations import Operation, Task, Watched
from wavecast.simulator.virtual.node.policy import MOST_ACCESSES

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node.scheduler import Scheduler

# Instructions of each wave in one look at whether a workgroup only polls.
_LOOK = 256
# Looks until the point of the loop at which a slice ends comes again.
_LOOKS = 5
_LATEST = 64
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
        arguments: One value per explicit argument.
        accesses: What its instructions touch.
        sliced: The open launch, while it runs.
    """

    kernel: Kernel
    grid: Grid
    arguments: Sequence[ArgumentValue]
    accesses: GlobalAccesses
    sliced: SlicedLaunch | None = None

    def start(self, scheduler: Scheduler) -> None:
        """Open the launch: what is mapped now is what the kernel can reach."""
        self.sliced = scheduler.begin(self)

    def task(self, index: int) -> Task:
        """A workgroup."""
        assert self.sliced is not None
        return WorkgroupTask(self, index, launch=self, running=self.sliced.start(index))

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
        polls: The instruction that reads each of the watched places, for messages.
    """

    launch: KernelLaunch
    running: RunningWorkgroup
    polls: tuple[Instruction, ...] = ()
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

    def _slice(self, scheduler: Scheduler, accesses: int, instructions: int) -> np.ndarray | None:
        """Accesses of a slice; None if the workgroup has ended."""
        before = self.running.instructions
        try:
            done = self.running.advance(accesses=accesses, instructions=instructions)
        except ExecutionError as error:
            raise type(error)(f"rank {self.operation.rank}: {error}", hint=error.hint) from None
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
        """Watch the workgroup for a few slices; if it comes back to where it was, it waits for what it reads."""
        running = self.running
        instructions = _LOOK * len(running.state.waves)
        records = self._slice(scheduler, MOST_ACCESSES, instructions)
        if records is None:
            return None
        places = self._places(records)
        seen = [host_memory.read(pointer, nbytes) for pointer, nbytes, _ in places]
        state = running.digest()
        for _ in range(_LOOKS):
            records = self._slice(scheduler, MOST_ACCESSES, instructions)
            if records is None:
                return None
            if running.digest() == state and places and len(places) <= _MOST_WATCHED:
                again = self._places(records)
                known = [(pointer, nbytes) for pointer, nbytes, _ in places]
                if {(pointer, nbytes) for pointer, nbytes, _ in again} <= set(known) and seen == [
                    host_memory.read(*place) for place in known
                ]:
                    code = self.launch.kernel.instructions
                    self.watched = tuple(Watched(*place, value) for place, value in zip(known, seen, strict=True))
                    self.polls = tuple(code[instruction] for _, _, instruction in places)
                    self._patience = 1
                    self._left = 1
                    return records
        # It does something: look again later, and later each time.
        self._patience *= 2
        self._left = self._patience
        return records

    def _places(self, records: np.ndarray) -> Sequence[tuple[int, int, int]]:
        """Host address, bytes and instruction of every place in memory that others see which accesses touch."""
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
        return [(pointer, nbytes, instruction) for (pointer, nbytes), instruction in sorted(places.items())]


def _lanes(mask: np.uint64) -> np.ndarray:
    """Numbers of the lanes in a mask."""
    return np.flatnonzero(np.unpackbits(np.array([mask], dtype=np.uint64).view(np.uint8), bitorder="little"))
