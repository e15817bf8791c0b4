"""Runs launches: sets up state, walks the grid, hands the trace on, and turns faults into errors that say where."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from wavecast.simulator.errors import ExecutionError, InstructionBudgetError, LaunchError, MemoryFaultError
from wavecast.simulator.execute import driver
from wavecast.simulator.execute.abi import (
    PACKET_BYTES,
    ArgumentValue,
    Grid,
    dispatch_packet,
    initial_scalars,
    pack_arguments,
    put_service,
)
from wavecast.simulator.execute.driver import LaunchSlot, Outcome, Progress, WaveState
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.helper_library import HelperLibrary
from wavecast.simulator.execute.hostcall import Hostcalls
from wavecast.simulator.execute.layout import CONSTANT_BASE, LANES, SCALAR_SLOTS, Context, Fault, Row, RowKind
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.ops.events import EVENT
from wavecast.simulator.execute.runs import RUN, joined_runs
from wavecast.simulator.execute.trace import Observer, record_ring
from wavecast.simulator.execute.translate import Program, translate
from wavecast.simulator.program.kernel import Kernel

# Instructions one wave may execute: far above any real kernel, low enough that an endless loop is reported in seconds.
DEFAULT_BUDGET = 1_000_000_000
_RING_RECORDS = 4096
# A checked instruction makes two records at most, and the ring is emptied after the one that fills it.
_SPARE_RECORDS = 1
_RING_RUNS = 4096
# Translated kernels that an engine keeps: more than any experiment launches, and each of them is at most a few MB.
_PROGRAMS = 256
_PREFETCH_PAD_BYTES = 256


class Engine:
    """Executes kernels. Translated kernels are kept, so a second launch starts at once.

    Several threads may use one engine; launches share nothing that changes but the memory they are given.

    Args:
        library: Compiled helpers; None for the one in the user's cache directory.
    """

    def __init__(self, library: HelperLibrary | None = None) -> None:
        self._library = library or HelperLibrary()
        self._programs: dict[int, Program] = {}

    def program(self, kernel: Kernel) -> Program:
        """The kernel's table, translated on first use."""
        # By identity, since comparing kernels would cost more than it saves; a program keeps its kernel alive, so that
        # no other can take its place. Taken out and put back: the one used longest ago is the first in the order.
        program = self._programs.pop(id(kernel), None) or translate(kernel, self._library)
        self._programs[id(kernel)] = program
        while len(self._programs) > _PROGRAMS:
            self._programs.pop(next(iter(self._programs)), None)
        return program

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
        shape = workgroup_shape(kernel, block)
        launch = _Launch(program, grid, shape, arguments, memory, ids, observer is not None, budget, record)
        if events is not None:
            launch.check(events, self._library.addresses([EVENT])[EVENT])
        launch.run(observer)
        executed = np.cumsum(launch.transfers)[: len(kernel.instructions)]
        stray = int(launch.context[Context.LDS_STRAY])
        runs = joined_runs(launch.runs)
        return Execution(kernel, grid, ids, executed, launch.executed_per_workgroup, stray, runs)


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


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """int32 zeros whose rows start at multiples of 64 bytes, as vector loads need."""
    count = int(np.prod(shape))
    backing = np.zeros(count + 16, dtype=np.int32)
    skip = -backing.ctypes.data % 64 // 4
    return backing[skip : skip + count].reshape(shape)


