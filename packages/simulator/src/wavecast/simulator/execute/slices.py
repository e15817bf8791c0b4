"""A launch whose workgroups are started, preempted and resumed one by one, by whoever shares the machine among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.execute.driver import READY, LaunchSlot, Outcome, Progress, WaveState
from wavecast.simulator.execute.launch_state import LaunchState, WorkgroupState
from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.runs import RUN
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel

# A wave of several gives way after so many instructions, so that all of a workgroup's have a part in a slice.
_TURN = 256
_NOT_RECORDED, _NO_RUNS = np.zeros(1, dtype=np.bool_), np.zeros(2, dtype=RUN)


@dataclass(frozen=True, slots=True)
class Slice:
    """What a workgroup did before it was preempted or ended.

    Attributes:
        is_done: Whether all its waves have ended.
        records: ``RECORD``, its memory accesses in order; valid until the next slice of any workgroup.
    """

    is_done: bool
    records: np.ndarray


class SlicedLaunch:
    """A launch that is executed workgroup by workgroup, slice by slice; made by ``Engine.begin``.

    Args:
        state: The launch, not opened yet.
        ring: Records of dtype ``RECORD`` that slices may share: they hold the accesses of the latest one.
    """

    def __init__(self, state: LaunchState, ring: np.ndarray) -> None:
        self._state, self._ring = state, ring
        self._free: list[WorkgroupState] = []
        state.open()

    @property
    def kernel(self) -> Kernel:
        """What runs."""
        return self._state.program.kernel

    @property
    def buffers(self) -> np.ndarray:
        """int64 (buffers, 3): device base, device end, host minus device, of all that the launch can reach."""
        return self._state.buffers

    @property
    def executed(self) -> np.ndarray:
        """int64 per static instruction: how many waves executed it; exact when all started workgroups have ended."""
        return self._state.executed

    def start(self, workgroup: int) -> RunningWorkgroup:
        """Set up a workgroup; it runs when it is given slices."""
        state = self._free.pop() if self._free else WorkgroupState(self._state, self._ring, 1)
        return RunningWorkgroup(state, self._ring, workgroup)

    def retire(self, running: RunningWorkgroup) -> None:
        """Take back the registers and the LDS of a workgroup that has ended."""
        self._free.append(running.state)

    def close(self) -> None:
        """Take the launch out of the device's memory; nothing of it can run any more."""
        self._state.print_errors()
        self._state.close()
        self._free.clear()


class RunningWorkgroup:
    """A workgroup that has started.

    Args:
        state: Its registers, LDS and progress.
        ring: Where its accesses are recorded.
        workgroup: Linear id.
    """

    def __init__(self, state: WorkgroupState, ring: np.ndarray, workgroup: int) -> None:
        self.state, self.workgroup = state, workgroup
        self._ring = ring
        self._ids = np.array([workgroup], dtype=np.int64)
        self._executed = np.zeros(1, dtype=np.int64)
        state.progress[:] = 0
        state.context[Context.FAULT] = 0

    def advance(self, *, accesses: int, instructions: int, turn: int = _TURN) -> Slice:
        """Run the workgroup until it ends or has used one of its allowances.

        Args:
            accesses: Memory instructions, at most as many as the ring holds less one; it stops right after the last.
            instructions: Wave instructions; it stops at the first taken branch, barrier or end behind them.
            turn: Instructions after which a wave gives way to the next one of the workgroup.

        Raises:
            ExecutionError: As ``Engine.execute``.
        """
        state = self.state
        state.context[Context.TRACE_CAPACITY] = min(accesses, len(self._ring) - 1)
        state.context[Context.TRACE_COUNT] = 0
        state.progress[Progress.USED] = 0
        state.slots[LaunchSlot.SHARE] = instructions
        state.slots[LaunchSlot.TURN] = min(instructions, turn) if len(state.waves) > 1 else instructions
        while True:
            outcome = state.run(self._ids, self._executed, _NOT_RECORDED, _NO_RUNS)
            state.raise_failure(outcome, self.workgroup)
            if outcome != Outcome.MESSAGE:
                return Slice(outcome == Outcome.DONE, self._ring[: state.context[Context.TRACE_COUNT]])
            state.launch.serve()

    @property
    def instructions(self) -> int:
        """Wave instructions executed so far."""
        return int(self.state.waves[:, WaveState.EXECUTED].sum())

    def ready_waves(self) -> np.ndarray:
        """Waves that neither wait at a barrier nor have ended."""
        return np.flatnonzero(self.state.waves[:, WaveState.STATUS] == READY)

    def next_instruction(self, wave: int) -> Instruction:
        """What a wave executes next."""
        return self.state.at(wave)

    def position(self) -> bytes:
        """Where each wave is, and which of them is next."""
        state = self.state
        where = state.waves[:, [WaveState.PC, WaveState.STATUS]]
        return bytes(state.progress[Progress.WAVE].tobytes() + where.tobytes())

    def snapshot(self) -> Snapshot:
        """All that decides what the workgroup does next, but memory."""
        state, ready = self.state, self.ready_waves()
        fixed = (self.position(), state.lds.tobytes(), state.scratch.tobytes())
        registers = np.concatenate([state.scalars[ready].reshape(-1), state.vectors[ready].reshape(-1)])
        return Snapshot(fixed, registers)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a workgroup between two slices.

    Attributes:
        fixed: Where its waves are, LDS and scratch.
        registers: int32, of all waves that can run.
    """

    fixed: tuple[bytes, ...]
    registers: np.ndarray

    def is_repeated(self, later: Snapshot, latest: Snapshot) -> bool:
        """Whether three snapshots, equally far apart, show the same but for registers that count.

        A register counts that changes by the same amount each time: polls left, or the time.
        """
        if not self.fixed == later.fixed == latest.fixed:
            return False
        # Differences are taken modulo 2^32.
        first, second = later.registers - self.registers, latest.registers - later.registers
        return bool(np.array_equal(first, second))

    def counts(self, later: Snapshot) -> bool:
        """Whether any register differs."""
        return not np.array_equal(self.registers, later.registers)
