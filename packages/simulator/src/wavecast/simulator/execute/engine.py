"""Runs launches: walks the grid and hands the trace on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.evenly import spread_evenly
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.driver import Outcome, Progress
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.helper_library import HelperLibrary
from wavecast.simulator.execute.launch_state import LaunchState, WorkgroupState
from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.ops.events import EVENT
from wavecast.simulator.execute.program import Program
from wavecast.simulator.execute.ptx.translate import translate_ptx
from wavecast.simulator.execute.runs import RUN, joined_runs
from wavecast.simulator.execute.slices import SlicedLaunch
from wavecast.simulator.execute.trace import Observer, record_ring, release_ring, spare_ring
from wavecast.simulator.execute.translate import translate
from wavecast.simulator.program.kept import OfKernels
from wavecast.simulator.program.kernel import Kernel

# Instructions one wave may execute: far above any real kernel, low enough that an endless loop is reported in seconds.
DEFAULT_BUDGET = 1_000_000_000
_RING_RECORDS = 4096
# A checked instruction makes two records at most, and the ring is emptied after the one that fills it.
_SPARE_RECORDS = 1
_RING_RUNS = 4096


class Engine:
    """Executes kernels. Translated kernels are kept, so a second launch starts at once.

    Several threads may use one engine; launches share nothing that changes but the memory they are given.

    Args:
        library: Compiled helpers; None for the one in the user's cache directory.
    """

    def __init__(self, library: HelperLibrary | None = None) -> None:
        self._library = library or HelperLibrary()
        self._programs = OfKernels(self._translated)

    def program(self, kernel: Kernel) -> Program:
        """The kernel's table, translated on first use."""
        return self._programs(kernel)

    def _translated(self, kernel: Kernel) -> Program:
        return (translate_ptx if kernel.is_ptx else translate)(kernel, self._library)

    def execute(
        self,
        kernel: Kernel,
        *,
        grid: Grid,
        arguments: Sequence[ArgumentValue],
        memory: AddressSpace,
        block: Grid | None = None,
        workgroups: Sequence[int] | np.ndarray | None = None,
        observer: Observer | None = None,
        budget: int = DEFAULT_BUDGET,
        record: int = 0,
        events: Sequence[int] | None = None,
    ) -> Execution:
        """Run workgroups of a launch, in order, on one thread.

        Args:
            kernel: What to run.
            grid: Workgroups in x, y, z.
            arguments: One value per explicit kernel argument; pointers as device addresses.
            memory: What the kernel may touch.
            block: Work-items of a workgroup in x, y, z; None for as many in x as the kernel was compiled for.
            workgroups: Linear ids to run (x fastest), ascending; None for the whole grid.
            observer: Receives the address trace; None to record nothing.
            budget: Instructions a wave may execute.
            record: Workgroups whose instruction stream is recorded, spread evenly over those that run.
            events: For a checked launch: barriers, ends and instructions that only cost time whose execution becomes an
                event of the trace, which then also has all else that ``RecordKind`` lists. None for addresses alone.

        Raises:
            LaunchError: Grid, arguments or resources do not fit.
            UnsupportedInstructionError: An opcode without semantics.
            MemoryFaultError: A stray address; names kernel, source line, lane and address.
            InstructionBudgetError: A wave that does not end.
        """
        program = self.program(kernel)
        ids = _workgroup_ids(kernel, grid, workgroups)
        launch = LaunchState(program, grid, workgroup_shape(kernel, block), arguments, memory, budget)
        if events is not None:
            launch.check(events, self._library.addresses([EVENT])[EVENT])
        executed = np.zeros(len(ids), dtype=np.int64)
        # Nothing of the launch stays mapped, however it ends.
        try:
            launch.open()
            state, runs = _run(launch, ids, executed, record, observer)
        finally:
            launch.close()
        stray = int(state.context[Context.LDS_STRAY])
        return Execution(kernel, grid, ids, launch.executed, executed, stray, joined_runs(runs))

    def begin(
        self,
        kernel: Kernel,
        *,
        grid: Grid,
        arguments: Sequence[ArgumentValue],
        memory: AddressSpace,
        ring: np.ndarray,
        block: Grid | None = None,
        budget: int = DEFAULT_BUDGET,
        events: Sequence[int] | None = None,
    ) -> SlicedLaunch:
        """Open a launch whose workgroups the caller starts, preempts and resumes; close it when all have ended.

        Args:
            kernel: What to run.
            grid: Workgroups in x, y, z.
            arguments: One value per explicit kernel argument; pointers as device addresses.
            memory: What the kernel may touch.
            ring: Holds the memory accesses of a slice, ``record_ring``; launches may share one.
            block: Work-items of a workgroup in x, y, z; None for as many in x as the kernel was compiled for.
            budget: Instructions a wave may execute.
            events: As for ``execute``.

        Raises:
            LaunchError: Grid or arguments do not fit.
            UnsupportedInstructionError: An opcode without semantics.
        """
        _workgroup_ids(kernel, grid, None)
        shape = workgroup_shape(kernel, block)
        launch = LaunchState(self.program(kernel), grid, shape, arguments, memory, budget)
        if events is not None:
            launch.check(events, self._library.addresses([EVENT])[EVENT])
        return SlicedLaunch(launch, ring)