class _Launch:
    """The arrays of one launch."""

    def __init__(
        self,
        program: Program,
        grid: Grid,
        block: Grid,
        arguments: Sequence[ArgumentValue],
        memory: AddressSpace,
        workgroups: np.ndarray,
        traced: bool,
        budget: int,
        record: int,
    ) -> None:
        self.program, self.grid, self.memory, self.workgroups = program, grid, memory, workgroups
        self.traced, self.checked, self.budget = traced, False, budget
        kernel = program.kernel
        items = block[0] * block[1] * block[2]
        waves = -(-items // LANES)
        self.block = block
        self.arguments = pack_arguments(kernel, arguments, grid, block)
        # Scalar loads may fetch past the last argument, as the hardware's aligned loads do. The packet is behind that.
        packet = -(-(self.arguments.nbytes + _PREFETCH_PAD_BYTES) // PACKET_BYTES) * PACKET_BYTES
        self.segment = np.zeros(packet + PACKET_BYTES, dtype=np.uint8)
        # A copy, because each row remembers the buffer it touched last: that only holds for this launch's mapping.
        self.table = program.table.copy()
        self.scalars = aligned_zeros((waves, SCALAR_SLOTS))
        self.vectors = aligned_zeros((waves, self.program.vector_rows, LANES))
        self.lds = np.zeros(kernel.resources.lds_bytes + 16, dtype=np.uint8)
        self.scratch = np.zeros(waves * LANES * kernel.resources.scratch_bytes + 64, dtype=np.uint8)
        self.waves = np.zeros((waves, WaveState.SIZE), dtype=np.int64)
        self.transfers = np.zeros(len(kernel.instructions) + 1, dtype=np.int64)
        self.progress = np.zeros(Progress.SIZE, dtype=np.int64)
        self.launch = np.zeros(LaunchSlot.SIZE, dtype=np.int64)
        self.executed_per_workgroup = np.zeros(len(self.workgroups), dtype=np.int64)
        self.ring = record_ring(_RING_RECORDS + _SPARE_RECORDS if self.traced else 1)
        self.recorded = np.zeros(len(self.workgroups), dtype=np.bool_)
        chosen = min(record, len(self.workgroups))
        self.recorded[(np.arange(chosen) * 2 + 1) * len(self.workgroups) // max(1, 2 * chosen)] = True
        self.run_ring = np.zeros(_RING_RUNS, dtype=RUN)
        self.runs: list[np.ndarray] = []
        self.hostcalls: Hostcalls | None = None

    def check(self, events: Sequence[int], helper: int) -> None:
        """Trace events and all else that checks need; ``helper`` makes the record of an event."""
        self.checked = True
        for index in events:
            self.table[index, Row.HELPER] = helper
            if self.table[index, Row.KIND] == RowKind.SKIP:
                self.table[index, Row.KIND] = RowKind.MEMORY

    def _map_arguments(self) -> None:
        """Give the argument segment and the dispatch packet device addresses, and fill in all that depends on them."""
        kernel, size = self.program.kernel, self.arguments.nbytes
        packet = self.segment.nbytes - PACKET_BYTES
        if self.program.calls_host:
            self.hostcalls = Hostcalls(self.memory, kernel.name)
            put_service(kernel, self.arguments, "hidden_hostcall_buffer", self.hostcalls.address)
        self.segment[:size] = self.arguments
        address = self.memory.map(self.segment.ctypes.data, self.segment.nbytes, f"{kernel.name} arguments")
        self.segment[packet:] = dispatch_packet(kernel, self.grid, self.block, address)
        self.template, slots = initial_scalars(kernel, self.arguments, address, address + packet)
        self.buffers = self._reachable()
        self.context = self._context()
        self.launch[LaunchSlot.GRID : LaunchSlot.GRID + 3] = self.grid
        self.launch[LaunchSlot.WORKGROUP_REGISTER : LaunchSlot.WORKGROUP_REGISTER + 3] = slots
        self.launch[LaunchSlot.SCRATCH_BYTES] = LANES * kernel.resources.scratch_bytes
        self.launch[LaunchSlot.SCRATCH] = self.scratch.ctypes.data
        self.launch[LaunchSlot.BUDGET] = self.budget
        self.launch[LaunchSlot.BLOCK : LaunchSlot.BLOCK + 3] = self.block
        self.launch[LaunchSlot.ITEM_AXES] = kernel.descriptor.get("system_vgpr_workitem_id", 0)

    def _reachable(self) -> np.ndarray:
        """The table of all that the kernel may touch; its constants come last, since their address is the highest."""
        constants = self.program.constants
        if not constants.size:
            return self.memory.table()
        row = (CONSTANT_BASE, CONSTANT_BASE + constants.nbytes, constants.ctypes.data - CONSTANT_BASE)
        return np.concatenate([self.memory.table(), np.array([row], dtype=np.int64)])

    def _context(self) -> np.ndarray:
        resources = self.program.kernel.resources
        context = np.zeros(Context.SIZE, dtype=np.int64)
        context[Context.LDS] = self.lds.ctypes.data
        context[Context.LDS_BYTES] = resources.lds_bytes
        context[Context.SCRATCH_BYTES] = resources.scratch_bytes
        context[Context.BUFFERS] = self.buffers.ctypes.data
        context[Context.BUFFER_COUNT] = len(self.buffers)
        context[Context.TRACE] = self.ring.ctypes.data if self.traced else 0
        context[Context.TRACE_CAPACITY] = _RING_RECORDS
        context[Context.CHECKED] = self.checked and self.traced
        return context

    def run(self, observer: Observer | None) -> None:
        """Run all workgroups; nothing of the launch stays mapped, however it ends."""
        try:
            self._map_arguments()
            while True:
                outcome = driver.run(
                    self.table,
                    self.scalars,
                    self.vectors,
                    self.context,
                    self.waves,
                    self.transfers,
                    self.progress,
                    self.template,
                    self.launch,
                    self.workgroups,
                    self.executed_per_workgroup,
                    self.recorded,
                    self.run_ring,
                )
                self.runs.append(self.run_ring[: self.progress[Progress.RUNS]].copy())
                self.progress[Progress.RUNS] = 0
                count = int(self.context[Context.TRACE_COUNT])
                if observer is not None and count:
                    observer.consume(self.ring[:count])
                self.context[Context.TRACE_COUNT] = 0
                if outcome == Outcome.DONE:
                    if self.hostcalls is not None:
                        sys.stderr.write("".join(self.hostcalls.errors))
                    return
                if outcome == Outcome.MESSAGE:
                    self._serve()
                if outcome == Outcome.FAULT:
                    raise self._fault()
                if outcome == Outcome.BUDGET:
                    raise self._over_budget()
        finally:
            self.memory.unmap(self.segment.ctypes.data, self.segment.nbytes)
            if self.hostcalls is not None:
                self.hostcalls.unmap()

    def _serve(self) -> None:
        """Answer the waves that call the host."""
        if self.hostcalls is not None:
            try:
                self.hostcalls.serve()
            except ExecutionError as error:
                raise ExecutionError(f"kernel {self.program.kernel.name}: {error}", hint=error.hint) from None

    def _trap(self) -> ExecutionError:
        """What a failed assertion says; its text went to the kernel's standard error just before."""
        text = "; ".join(line.strip() for line in (self.hostcalls.errors if self.hostcalls else ()))
        said = f"the kernel trapped: {text}" if text else "the kernel trapped"
        return ExecutionError(f"{self._where()}: {said}", hint="a device-side assertion failed")

    def _where(self) -> str:
        kernel = self.program.kernel
        instruction = kernel.instructions[int(self.progress[Progress.INSTRUCTION])]
        workgroup = int(self.workgroups[self.progress[Progress.POSITION]])
        x, rest = workgroup % self.grid[0], workgroup // self.grid[0]
        return (
            f"kernel {kernel.name}, {instruction.source or 'no source line'}, {instruction.text!r}, "
            f"workgroup ({x}, {rest % self.grid[1]}, {rest // self.grid[1]}), wave {self.progress[Progress.WAVE]}"
        )

    def _fault(self) -> ExecutionError:
        if self.context[Context.FAULT] == Fault.TRAP:
            return self._trap()
        if self.context[Context.FAULT] == Fault.CODE_ADDRESS:
            return ExecutionError(
                f"{self._where()}: jumps to {int(self.context[Context.FAULT_ADDRESS]):#x}, where no instruction is",
                hint="a function pointer or a return address was overwritten",
            )
        if self.context[Context.FAULT] == Fault.DESCRIPTOR:
            return ExecutionError(
                f"{self._where()}: the buffer descriptor swizzles, adds the thread id, or has no stride although there "
                "is an index, which is not modelled",
                hint="kernels that Triton and clang emit use plain descriptors: look for a corrupted scalar register",
            )
        if self.context[Context.FAULT] == Fault.STRAY_SCRATCH:
            context = self.context
            return MemoryFaultError(
                f"{self._where()}, lane {context[Context.FAULT_LANE]}: {context[Context.FAULT_BYTES]} bytes at scratch "
                f"offset {context[Context.FAULT_ADDRESS]}, and a lane has {context[Context.SCRATCH_BYTES]}",
                hint="an index into a local array is out of range",
            )
        address = int(self.context[Context.FAULT_ADDRESS]) & 0xFFFFFFFFFFFFFFFF
        return MemoryFaultError(
            f"{self._where()}, lane {self.context[Context.FAULT_LANE]}: "
            f"{self.context[Context.FAULT_BYTES]} bytes at address {address:#x}, {self.memory.describe(address)}",
            hint="the kernel's index or mask at that line is wrong for this shape, or a tensor is smaller than it says",
        )

    def _over_budget(self) -> InstructionBudgetError:
        return InstructionBudgetError(
            f"{self._where()}: more than {self.budget} instructions executed without an end",
            hint="an endless loop, or a wave that waits for another workgroup; raise the budget if it is just long",
        )
