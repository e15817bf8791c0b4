"""Time of one launch for one set of constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.clock import issue_efficiency, matrix_clock_ghz
from wavecast.simulator.timing.combine import COMPUTE_UNIT, combine_us
from wavecast.simulator.timing.compute_unit import (
    Costs,
    Demand,
    Filling,
    KernelForm,
    KnownCosts,
    Part,
    Spent,
    Streams,
    UnitTime,
    run_unit,
)
from wavecast.simulator.timing.memory_time import busy_us, crowded_us, memory_terms, serial_us, warm_share
from wavecast.simulator.timing.prediction import Bound, Position
from wavecast.simulator.timing.schedule import Schedule
from wavecast.simulator.traffic import Traffic

_CLOCK_STEPS = 4  # of the secant method: the clock to 1 %
_SAME_CLOCK = 0.01
_MOST_FILLINGS = 32  # of a compute unit
# Instructions of short workgroups: as many of them as make about so many, so that queues settle and waves drift out of
# the step in which the first filling begins. For the point, and for the difference that a constant makes.
_SETTLED, _COARSE_SETTLED = 300_000, 20_000

_OF_TERM = {
    Part.ISSUE: Bound.ISSUE,
    Part.LDS: Bound.LDS,
    Part.L1: Bound.L1,
}


@dataclass(frozen=True, slots=True)
class Life:
    """What the average workgroup's waves spend their time on.

    Attributes:
        spent_clk: float64 (instructions, Spent), cycles of all waves of the average workgroup.
        parts_clk: The same by what it goes to.
    """

    spent_clk: np.ndarray
    parts_clk: dict[Part, float]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulation of a compute unit, and what it says about the launch.

    Attributes:
        time: The simulation.
        life: Of the average workgroup.
        missing_clk: Cycles of it by which the simulated streams are too short.
    """

    time: UnitTime
    life: Life
    missing_clk: float


