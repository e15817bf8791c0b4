"""The prediction: point, interval, bound and cause."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.cause import explain
from wavecast.simulator.timing.demands import launch_work
from wavecast.simulator.timing.model import Case, evaluate
from wavecast.simulator.timing.neighbours import among_neighbours
from wavecast.simulator.timing.prediction import Position, Sensitivity, TimePrediction
from wavecast.simulator.timing.schedule import Schedule, equal_schedule, list_schedule
from wavecast.simulator.timing.uncertainty import interval, sensitivities
from wavecast.simulator.traffic import Traffic

# Sampling is reported as a standard error; two of them make the interval.
_STANDARD_ERRORS = 2.0
# Workgroups of a sample that differ less than this in executed instructions count as equal.
_EQUAL_WORK = 0.02


def predict_time(
    kernel: Kernel,
    execution: Execution,
    traffic: Traffic,
    device: Device,
    *,
    position: Position | str = Position.BACK_TO_BACK,
    warm: bool = False,
) -> TimePrediction:
    """Predict how long a launch takes.

    The interval is that of ``uncertainty.interval``; a sample of the grid adds two standard errors, and the time
    without a hash of the L2's addresses extends it.

    Args:
        kernel: What ran.
        execution: Its executed counts.
        traffic: Its traffic, from the same execution.
        device: Where it would run.
        position: ``first``: alone between two events. ``back-to-back``: one of a chain of launches.
        warm: Whether an equal launch just before left its data in the L2s and the memory-side cache.

    Raises:
        ValueError: if the position is unknown, or the traffic belongs to another kernel.
    """
    if traffic.kernel != kernel.name:
        raise ValueError(f"traffic of kernel {traffic.kernel!r} given for {kernel.name!r}; observe the same launch")
    traffic = among_neighbours(traffic, device, position=Position(position), warm=warm)
    slots = traffic.residency.workgroups_per_cu * device.compute.num_cu
    schedule, slots = _schedule(execution, slots)
    case = Case(launch_work(execution, traffic, device), schedule, slots, Position(position), warm)
    point = evaluate(case, device)
    others = []
    plain = traffic.with_plain_map
    if plain is not None:
        unhashed = replace(case, work=launch_work(execution, plain, device))
        others.append(Sensitivity("l2.map", evaluate(unhashed, device).total_us, point.total_us))
    # An error that cannot be told, because there is one cluster only, counts as 100 %.
    error = _STANDARD_ERRORS * min(1.0, traffic.sampling_error)
    if error:
        others.append(Sensitivity("sampling", point.total_us / (1 + error), point.total_us * (1 + error)))

    def time_us(changed: Device) -> float:
        return evaluate(case, changed).total_us

    moved = sensitivities(time_us, device, point_us=point.total_us, others=others)
    low, high = interval(time_us, device, moved, point_us=point.total_us)
    return TimePrediction(
        predicted_us=point.total_us,
        low_us=low,
        high_us=high,
        bound=point.bound,
        cause=explain(kernel, traffic, device, point),
        terms=MappingProxyType(point.terms),
        compute_unit_us=point.compute_unit_us,
        residency=traffic.residency,
        sensitivity=moved,
        device=device.digest,
    )


def _schedule(execution: Execution, slots: int) -> tuple[Schedule, int]:
    """Schedule and slots; a sample stands for the grid on the same part of the slots."""
    work = np.maximum(execution.instructions_per_workgroup.astype(np.float64), 1.0)
    is_sample = len(work) < execution.total_workgroups
    if np.ptp(work) == 0 or (is_sample and np.ptp(work) <= _EQUAL_WORK * work.mean()):
        return equal_schedule(execution.total_workgroups, slots=slots), slots
    if is_sample:
        slots = max(1, round(slots * len(work) / execution.total_workgroups))
    return list_schedule(work, slots=slots), slots
