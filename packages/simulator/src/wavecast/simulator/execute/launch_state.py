"""The arrays of a launch: those that all its workgroups share, and those that one workgroup at a time needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from wavecast.simulator.errors import ExecutionError, InstructionBudgetError, MemoryFaultError
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
from wavecast.simulator.execute.driver import LONG_TURN, LaunchSlot, Outcome, Progress, WaveState
from wavecast.simulator.execute.hostcall import Hostcalls
from wavecast.simulator.execute.layout import CONSTANT_BASE, SCALAR_SLOTS, Context, Fault, Row, RowKind
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.program import Program
from wavecast.simulator.execute.ptx.launch_state import initial_warp_scalars
from wavecast.simulator.program.instruction import Instruction

_PREFETCH_PAD_BYTES = 256


def aligned_zeros(shape: tuple[int, ...]) -> np.ndarray:
    """int32 zeros whose rows start at multiples of 64 bytes, as vector loads need."""
    count = int(np.prod(shape))
    backing = np.zeros(count + 16, dtype=np.int32)
    skip = -backing.ctypes.data % 64 // 4
    return backing[skip : skip + count].reshape(shape)


class LaunchState:
    """What all workgroups of a launch share; mapped into the device's memory from ``open`` to ``close``.

    Args:
        program: The translated kernel.
        grid: Workgroups in x, y, z.
        block: Work-items of a workgroup in x, y, z.
        arguments: One value per explicit kernel argument.
        memory: What the kernel may touch.
        budget: Instructions a wave may execute.
    """

    def __init__(
        self,
        program: Program,
        grid: Grid,
        block: Grid,
        arguments: Sequence[ArgumentValue],
        memory: AddressSpace,
        budget: int,
    ) -> None:
        self.program, self.grid, self.block, self.memory, self.budget = program, grid, block, memory, budget
        self.is_checked = False
        self.waves = -(-(block[0] * block[1] * block[2]) // program.lanes)
        self.arguments = pack_arguments(program.kernel, arguments, grid, block)
        # Scalar loads may fetch past the last argument, as the hardware's aligned loads do. The packet is behind that.
        packet = -(-(self.arguments.nbytes + _PREFETCH_PAD_BYTES) // PACKET_BYTES) * PACKET_BYTES
        self.segment = np.zeros(packet + PACKET_BYTES, dtype=np.uint8)
        # A copy, because each row remembers the buffer it touched last: that only holds for this launch's mapping.
        self.table = program.table.copy()
        self.transfers = np.zeros(len(program.kernel.instructions) + 1, dtype=np.int64)
        self.slots = np.zeros(LaunchSlot.SIZE, dtype=np.int64)
        self.template = np.zeros(SCALAR_SLOTS, dtype=np.int32)
        self.buffers = np.zeros((0, 3), dtype=np.int64)
        self.hostcalls: Hostcalls | None = None

    @property
    def executed(self) -> np.ndarray:
        """int64 per static instruction: how many waves executed it; exact where none is in the middle of a run."""
        return np.asarray(np.cumsum(self.transfers)[: len(self.program.kernel.instructions)])

    def check(self, events: Sequence[int], helper: int) -> None:
        """Trace events and all else that checks need; ``helper`` makes the record of an event."""
        self.is_checked = True
        for index in events:
            self.table[index, Row.HELPER] = helper
            if self.table[index, Row.KIND] == RowKind.SKIP:
                self.table[index, Row.KIND] = RowKind.MEMORY

    def open(self) -> None:
        """Give the argument segment and the dispatch packet device addresses, and fill in all that depends on them."""
        kernel, size = self.program.kernel, self.arguments.nbytes
        packet = self.segment.nbytes - PACKET_BYTES
        if self.program.calls_host:
            self.hostcalls = Hostcalls(self.memory, kernel.name)
            put_service(kernel, self.arguments, "hidden_hostcall_buffer", self.hostcalls.address)
        self.segment[:size] = self.arguments
        address = self.memory.map(self.segment.ctypes.data, self.segment.nbytes, f"{kernel.name} arguments")
        if kernel.is_ptx:
            self.template, registers = initial_warp_scalars(self.segment, self.grid, self.block)
        else:
            self.segment[packet:] = dispatch_packet(kernel, self.grid, self.block, address)
            self.template, registers = initial_scalars(kernel, self.arguments, address, address + packet)
        self.buffers = self._reachable()
        self.slots[LaunchSlot.GRID : LaunchSlot.GRID + 3] = self.grid
        self.slots[LaunchSlot.WORKGROUP_REGISTER : LaunchSlot.WORKGROUP_REGISTER + 3] = registers
        self.slots[LaunchSlot.SCRATCH_BYTES] = self.program.lanes * kernel.resources.scratch_bytes
        self.slots[LaunchSlot.BUDGET] = self.budget
        self.slots[LaunchSlot.BLOCK : LaunchSlot.BLOCK + 3] = self.block
        self.slots[LaunchSlot.ITEM_AXES] = kernel.descriptor.get("system_vgpr_workitem_id", 0)
        self.slots[LaunchSlot.TURN] = LONG_TURN

    def _reachable(self) -> np.ndarray:
        """The table of all that the kernel may touch; its constants come last, since their address is the highest."""
        constants = self.program.constants
        if not constants.size:
            return self.memory.table()
        row = (CONSTANT_BASE, CONSTANT_BASE + constants.nbytes, constants.ctypes.data - CONSTANT_BASE)
        return np.concatenate([self.memory.table(), np.array([row], dtype=np.int64)])

    def close(self) -> None:
        """Take all of the launch out of the device's memory."""
        self.memory.unmap(self.segment.ctypes.data, self.segment.nbytes)
        if self.hostcalls is not None:
            self.hostcalls.unmap()

    def serve(self) -> None:
        """Answer the waves that call the host."""
        if self.hostcalls is not None:
            try:
                self.hostcalls.serve()
            except ExecutionError as error:
                raise ExecutionError(f"kernel {self.program.kernel.name}: {error}", hint=error.hint) from None

    def print_errors(self) -> None:
        """Hand on what the kernel wrote to its standard error."""
        if self.hostcalls is not None:
            sys.stderr.write("".join(self.hostcalls.errors))


