"""Where the time of one launch goes: every microsecond of a prediction, and every byte, put on an instruction.

A wave that stands still waits for something: its time is charged to the memory instruction that it waits for, not to
the ``s_waitcnt`` it stands at; time at a barrier is charged to the barrier. What no instruction causes is named apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.launch import LaunchResult
from wavecast.simulator.program.instruction import Instruction, SourceLine
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing import Bound, InstructionClk, TimePrediction
from wavecast.simulator.timing.combine import COMPUTE_UNIT
from wavecast.simulator.timing.facts import Group, group_of
from wavecast.simulator.timing.memory_time import serial_us
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, classify

LAUNCH = "launch cost"
WRITE_BACK = "L2s write back at the end"
WAVE_START = "start of the waves"
SHARED = "device as a whole: "
_SEGMENT_BYTES = 64
# Less than this part of the time is what rounding left.
_NOTHING = 1e-9
_READS = (AccessKind.LOAD, AccessKind.LDS_DIRECT)
_WRITES = (AccessKind.STORE, AccessKind.ATOMIC)
# Code of compilers that is inlined into everybody's kernels.
_LIBRARY = re.compile(r"/triton/(language|backends)/|/compile/hip_headers/|^/(usr|opt)/(.*/)?include/|/rocm[^/]*/")


@dataclass(frozen=True, slots=True)
class InstructionProfile:
    """One static instruction that was executed; counts are of the whole grid.

    Attributes:
        index: Position in the kernel.
        executed: Wave instructions.
        issue_us: Of the launch's time, while waves issue it.
        queue_us: While waves wait until a pipe, the LDS or the address unit is free for it.
        wait_us: While waves stand still, here or elsewhere, until it is done.
        barrier_us: While waves stand in it, a barrier, until the others come.
        asked_bytes: Bytes that lanes ask for in global memory.
        moved_bytes: Bytes between L1 and L2: whole lines for loads, distinct bytes for stores; 0 for atomics, which
            ``Traffic`` counts as requests.
        distinct_bytes: Distinct bytes of each wave instruction, of global memory.
        segment_bytes: Bytes of the 64-byte segments (where the device has them, of the sectors) that hold them.
        lds_clk: LDS cycles.
        lds_conflict_clk: Those of them that bank conflicts cost.
        scratch_bytes: Bytes of spilled registers.
        release_fences: ``buffer_wbl2`` executed by waves.
        acquire_fences: ``buffer_inv`` executed by waves.
    """

    index: int
    executed: int
    issue_us: float
    queue_us: float
    wait_us: float
    barrier_us: float
    asked_bytes: int
    moved_bytes: int
    distinct_bytes: int
    segment_bytes: int
    lds_clk: int
    lds_conflict_clk: int
    scratch_bytes: int
    release_fences: int
    acquire_fences: int

    @property
    def time_us(self) -> float:
        """Its part of the time of the launch."""
        return self.issue_us + self.queue_us + self.wait_us + self.barrier_us


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """The time of one launch, taken apart.

    Attributes:
        instructions: Executed instructions, in the order of the kernel.
        rest: µs that no instruction causes, by name; with those of the instructions they add up to the predicted time.
    """

    instructions: tuple[InstructionProfile, ...]
    rest: tuple[tuple[str, float], ...]


def profile_launch(result: LaunchResult, time: TimePrediction, device: Device) -> LaunchProfile:
    """Put the predicted time of a launch, and its traffic, on its instructions.

    After the launch cost, and before the L2s write back what is left in them, the compute units work as long as the
    average wave says, instruction by instruction. Where the shared memory system needs longer for all bytes than the
    waves wait for any, the difference belongs to the device and to no instruction.

    Args:
        result: The launch.
        time: Its prediction: ``result.time``, or another of the same execution.
        device: What it was predicted for.
    """
    launch_us = time.terms[Bound.LAUNCH]
    write_back_us = serial_us(time.terms) * device.combine.residual
    working_us = time.predicted_us - launch_us - write_back_us
    # What all resources together need, before the device's factor; at least what the waves need.
    needed_us = max(working_us / device.combine.residual, time.working_us)
    in_waves_us = working_us * time.working_us / needed_us if needed_us else 0.0
    starting_clk = max(0.0, time.wave_clk - sum(item.clk for item in time.instruction_clk))
    parts = _clk_parts(result.kernel, time.instruction_clk)
    charged_clk = sum(map(sum, parts.values())) or 1.0
    in_instructions_us = in_waves_us * (1 - starting_clk / time.wave_clk) if time.wave_clk else 0.0
    per_clk = in_instructions_us / charged_clk
    traffic = {row.index: row for row in result.traffic.instructions}
    rest = (
        (LAUNCH, launch_us),
        (WAVE_START, in_waves_us - in_instructions_us),
        (f"{SHARED}{_slowest_shared(time)}", working_us - in_waves_us),
        (WRITE_BACK, write_back_us),
    )
    return LaunchProfile(
        tuple(
            _instruction(result, device, index, tuple(clk * per_clk for clk in clks), traffic.get(index))
            for index, clks in parts.items()
        ),
        tuple((name, us) for name, us in rest if us > _NOTHING * time.predicted_us),
    )


def line_of(kernel: Kernel, instruction: Instruction) -> SourceLine | None:
    """The line that an instruction is counted for: the innermost of its frames that is not a compiler's own library.

    None where the compiler names no line.
    """
    own = (frame for frame in instruction.frames if frame.line and not _LIBRARY.search(path_of(kernel, frame)))
    return next(own, None)


def path_of(kernel: Kernel, line: SourceLine) -> str:
    """Where the compiler read the file of a line."""
    return kernel.files.get(line.file, line.file)


def executed_by_group(result: LaunchResult) -> dict[Group, int]:
    """Wave instructions of the whole grid by kind."""
    counts = dict.fromkeys(Group, 0)
    for instruction in result.kernel.instructions:
        counts[group_of(instruction)] += _executed(result, instruction.index)
    return {group: count for group, count in counts.items() if count}


def _clk_parts(
    kernel: Kernel, instructions: tuple[InstructionClk, ...]
) -> dict[int, tuple[float, float, float, float]]:
    """Issue, queue, wait and barrier cycles by instruction; what it waits itself is charged to what it waits for."""
    return {
        item.index: (
            item.issue_clk,
            item.stall_clk,
            item.caused_clk,
            item.wait_clk if group_of(kernel.instructions[item.index]) is Group.BARRIER else 0.0,
        )
        for item in instructions
    }


def _slowest_shared(time: TimePrediction) -> str:
    alone = (*COMPUTE_UNIT, Bound.LAUNCH, Bound.OVERLAP, Bound.WRITE_BACK)
    shared = {name: us for name, us in time.terms.items() if name not in alone}
    return str(max(shared, key=lambda name: shared[name]))


def _instruction(
    result: LaunchResult, device: Device, index: int, times_us: tuple[float, ...], row: InstructionTraffic | None
) -> InstructionProfile:
    instruction, executed = result.kernel.instructions[index], _executed(result, index)
    access, group = classify(instruction), group_of(instruction)
    is_global = row is not None and row.kind.is_global

    def count(kinds: tuple[AccessKind, ...], of: Callable[[InstructionTraffic], int]) -> int:
        return of(row) if row is not None and row.kind in kinds else 0

    is_scratch = access is not None and access.kind.is_scratch
    scratch_bytes = access.bytes_per_lane * device.compute.wave_lanes if access is not None and is_scratch else 0
    issue_us, queue_us, wait_us, barrier_us = times_us
    return InstructionProfile(
        index=index,
        executed=executed,
        issue_us=issue_us,
        queue_us=queue_us,
        wait_us=wait_us,
        barrier_us=barrier_us,
        asked_bytes=row.bytes_asked if row is not None and is_global else 0,
        moved_bytes=count(_READS, lambda row: row.l2_bytes)
        + count((AccessKind.STORE,), lambda row: row.distinct_bytes),
        distinct_bytes=row.distinct_bytes if row is not None and is_global else 0,
        segment_bytes=_held_bytes(device, row) if row is not None and is_global else 0,
        lds_clk=row.lds_clk if row is not None else 0,
        lds_conflict_clk=row.lds_conflict_clk if row is not None else 0,
        scratch_bytes=executed * scratch_bytes,
        release_fences=executed if group is Group.FENCE_RELEASE else 0,
        acquire_fences=executed if group is Group.FENCE_ACQUIRE else 0,
    )


def _executed(result: LaunchResult, index: int) -> int:
    return round(float(result.execution.executed[index]) * result.execution.scale)


def _held_bytes(device: Device, row: InstructionTraffic) -> int:
    """Bytes of the segments, or sectors, that hold what an instruction touches."""
    if device.l2.sector_bytes is not None:
        return row.sectors * device.l2.sector_bytes
    return _SEGMENT_BYTES * (row.segments if row.kind in _READS else row.requests if row.kind in _WRITES else 0)
