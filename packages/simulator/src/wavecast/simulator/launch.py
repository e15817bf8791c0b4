"""One launch through all stages: program, execution with the address trace, traffic, time."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wavecast.simulator.checks.checker import LaunchCheck
from wavecast.simulator.checks.finding import Finding
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.devices import Device
from wavecast.simulator.errors import ExecutionError, InstructionBudgetError, LaunchError
from wavecast.simulator.execute.abi import ArgumentValue, Grid
from wavecast.simulator.execute.engine import Engine, workgroup_shape
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.execute.runs import joined_runs
from wavecast.simulator.execute.trace import Observer, RecordKind
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.kept import KERNELS
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.program.ptx import is_ptx, parse_ptx
from wavecast.simulator.timing import TimePrediction, after_writes, predict_time, predict_us
from wavecast.simulator.traffic import (
    BufferRange,
    KeptLines,
    Traffic,
    TrafficObserver,
    choose_workgroups,
    grid_strides,
    pilot_workgroups,
    work_of,
)
from wavecast.simulator.traffic.dirty import Residue

# Workgroups of each part of a launch whose instruction streams are recorded for the timing.
_RECORDED = 32


@dataclass(frozen=True)
class LaunchResult:
    """What the stages say about one launch.

    Attributes:
        kernel: The parsed kernel, with its resources.
        execution: Instruction counts of the workgroups that ran.
        traffic: Bytes and requests at every level, scaled to the grid.
        device: Where it ran.
        findings: What checks found, the gravest first; empty if they were not asked for.
    """

    kernel: Kernel
    execution: Execution
    traffic: Traffic
    device: Device
    findings: tuple[Finding, ...] = ()

    @functools.cached_property
    def time(self) -> TimePrediction:
        """Predicted time of the launch, one of a chain, with its interval and cause; computed when first asked for."""
        return predict_time(self.kernel, self.execution, self.traffic, self.device)

    @functools.cached_property
    def predicted_us(self) -> float:
        """Predicted time alone, much sooner than ``time``."""
        return predict_us(self.kernel, self.execution, self.traffic, self.device)

    def us_after(self, before: Residue) -> tuple[float, Residue]:
        """Predicted time alone after launches that left ``before`` in the caches, in µs, and what this one leaves."""
        traffic, left = after_writes(self.traffic, self.device, before=before)
        return predict_us(self.kernel, self.execution, traffic, self.device), left


def simulate_launch(
    code_object: CodeObject,
    *,
    grid: Grid,
    arguments: Sequence[ArgumentValue],
    memory: AddressSpace,
    device: Device,
    block: Grid | None = None,
    lds_bytes: int = 0,
    workgroups: Literal["all", "sample"] = "all",
    kept: KeptLines | None = None,
    check: bool = False,
) -> LaunchResult:
    """Execute a launch and predict its traffic and time.

    Args:
        code_object: What the compiler emitted.
        grid: Workgroups in x, y, z.
        arguments: One value per explicit kernel argument; pointers as device addresses.
        memory: Buffers the kernel may touch; results are written to them.
        device: Where the launch would run.
        block: Work-items of a workgroup in x, y, z; None for as many in x as the kernel was compiled for.
        lds_bytes: Dynamic LDS bytes of the launch, beside those that the code object asks for.
        workgroups: ``all`` runs the whole grid, so that results are complete; ``sample`` runs enough of a large grid
            for time and traffic, and leaves the rest of the results as they were.
        kept: What earlier launches left in the memory-side cache; replaced by what this one leaves. A sample of the
            workgroups neither finds nor leaves anything.
        check: Look for what ``wavecast.simulator.checks`` lists. Findings do not stop the launch, but a wait without
            end does. Costs a few times the time; of a sample, only what ran is checked.

    Raises:
        LaunchError: The code object is for another architecture, does not fit the device, or cannot be checked there.
        MemoryFaultError: A stray address. Its ``findings``, like those of all that ends the execution, are what checks
            found before.
    """
    if code_object.arch != device.arch:
        raise LaunchError(
            f"{code_object.name} was compiled for {code_object.arch}, and {device.name} is {device.arch}",
            hint=f"compile it for {device.arch}",
        )
    if lds_bytes < 0:
        raise LaunchError(f"{code_object.name}: {lds_bytes} bytes of dynamic LDS", hint="give 0 or more")
    if lds_bytes:
        code_object = dataclasses.replace(code_object, lds_bytes=code_object.lds_bytes + lds_bytes)
    kernel = parsed_kernel(code_object)
    if check and kernel.is_ptx:
        raise LaunchError(
            f"{code_object.name}: launches on {device.name} cannot be checked",
            hint="checks know the memory model of AMD's instructions; run the same program with check on mi300x",
        )
    block = workgroup_shape(kernel, block)
    total = grid[0] * grid[1] * grid[2]
    is_sample = workgroups == "sample"
    # As few as a sample may have until the pilot has run: so many stay if the pilot alone fills a batch.
    strides = grid_strides(grid)
    fewest = choose_workgroups(total, device, strides=strides, work_per_workgroup=math.inf)
    traffic_observer = TrafficObserver(
        kernel,
        device,
        total_workgroups=total,
        sample=fewest if is_sample else None,
        workgroup_size=math.prod(block),
        buffers=[BufferRange(buffer.device, buffer.size, buffer.name) for buffer in memory.buffers],
        kept=None if is_sample else kept,
    )
    checks: LaunchCheck | None = None
    observer: Observer = traffic_observer
    if check:
        checks = LaunchCheck(kernel, grid=grid, block=block, arguments=arguments, memory=memory, is_whole=not is_sample)
        observer = _Checked(checks, traffic_observer)
    run = functools.partial(
        shared_engine().execute,
        kernel,
        grid=grid,
        block=block,
        arguments=arguments,
        memory=memory,
        observer=observer,
        record=_RECORDED,
        events=checks.events if checks is not None else None,
    )
    pilot = pilot_workgroups(total, device, strides=strides) if is_sample else None
    try:
        execution = run(workgroups=pilot)
        if pilot is not None and len(pilot) < total:
            work = work_of(traffic_observer.line_accesses, int(execution.executed.sum())) / len(pilot)
            sample = choose_workgroups(total, device, strides=strides, work_per_workgroup=work)
            traffic_observer.expect(sample)
            # The sample begins with the pilot, which has run.
            execution = _joined(execution, run(workgroups=sample.workgroups[len(pilot) :]))
    except ExecutionError as error:
        if checks is not None and isinstance(error, InstructionBudgetError):
            checks.out_of_budget()
        error.findings = checks.findings() if checks is not None else ()
        raise
    traffic = traffic_observer.result(execution)
    return LaunchResult(kernel, execution, traffic, device, checks.findings() if checks is not None else ())


class _Checked:
    """Hands the trace of a checked launch to the checks, and of it to the traffic what it would get without them."""

    def __init__(self, checks: LaunchCheck, traffic: TrafficObserver) -> None:
        self._checks, self._traffic = checks, traffic

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``."""
        self._checks.consume(records)
        is_access = records["kind"] == RecordKind.ACCESS
        if is_access.any():
            self._traffic.consume(records if is_access.all() else records[is_access])


def _joined(first: Execution, then: Execution) -> Execution:
    """Two executions of one launch as one."""
    later = then.runs.copy()
    later["position"] += len(first.workgroups)
    return Execution(
        first.kernel,
        first.grid,
        np.concatenate([first.workgroups, then.workgroups]),
        first.executed + then.executed,
        np.concatenate([first.instructions_per_workgroup, then.instructions_per_workgroup]),
        first.stray_lds_accesses + then.stray_lds_accesses,
        joined_runs((first.runs, later)),
    )


@functools.lru_cache(maxsize=KERNELS)
def parsed_kernel(code_object: CodeObject) -> Kernel:
    """The kernel of a code object; the same object for the same code object, so that it is translated once."""
    if is_ptx(code_object.assembly):
        return parse_ptx(
            code_object.assembly,
            name=code_object.name,
            shared_bytes=code_object.lds_bytes,
            registers=code_object.registers,
            stack_bytes=code_object.stack_bytes,
            machine=code_object.machine,
        )
    return parse_assembly(code_object.assembly, name=code_object.name, lds_bytes=code_object.lds_bytes)


@functools.cache
def shared_engine() -> Engine:
    """The engine of this process, which keeps what it translated."""
    return Engine()
