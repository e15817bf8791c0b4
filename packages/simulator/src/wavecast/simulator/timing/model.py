"""Time of one launch for one set of constants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.clock import issue_efficiency, matrix_clock_ghz
from wavecast.simulator.timing.combine import COMPUTE_UNIT, combine_us
from wavecast.simulator.timing.demands import WaveDemands, Work, wave_demands
from wavecast.simulator.timing.memory_time import memory_terms, supply_us, warm_share
from wavecast.simulator.timing.network import Residence, residence
from wavecast.simulator.timing.prediction import Bound, Position
from wavecast.simulator.timing.schedule import Schedule
from wavecast.simulator.traffic import Traffic

_CLOCK_STEPS = 8  # of halving: the clock to 0.4 %
_MOST_LOAD = 1.25  # more than any efficiency allows


@dataclass(frozen=True, slots=True)
class Case:
    """A launch to be timed.

    Attributes:
        work: What the average wave does.
        schedule: Its workgroups on the compute units.
        slots: Workgroups that run at once.
        position: Where it stands in its stream.
        warm: Whether an earlier launch left its data in the memory-side cache.
    """

    work: Work
    schedule: Schedule
    slots: int
    position: Position
    warm: bool

    @property
    def traffic(self) -> Traffic:
        return self.work.traffic


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result for one set of constants, in microseconds.

    Attributes:
        total_us: Time of the launch.
        terms: By resource, as in ``TimePrediction``.
        compute_unit_us: Time of the compute units.
        wave: Demands of the average wave.
    """

    total_us: float
    terms: dict[Bound, float]
    compute_unit_us: float
    wave: WaveDemands

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

    Args:
        case: What to time.
        device: The constants.
    """
    found = _evaluate(case, device)
    wide_clk, narrow_clk = case.work.classes.matrix_clk(case.work.times)
    if not wide_clk + narrow_clk:
        return found
    bits = 16 if wide_clk > narrow_clk else 8
    waves = case.traffic.workgroups * case.traffic.residency.waves_per_workgroup
    clk_per_simd = (wide_clk + narrow_clk) * waves / (device.compute.num_cu * device.compute.simd_per_cu)
    # The clock at which the launch takes as long as it must for the power limit to allow that clock.
    full = matrix_clock_ghz(device, bits=bits) * 1e3 * issue_efficiency(device, bits=bits)
    low, high = matrix_clock_ghz(device, bits=bits, load=_MOST_LOAD), device.compute.clock_ghz
    for _ in range(_CLOCK_STEPS):
        clock = (low + high) / 2
        found = _evaluate(case, _at_clock(device, clock, bits=bits))
        load = clk_per_simd / max(1e-9, found.total_us - found.terms[Bound.LAUNCH]) / full
        if matrix_clock_ghz(device, bits=bits, load=load) > clock:
            low = clock
        else:
            high = clock
    return found


def _at_clock(device: Device, clock_ghz: float, *, bits: int) -> Device:
    if bits <= 8:
        return replace(device, compute=replace(device.compute, matrix_clock_8bit_ghz=clock_ghz))
    return replace(device, compute=replace(device.compute, matrix_clock_ghz=clock_ghz))


def _evaluate(case: Case, device: Device) -> Evaluation:
    """Time a launch at the matrix clocks that the constants state.

    Args:
        case: What to time.
        device: The constants.
    """
    traffic = case.traffic
    warm = warm_share(traffic, device) if case.warm else 0.0
    # A grid that does not fill the device shares it among fewer compute units.
    sharing = min(device.compute.num_cu, traffic.workgroups) / max(1, traffic.workgroups)
    supply_clk = supply_us(traffic, device, warm=warm) * device.clk_per_us * sharing
    wave = wave_demands(case.work, device, warm=warm, supply_clk=supply_clk)
    compute_us, life = _compute_units_us(case, device, wave)
    terms = {
        Bound.LAUNCH: launch_us(device, case.position),
        Bound.WORKGROUP_LAUNCH: _workgroup_launch_us(traffic, device),
        Bound.ISSUE: compute_us * life.simd_clk / life.life_clk,
        Bound.LATENCY: compute_us * life.think_clk / life.life_clk,
        Bound.LDS: compute_us * life.lds_clk / life.life_clk,
        Bound.L1: compute_us * (life.address_clk + life.fill_clk) / life.life_clk,
        **memory_terms(traffic, device, warm=warm),
    }
    return Evaluation(combine_us(terms, device), terms, compute_us, wave)


def launch_us(device: Device, position: Position) -> float:
    """Fixed cost of a launch in that position."""
    return device.launch.first_us if position is Position.FIRST else device.launch.back_to_back_us


def _compute_units_us(case: Case, device: Device, wave: WaveDemands) -> tuple[float, Residence]:
    """Full rounds of workgroups, then the tail with fewer of them on a compute unit."""
    occupancy = case.traffic.residency
    per_cu = min(occupancy.workgroups_per_cu, -(-case.traffic.workgroups // device.compute.num_cu))
    in_tail = case.schedule.tail_workgroups * occupancy.workgroups_per_cu / case.slots
    lives = [
        residence(wave.demands, workgroups * occupancy.waves_per_workgroup, simds=device.compute.simd_per_cu)
        for workgroups in (per_cu, max(1, min(per_cu, _round_up(in_tail))))
    ]
    clk = case.schedule.filled * lives[0].life_clk + case.schedule.tail * lives[1].life_clk
    main = lives[0] if case.schedule.filled else lives[1]
    return clk / device.clk_per_us, main


def _round_up(value: float) -> int:
    return int(-(-value // 1))


def _workgroup_launch_us(traffic: Traffic, device: Device) -> float:
    waves = traffic.residency.waves_per_workgroup
    each = max(device.launch.workgroup_clk, waves * device.launch.wave_clk_per_xcd / device.compute.num_xcd)
    return traffic.workgroups * each / device.clk_per_us
