"""The prediction: point, interval, bound and cause."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.cause import explain
from wavecast.simulator.timing.compute_unit import kernel_form, prepare_streams
from wavecast.simulator.timing.instruction_clk import instruction_clk
from wavecast.simulator.timing.model import Case, coarse_us, evaluate, launch_us, simulated_workgroups
from wavecast.simulator.timing.neighbours import among_neighbours
from wavecast.simulator.timing.prediction import Bound, Position, Sensitivity, TimePrediction
from wavecast.simulator.timing.schedule import Schedule, list_schedule
from wavecast.simulator.timing.uncertainty import interval, sensitivities
from wavecast.simulator.traffic import Traffic

# Sampling is reported as a standard error; two of them make the interval.
_STANDARD_ERRORS = 2.0
# Instructions that a simulation of a compute unit executes, about: for the point, and for the difference that a
# constant makes. Where the code without its loops is longer, it executes more.
_INSTRUCTIONS = 300_000
_COARSE_INSTRUCTIONS = 40_000
_POOL = 16
# Workgroups of a sample that differ less than this in executed instructions count as equal.
_EQUAL_WORK = 0.02
# Slots of the schedule of a sample, at least: their number is rounded.
_FEWEST_SLOTS = 32


def predict_time(
    kernel: Kernel,
    execution: Execution,
    traffic: Traffic,
    device: Device,
    *,
    position: Position | str = Position.BACK_TO_BACK,
    warm: bool = False,
    fresh: bool = False,
) -> TimePrediction:
    """Predict how long a launch takes.

    The interval is that of ``uncertainty.interval``; a sample of the grid adds two standard errors, and the time
    without a hash of the L2's addresses extends it.

    Args:
        kernel: What ran.
        execution: Its executed counts.
        traffic: Its traffic, from the same execution.
        device: Where it would run.
        position: ``first``: alone between two events. ``queued``: so too, among others that are timed likewise.
            ``back-to-back``: one of a chain of launches.
        warm: Whether an equal launch just before left its data in the L2s and the memory-side cache.
        fresh: Whether other launches wrote just before what this one reads, and read next what it writes: it finds
            nothing in the L2s, and its end waits until they have written back.

    Raises:
        ValueError: if the position is unknown, the traffic belongs to another kernel, or the execution recorded no
            workgroup.
    """
    if traffic.kernel != kernel.name:
        raise ValueError(f"traffic of kernel {traffic.kernel!r} given for {kernel.name!r}; observe the same launch")
    traffic = among_neighbours(traffic, device, position=Position(position), warm=warm, fresh=fresh)
    case = _case(kernel, execution, traffic, device, Position(position), warm=warm)
    point = evaluate(case, device)
    working_us = point.total_us - point.terms[Bound.LAUNCH]
    coarse = coarse_us(case, device, load=point.matrix_load)

    def time_us(changed: Device, *, case: Case = case) -> float:
        """The point comes from long instruction streams; what a constant changes comes from short ones, as a ratio."""
        after_us = working_us * coarse_us(case, changed, load=point.matrix_load) / coarse
        return launch_us(changed, case.position, working_us=after_us) + after_us

    others = []
    plain = traffic.with_plain_map
    if plain is not None:
        unhashed = replace(case, form=kernel_form(kernel, plain, device))
        others.append(Sensitivity("l2.map", time_us(device, case=unhashed), point.total_us))
    # An error that cannot be told, because there is one cluster only, counts as 100 %.
    error = _STANDARD_ERRORS * min(1.0, traffic.sampling_error)
    if error:
        others.append(Sensitivity("sampling", point.total_us / (1 + error), point.total_us * (1 + error)))
    moved = sensitivities(time_us, device, point_us=point.total_us, others=others)
    low, high = interval(time_us, device, moved, point_us=point.total_us)
    return TimePrediction(
        predicted_us=point.total_us,
        low_us=low,
        high_us=high,
        bound=point.bound,
        cause=explain(case, device, point),
        terms=MappingProxyType(point.terms),
        compute_unit_us=point.compute_unit_us,
        working_us=point.working_us,
        wave_clk=sum(point.life.parts_clk.values()) / case.streams.waves,
        residency=traffic.residency,
        instruction_clk=instruction_clk(kernel, point.life.spent_clk, waves=case.streams.waves),
        sensitivity=moved,
        device=device.digest,
    )


def predict_us(kernel: Kernel, execution: Execution, traffic: Traffic, device: Device) -> float:
    """The time of ``predict_time`` for a launch in a chain, without its interval, which takes a hundred times as long.

    Args:
        kernel: What ran.
        execution: Its executed counts.
        traffic: Its traffic, from the same execution.
        device: Where it would run.

    Raises:
        ValueError: As for ``predict_time``.
    """
    if traffic.kernel != kernel.name:
        raise ValueError(f"traffic of kernel {traffic.kernel!r} given for {kernel.name!r}; observe the same launch")
    traffic = among_neighbours(traffic, device, position=Position.BACK_TO_BACK, warm=False)
    case = _case(kernel, execution, traffic, device, Position.BACK_TO_BACK, warm=False)
    return evaluate(case, device).total_us


def _case(
    kernel: Kernel, execution: Execution, traffic: Traffic, device: Device, position: Position, *, warm: bool
) -> Case:
    schedule, slots = _schedule(execution, traffic.residency.workgroups_per_cu * device.compute.num_cu)
    most = -(-traffic.workgroups // device.compute.num_cu)
    held = min(most, traffic.residency.workgroups_per_cu)
    simulated = min(most, simulated_workgroups(held, turn=held if schedule is None else _POOL))
    waves = simulated * traffic.residency.waves_per_workgroup
    misses = {row.index: row.l1_misses for row in traffic.instructions if row.l1_misses is not None}
    fine, coarse = (
        prepare_streams(execution, instructions=total // waves, workgroups=_POOL, misses=misses)
        for total in (_INSTRUCTIONS, _COARSE_INSTRUCTIONS)
    )
    executions = execution.executed / max(1, len(execution.workgroups))
    return Case(kernel_form(kernel, traffic, device), fine, coarse, executions, schedule, slots, position, warm)


def _schedule(execution: Execution, slots: int) -> tuple[Schedule | None, int]:
    """Schedule, None for equal workgroups, and slots; a sample stands for the grid on the same part of the slots."""
    work = np.maximum(execution.instructions_per_workgroup.astype(np.float64), 1.0)
    is_sample = len(work) < execution.total_workgroups
    if np.ptp(work) <= (_EQUAL_WORK * work.mean() if is_sample else 0.0):
        return None, slots
    if is_sample:
        share = slots * len(work) / execution.total_workgroups
        # Of a small sample of a large grid, one again and again: a part of a slot cannot be scheduled.
        work = np.tile(work, math.ceil(_FEWEST_SLOTS / share))
        slots = max(1, round(slots * len(work) / execution.total_workgroups))
    return list_schedule(work, slots=slots), slots