@dataclass(frozen=True, slots=True)
class Case:
    """A launch to be timed.

    Attributes:
        form: The kernel with its traffic.
        streams: Instruction streams for the point.
        coarse: Shorter ones, for the difference that a constant makes.
        executions: float64 per instruction, by all waves of the average workgroup.
        schedule: Its workgroups on the compute units if they differ in work; None if they are equal.
        slots: Workgroups that run at once, of those that the schedule knows.
        position: Where it stands in its stream.
        warm: Whether an earlier launch left its data in the memory-side cache.
        costs: Costs of the instructions by what they depend on.
        known: Simulations by what went into them.
    """

    form: KernelForm
    streams: Streams
    coarse: Streams
    executions: np.ndarray
    schedule: Schedule | None
    slots: int
    position: Position
    warm: bool
    costs: KnownCosts = field(init=False)
    known: dict[tuple[int, bytes, Filling], Simulated] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", KnownCosts(self.form))

    @property
    def traffic(self) -> Traffic:
        return self.form.traffic

    @property
    def per_unit(self) -> int:
        """Workgroups that a compute unit holds at once, as far as there are so many."""
        return self.traffic.residency.workgroups_per_cu

    def simulated(self, streams: Streams, costs: Costs, filling: Filling) -> Simulated:
        """The result of ``run_unit``, kept: most constants do not matter to most kernels."""
        key = (id(streams), costs.key, filling)
        if key not in self.known:
            time = run_unit(streams, costs.ticks, filling)
            self.known[key] = Simulated(time, *_life(self, time))
        return self.known[key]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result for one set of constants, in microseconds.

    Attributes:
        total_us: Time of the launch.
        terms: By resource, as in ``TimePrediction``.
        compute_unit_us: Time of the compute units if the shared memory system delivered everything at once.
        working_us: Their time with the memory system as it is.
        life: Of the average workgroup, with the memory system as it is.
        matrix_load: Share of the full matrix rate at which the launch multiplies.
    """

    total_us: float
    terms: dict[Bound, float]
    compute_unit_us: float
    working_us: float
    life: Life
    matrix_load: float

    @property
    def bound(self) -> Bound:
        """The largest term; the compute units count as a whole, and their largest part gives the name."""
        device = {name: us for name, us in self.terms.items() if name not in COMPUTE_UNIT}
        largest = max(device, key=lambda name: device[name])
        if self.compute_unit_us > device[largest]:
            return max(COMPUTE_UNIT, key=lambda name: self.terms[name])
        return largest


def evaluate(case: Case, device: Device) -> Evaluation:
    """Time a launch at the clock that its own matrix work leaves it.

    Two simulations: with each compute unit's share of the shared memory system, and with one that delivers at once. The
    first is the time; what it has beyond the slowest single resource is time in which nothing overlaps.

    Args:
        case: What to time.
        device: The constants.
    """
    load = _matrix_load(case, device)
    device = _at_load(case, device, load)
    shared = _shared_terms(case, device)
    working_clk, life = _working(case, device, case.streams, shared)
    alone_clk, unhindered = _working(case, device, case.streams, {})
    compute_us = alone_clk / device.clk_per_us
    total_clk = sum(unhindered.parts_clk.values())
    split = dict.fromkeys(COMPUTE_UNIT, 0.0)
    for part, clk in unhindered.parts_clk.items():
        split[_OF_TERM.get(part, Bound.LATENCY)] += compute_us * clk / total_clk
    slowest = max(compute_us, shared[Bound.WORKGROUP_LAUNCH], *busy_us(shared))
    crowded = crowded_us(shared[Bound.HBM], max(_started_us(shared, device), split[Bound.LATENCY]), device)
    terms = {
        Bound.LAUNCH: 0.0,
        **split,
        **shared,
        Bound.OVERLAP: max(0.0, working_clk / device.clk_per_us - slowest, crowded - slowest),
    }
    terms[Bound.LAUNCH] = launch_us(device, case.position, working_us=combine_us(terms, device))
    working_us = working_clk / device.clk_per_us
    return Evaluation(combine_us(terms, device), terms, compute_us, working_us, life, load)


def coarse_us(case: Case, device: Device, *, load: float) -> float:
    """Time of a launch after its launch cost, in µs, from the shorter streams.

    Args:
        case: What to time.
        device: The constants.
        load: Share of the full matrix rate at which the launch multiplies.
    """
    device = _at_load(case, device, load)
    shared = _shared_terms(case, device)
    working_us = _working(case, device, case.coarse, shared)[0] / device.clk_per_us
    slowest = max(working_us, shared[Bound.WORKGROUP_LAUNCH], *busy_us(shared))
    crowded = crowded_us(shared[Bound.HBM], _started_us(shared, device), device)
    return (max(slowest, crowded) + serial_us(shared)) * device.combine.residual


def _started_us(shared: dict[Bound, float], device: Device) -> float:
    """Time in which workgroups are started, where that leaves compute units without work in between.

    Several dispatchers, one for each XCD, do. One that serves all units does not: on an H200, 65,536 workgroups that
    take 40 µs to start move in 44 µs what its memory moves in as many.
    """
    return shared[Bound.WORKGROUP_LAUNCH] if device.compute.num_xcd > 1 else 0.0


def launch_us(device: Device, position: Position, *, working_us: float) -> float:
    """Cost of a launch in that position beside its work.

    What the host and the queue do goes on while the kernel runs, so that of two the longer counts: the work and what
    lies before it, or the time in which a launch alone is known to have ended. In a chain likewise: the work and what
    lies between it and the next, or the time in which launches are submitted one after another.

    Args:
        device: The constants.
        position: Where it stands.
        working_us: From the start of its first workgroup until the next launch may begin.
    """
    launch = device.launch
    if position.is_alone:
        queued_us = launch.first_us if launch.queued_us is None else launch.queued_us
        before_us = launch.first_us if position is Position.FIRST else queued_us
        return max(before_us, (launch.alone_us or 0.0) - working_us)
    return max(launch.back_to_back_us, (launch.submit_us or 0.0) - working_us)


def _shared_terms(case: Case, device: Device) -> dict[Bound, float]:
    """µs of what all compute units share."""
    traffic = case.traffic
    warm = warm_share(traffic, device) if case.warm else 0.0
    waves = traffic.residency.waves_per_workgroup
    each = max(device.launch.workgroup_clk, waves * device.launch.wave_clk_per_xcd / device.compute.num_xcd)
    return {
        Bound.WORKGROUP_LAUNCH: traffic.workgroups * each / device.clk_per_us,
        **memory_terms(traffic, device, warm=warm),
    }


def _working(case: Case, device: Device, streams: Streams, shared: dict[Bound, float]) -> tuple[float, Life]:
    """Cycles until the busiest compute unit is done, and what its waves do.

    Equal workgroups go round the compute units, so the busiest has the mean number, rounded up. It is simulated to the
    end if these are few; otherwise those between the first and the last take as long as the middle ones do.
    Workgroups that differ follow their schedule: full rounds, then the tail with as many on a unit as it has left.

    Args:
        case: What to time.
        device: The constants.
        streams: Long or short ones.
        shared: µs of what all compute units share; nothing if that takes no time.
    """
    units, groups = device.compute.num_cu, case.traffic.workgroups
    most = -(-groups // units)
    if case.schedule is None:
        return _rounds(case, device, streams, shared, slots=min(case.per_unit, most), workgroups=most, share=1 / most)
    clk, life = 0.0, None
    if case.schedule.filled:
        slots = min(case.per_unit, most)
        rounds = max(1, round(case.schedule.filled))
        clk, life = _rounds(case, device, streams, shared, slots=slots, workgroups=rounds * slots, share=units / groups)
        clk *= case.schedule.filled / rounds
    running = max(1.0, case.schedule.tail_workgroups * case.per_unit * units / case.slots)
    slots = max(1, min(case.per_unit, int(-(-running // units))))
    # Units with one workgroup less end earlier and leave theirs to the others.
    share = running / (slots * groups)
    tail_clk, tail_life = _rounds(case, device, streams, shared, slots=slots, workgroups=slots, share=share)
    return clk + tail_clk * case.schedule.tail, life or tail_life


def _rounds(
    case: Case,
    device: Device,
    streams: Streams,
    shared: dict[Bound, float],
    *,
    slots: int,
    workgroups: int,
    share: float,
) -> tuple[float, Life]:
    """Cycles that a compute unit needs for ``workgroups``, of which it holds ``slots`` at once.

    Args:
        case: What to time.
        device: The constants.
        streams: Long or short ones.
        shared: As in ``_working``.
        slots: At once.
        workgroups: Altogether.
        share: Part of the device's time for the whole launch that serves one of them.
    """
    per_group_clk = device.clk_per_us * share

    def demand(*names: Bound) -> float:
        return max((shared.get(name, 0.0) for name in names), default=0.0) * per_group_clk

    costs = case.costs.price(
        device,
        Demand(demand(Bound.L2), demand(Bound.MALL, Bound.HBM), demand(Bound.ATOMICS), demand(Bound.FENCES)),
        warm=warm_share(case.traffic, device) if case.warm else 0.0,
    )
    length = len(streams.code) / streams.workgroups
    turn = streams.workgroups if case.schedule is not None else slots
    settled = _SETTLED if streams is case.streams else _COARSE_SETTLED
    count = min(workgroups, simulated_workgroups(slots, turn=turn, wanted=settled / length))
    filling = Filling(
        slots=slots,
        workgroups=count,
        simds=device.compute.simd_per_cu,
        interval_clk=demand(Bound.WORKGROUP_LAUNCH),
        start_clk=device.issue.wave_overhead_clk,
        lines=round(device.l1.lines_in_flight),
        spread=device.l1.latency_spread,
    )
    found = case.simulated(streams, costs, filling)
    clk, ends_clk = found.time.finish_clk, found.time.ends_clk
    if workgroups > count:
        last = count - slots
        before = last - max(1, (last // 2) // turn) * turn
        clk += float(ends_clk[last - 1] - ends_clk[before - 1]) * (workgroups - count) / (last - before)
    # What the streams leave out takes the waves of each slot, one workgroup after another, as long as what they have.
    return clk + found.missing_clk / streams.waves * workgroups / slots, found.life


def simulated_workgroups(slots: int, *, turn: int, wanted: float = 0.0) -> int:
    """Workgroups that a simulation of a compute unit runs, if there are so many: whole turns, one of them amid others.

    Args:
        slots: Workgroups that it holds at once: the first so many begin together, the last so many end alone.
        turn: Workgroups after which all comes again: those of the pool if they differ, else ``slots``.
        wanted: For queues to settle.
    """
    fewest = turn * (1 + -(-2 * slots // turn))
    return max(fewest, int(min(wanted, _MOST_FILLINGS * slots)) // turn * turn)


def _life(case: Case, found: UnitTime) -> tuple[Life, float]:
    """Life of the average workgroup, and the cycles of it by which the simulated streams are too short."""
    spent = found.spent_clk
    times = np.maximum(spent[:, Spent.EXECUTED], 1)
    each = spent[:, [Spent.ISSUE, Spent.STALL, Spent.WAIT]].sum(axis=1) / times
    missing = case.executions - spent[:, Spent.EXECUTED] / found.workgroups
    missing_clk = float(each @ missing)
    factor = case.executions * (spent[:, Spent.EXECUTED] > 0)
    whole = spent / times[:, None] * factor[:, None]
    whole[:, Spent.EXECUTED] = case.executions
    total = sum(found.parts_clk.values()) / found.workgroups
    scale = (total + missing_clk) / total if total else 1.0
    parts = {part: clk / found.workgroups * scale for part, clk in found.parts_clk.items()}
    return Life(whole, parts), missing_clk


def _matrix_clk(case: Case) -> tuple[float, int]:
    """Matrix cycles on each SIMD over the whole launch, if all were equally busy, and bits of the operands."""
    form = case.form
    clk = case.executions[form.matrix] * form.matrix_clk
    narrow = float(clk[form.is_8bit].sum())
    bits = 8 if 2 * narrow >= float(clk.sum()) else 16
    return float(clk.sum()) * case.traffic.workgroups, bits


def _matrix_load(case: Case, device: Device) -> float:
    """Share of the full matrix rate at which the launch multiplies when its clock is what that load allows."""
    clk, bits = _matrix_clk(case)
    if not clk:
        return 0.0
    on_simd_clk = clk / (device.compute.num_cu * device.compute.simd_per_cu)
    full = matrix_clock_ghz(device, bits=bits) * 1e3 * issue_efficiency(device, bits=bits)

    def load_at(clock_ghz: float) -> float:
        at = _at_clock(device, clock_ghz, bits=bits)
        shared = _shared_terms(case, at)
        return on_simd_clk / (_working(case, at, case.coarse, shared)[0] / at.clk_per_us) / full

    return _fixed_point(load_at, lambda load: matrix_clock_ghz(device, bits=bits, load=load), device)


def _fixed_point(load_at: Callable[[float], float], clock_of: Callable[[float], float], device: Device) -> float:
    """The load at which the clock that it allows gives that load; a higher clock gives more load, which allows less."""
    clock = device.compute.clock_ghz
    load = load_at(clock)
    miss = clock_of(load) - clock
    other, other_miss = clock_of(load), 0.0
    for _ in range(_CLOCK_STEPS):
        if abs(miss) <= _SAME_CLOCK * clock:
            break
        load = load_at(other)
        other_miss = clock_of(load) - other
        slope = (other_miss - miss) / (other - clock) if other != clock else -1.0
        clock, miss = other, other_miss
        other = min(device.compute.clock_ghz, max(0.1, clock - miss / min(slope, -1.0)))
    return load


def _at_load(case: Case, device: Device, load: float) -> Device:
    """The device with its matrix clock at a load."""
    if not load:
        return device
    _, bits = _matrix_clk(case)
    return _at_clock(device, matrix_clock_ghz(device, bits=bits, load=load), bits=bits)


def _at_clock(device: Device, clock_ghz: float, *, bits: int) -> Device:
    if bits <= 8:
        return replace(device, compute=replace(device.compute, matrix_clock_8bit_ghz=clock_ghz))
    return replace(device, compute=replace(device.compute, matrix_clock_ghz=clock_ghz))