def _run(
    launch: LaunchState, workgroups: np.ndarray, executed: np.ndarray, record: int, observer: Observer | None
) -> tuple[WorkgroupState, list[np.ndarray]]:
    """Run workgroups of an open launch, one after the other.

    Args:
        launch: The launch.
        workgroups: int64 linear ids.
        executed: int64 per workgroup; gets the instructions that each executed.
        record: Workgroups whose instruction stream is recorded.
        observer: Receives the address trace.

    Returns:
        The state in which the last workgroup left registers and context, and what was recorded.
    """
    ring = None
    if observer is not None:
        ring = (record_ring if launch.is_checked else spare_ring)(_RING_RECORDS + _SPARE_RECORDS)
    state = WorkgroupState(launch, ring, _RING_RECORDS)
    recorded = np.zeros(len(workgroups), dtype=np.bool_)
    recorded[spread_evenly(len(workgroups), record)] = True
    run_ring = np.zeros(_RING_RUNS, dtype=RUN)
    runs: list[np.ndarray] = []
    while True:
        outcome = state.run(workgroups, executed, recorded, run_ring)
        runs.append(run_ring[: state.progress[Progress.RUNS]].copy())
        state.progress[Progress.RUNS] = 0
        count = int(state.context[Context.TRACE_COUNT])
        if observer is not None and ring is not None and count:
            observer.consume(ring[:count])
        state.context[Context.TRACE_COUNT] = 0
        if outcome == Outcome.DONE:
            launch.print_errors()
            if ring is not None and not launch.is_checked:
                release_ring(ring)
            return state, runs
        if outcome == Outcome.MESSAGE:
            launch.serve()
        state.raise_failure(outcome, int(workgroups[state.progress[Progress.POSITION]]))


def _workgroup_ids(kernel: Kernel, grid: Grid, workgroups: Sequence[int] | np.ndarray | None) -> np.ndarray:
    total = grid[0] * grid[1] * grid[2]
    if min(grid) < 1:
        raise LaunchError(
            f"kernel {kernel.name}: grid {grid} has no workgroup", hint="every dimension must be at least 1"
        )
    if workgroups is None:
        return np.arange(total, dtype=np.int64)
    ids = np.asarray(workgroups, dtype=np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= total):
        raise LaunchError(
            f"kernel {kernel.name}: workgroups {ids.min()}…{ids.max()} are not all in the grid of {total}"
        )
    return ids


def workgroup_shape(kernel: Kernel, block: Grid | None) -> Grid:
    """Work-items of a workgroup in x, y, z: those given, or as many in x as the kernel was compiled for.

    Raises:
        LaunchError: There are none, or more than the kernel was compiled for.
    """
    shape = block or (kernel.workgroup_size, 1, 1)
    if min(shape) < 1 or shape[0] * shape[1] * shape[2] > kernel.workgroup_size:
        raise LaunchError(
            f"kernel {kernel.name}: a workgroup of {shape} work-items, and it was compiled for at most "
            f"{kernel.workgroup_size}",
            hint="make the workgroup smaller, or compile with a larger bound",
        )
    return shape