class WorkgroupState:
    """Registers, LDS, scratch and progress of one workgroup at a time.

    Args:
        launch: The open launch that it belongs to.
        ring: Where the trace goes; None to record nothing.
        capacity: Records after which the loop returns.
    """

    def __init__(self, launch: LaunchState, ring: np.ndarray | None, capacity: int) -> None:
        self.launch = launch
        resources = launch.program.kernel.resources
        waves = launch.waves
        self.scalars = aligned_zeros((waves, SCALAR_SLOTS))
        self.vectors = aligned_zeros((waves, launch.program.vector_rows, launch.program.lanes))
        self.lds = np.zeros(resources.lds_bytes + 16, dtype=np.uint8)
        self.scratch = np.zeros(waves * launch.program.lanes * resources.scratch_bytes + 64, dtype=np.uint8)
        self.waves = np.zeros((waves, WaveState.SIZE), dtype=np.int64)
        self.progress = np.zeros(Progress.SIZE, dtype=np.int64)
        self.slots = launch.slots.copy()
        self.slots[LaunchSlot.SCRATCH] = self.scratch.ctypes.data
        self.context = np.zeros(Context.SIZE, dtype=np.int64)
        self.context[Context.LDS] = self.lds.ctypes.data
        self.context[Context.LDS_BYTES] = resources.lds_bytes
        self.context[Context.SCRATCH_BYTES] = resources.scratch_bytes
        self.context[Context.BUFFERS] = launch.buffers.ctypes.data
        self.context[Context.BUFFER_COUNT] = len(launch.buffers)
        self.context[Context.TRACE] = 0 if ring is None else ring.ctypes.data
        self.context[Context.TRACE_CAPACITY] = capacity
        self.context[Context.CHECKED] = launch.is_checked and ring is not None

    def run(self, workgroups: np.ndarray, executed: np.ndarray, recorded: np.ndarray, runs: np.ndarray) -> Outcome:
        """Go on until something needs attention, as ``driver.run`` says, with the arrays that it describes."""
        return Outcome(
            driver.run(
                self.launch.table,
                self.scalars,
                self.vectors,
                self.context,
                self.waves,
                self.launch.transfers,
                self.progress,
                self.launch.template,
                self.slots,
                workgroups,
                executed,
                recorded,
                runs,
            )
        )

    def at(self, wave: int) -> Instruction:
        """The instruction that a wave executes next."""
        return self.launch.program.kernel.instructions[int(self.waves[wave, WaveState.PC])]

    def raise_failure(self, outcome: Outcome, workgroup: int) -> None:
        """Raise what an outcome says of a wave, if it says that it failed.

        Args:
            outcome: Of ``run``.
            workgroup: Linear id of the workgroup that ran.

        Raises:
            MemoryFaultError: A stray address; names kernel, source line, lane and address.
            InstructionBudgetError: A wave that does not end.
            ExecutionError: A trap and the like.
        """
        if outcome == Outcome.FAULT:
            raise self._fault(workgroup)
        if outcome == Outcome.BUDGET:
            raise InstructionBudgetError(
                f"{self._where(workgroup)}: more than {self.launch.budget} instructions executed without an end",
                hint="an endless loop, or a wave that waits for another workgroup; raise the budget if it is just long",
            )

    def _trap(self, workgroup: int) -> ExecutionError:
        """What a failed assertion says; its text went to the kernel's standard error just before."""
        hostcalls = self.launch.hostcalls
        text = "; ".join(line.strip() for line in (hostcalls.errors if hostcalls else ()))
        said = f"the kernel trapped: {text}" if text else "the kernel trapped"
        return ExecutionError(f"{self._where(workgroup)}: {said}", hint="a device-side assertion failed")

    def _where(self, workgroup: int) -> str:
        kernel, grid = self.launch.program.kernel, self.launch.grid
        instruction = kernel.instructions[int(self.progress[Progress.INSTRUCTION])]
        return (
            f"kernel {kernel.name}, {instruction.source or 'no source line'}, {instruction.text!r}, "
            f"workgroup {workgroup_place(workgroup, grid)}, wave {self.progress[Progress.WAVE]}"
        )

    def _fault(self, workgroup: int) -> ExecutionError:
        context, where = self.context, self._where(workgroup)
        if context[Context.FAULT] == Fault.TRAP:
            return self._trap(workgroup)
        if context[Context.FAULT] == Fault.CODE_ADDRESS:
            return ExecutionError(
                f"{where}: jumps to {int(context[Context.FAULT_ADDRESS]):#x}, where no instruction is",
                hint="a function pointer or a return address was overwritten",
            )
        if context[Context.FAULT] == Fault.DIVERGENCE:
            return ExecutionError(
                f"{where}: the lanes of the warp go more ways than can wait for one another here",
                hint="branches whose ways only meet at the end of the kernel are nested too deep",
            )
        if context[Context.FAULT] == Fault.STRAY_SHARED:
            return MemoryFaultError(
                f"{where}, lane {context[Context.FAULT_LANE]}: {context[Context.FAULT_BYTES]} bytes at offset "
                f"{context[Context.FAULT_ADDRESS]} of shared memory, and the block has {context[Context.LDS_BYTES]}",
                hint="an index into shared memory is out of range",
            )
        if context[Context.FAULT] == Fault.DESCRIPTOR:
            return ExecutionError(
                f"{where}: the buffer descriptor swizzles, adds the thread id, or has no stride although there "
                "is an index, which is not modelled",
                hint="kernels that Triton and clang emit use plain descriptors: look for a corrupted scalar register",
            )
        if context[Context.FAULT] == Fault.STRAY_SCRATCH:
            return MemoryFaultError(
                f"{where}, lane {context[Context.FAULT_LANE]}: {context[Context.FAULT_BYTES]} bytes at scratch "
                f"offset {context[Context.FAULT_ADDRESS]}, and a lane has {context[Context.SCRATCH_BYTES]}",
                hint="an index into a local array is out of range",
            )
        address = int(context[Context.FAULT_ADDRESS]) & 0xFFFFFFFFFFFFFFFF
        return MemoryFaultError(
            f"{where}, lane {context[Context.FAULT_LANE]}: {context[Context.FAULT_BYTES]} bytes at address "
            f"{address:#x}, {self.launch.memory.describe(address)}",
            hint="the kernel's index or mask at that line is wrong for this shape, or a tensor is smaller than it says",
        )


def workgroup_place(workgroup: int, grid: Grid) -> Grid:
    """x, y, z of a linear workgroup id."""
    x, rest = workgroup % grid[0], workgroup // grid[0]
    return x, rest % grid[1], rest // grid[1]
