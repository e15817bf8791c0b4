"""The prediction: point, interval, bound and cause."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from wavecast.simulator.devices import Device, Kind
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.cause import explain
from wavecast.simulator.timing.demands import launch_work
from wavecast.simulator.timing.model import Case, evaluate
from wavecast.simulator.timing.prediction import Position, Sensitivity, TimePrediction
from wavecast.simulator.timing.schedule import Schedule, equal_schedule, list_schedule
from wavecast.simulator.traffic import Traffic

# Sampling is reported as a standard error; two of them make the interval.
_STANDARD_ERRORS = 2.0
# Workgroups of a sample that differ less than this in executed instructions count as equal.
_EQUAL_WORK = 0.02
_NEGLIGIBLE = 1e-4


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

    The interval moves measured and fitted constants one at a time to the ends of their range: they err independently.
    Derived ones are bounds of what nobody has measured, about which nothing says that they do not all lie at the bad
    end: they move together. The logarithms of the ratios to the point are added in quadrature, upward and downward
    apart. A sample of the grid adds two standard errors, and so does the time without a hash of the L2's addresses.

    Args:
        kernel: What ran.
        execution: Its executed counts.
        traffic: Its traffic, from the same execution.
        device: Where it would run.
        position: ``first``: alone between two events. ``back-to-back``: one of a chain of launches.
        warm: Whether an equal launch just before left its data in the memory-side cache.

    Raises:
        ValueError: if the position is unknown, or the traffic belongs to another kernel.
    """
    if traffic.kernel != kernel.name:
        raise ValueError(f"traffic of kernel {traffic.kernel!r} given for {kernel.name!r}; observe the same launch")
    slots = traffic.residency.workgroups_per_cu * device.compute.num_cu
    schedule, slots = _schedule(execution, slots)
    case = Case(launch_work(execution, traffic, device), schedule, slots, Position(position), warm)
    point = evaluate(case, device)
    moved = _sensitivity(case, device, point.total_us)
    low, high = _interval(point.total_us, [*_independent(moved, device), *_together(moved, case, device)])
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


def _sensitivity(case: Case, device: Device, point_us: float) -> tuple[Sensitivity, ...]:
    moved = []
    for key in device.uncertain:
        quantity = device.quantities[key]
        ends = [
            evaluate(case, device.with_value(key, value)).total_us
            for value in (quantity.low, quantity.high)
            if value is not None
        ]
        moved.append(Sensitivity(key, *ends))
    plain = case.traffic.with_plain_map
    if plain is not None:
        unhashed = replace(case, work=launch_work(case.work.execution, plain, device))
        moved.append(Sensitivity("l2.map", evaluate(unhashed, device).total_us, point_us))
    # An error that cannot be told, because there is one cluster only, counts as 100 %.
    error = _STANDARD_ERRORS * min(1.0, case.traffic.sampling_error)
    if error:
        moved.append(Sensitivity("sampling", point_us / (1 + error), point_us * (1 + error)))
    relevant = [entry for entry in moved if entry.spread_us > _NEGLIGIBLE * point_us]
    return tuple(sorted(relevant, key=lambda entry: -entry.spread_us))


def _is_derived(entry: Sensitivity, device: Device) -> bool:
    quantity = device.quantities.get(entry.constant)
    return quantity is not None and quantity.kind is Kind.DERIVED


def _independent(moved: tuple[Sensitivity, ...], device: Device) -> list[tuple[float, float]]:
    """Ends of the constants that count on their own, and of the sampling error."""
    return [(entry.low_us, entry.high_us) for entry in moved if not _is_derived(entry, device)]


def _together(moved: tuple[Sensitivity, ...], case: Case, device: Device) -> list[tuple[float, float]]:
    """Ends with every derived constant at the end that makes the launch fastest, and slowest."""
    fast = slow = device
    for entry in moved:
        if not _is_derived(entry, device):
            continue
        quantity = device.quantities[entry.constant]
        low, high = (value if value is not None else quantity.value for value in (quantity.low, quantity.high))
        rises = entry.low_us <= entry.high_us
        fast = fast.with_value(entry.constant, low if rises else high)
        slow = slow.with_value(entry.constant, high if rises else low)
    return [(evaluate(case, fast).total_us, evaluate(case, slow).total_us)]


def _interval(point_us: float, ends: list[tuple[float, float]]) -> tuple[float, float]:
    down = up = 0.0
    for pair in ends:
        ratios = [math.log(end / point_us) for end in pair]
        down += min(0.0, *ratios) ** 2
        up += max(0.0, *ratios) ** 2
    return point_us * math.exp(-math.sqrt(down)), point_us * math.exp(math.sqrt(up))
