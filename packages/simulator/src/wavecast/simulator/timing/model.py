"""Time of one launch for one set of constants."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.devices.constants import Hbm, Mall
from wavecast.simulator.timing.demands import WaveDemands, Work, wave_demands
from wavecast.simulator.timing.network import Residence, residence
from wavecast.simulator.timing.prediction import Bound, Position
from wavecast.simulator.timing.schedule import Schedule
from wavecast.simulator.traffic import Traffic

_BYTES_PER_US = 1e6  # of one TB/s
_COMPUTE_UNIT = (Bound.ISSUE, Bound.LATENCY, Bound.LDS, Bound.L1)


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
        device = {name: us for name, us in self.terms.items() if name not in _COMPUTE_UNIT}
        largest = max(device, key=lambda name: device[name])
        if self.compute_unit_us > device[largest]:
            return max(_COMPUTE_UNIT, key=lambda name: self.terms[name])
        return largest


def evaluate(case: Case, device: Device) -> Evaluation:
    """Time a launch.

    The launch cost comes first. Then the compute units, the workgroup launcher, the L2 channels, the memory behind
    them, atomics and fences work at the same time, and lengthen one another as a p-norm. The memory-side cache and HBM
    carry the same bytes one behind the other, so the slower of the two counts.

    Args:
        case: What to time.
        device: The constants.
    """
    traffic = case.traffic
    warm = warm_share(traffic, device) if case.warm else 0.0
    supply_us = _supply_us(traffic, device, warm=warm)
    # A grid that does not fill the device shares it among fewer compute units.
    sharing = min(device.compute.num_cu, traffic.workgroups) / max(1, traffic.workgroups)
    supply_clk = supply_us * device.clk_per_us * sharing
    wave = wave_demands(case.work, device, warm=warm, supply_clk=supply_clk)
    compute_us, life = _compute_units_us(case, device, wave)
    fabric_us = _mixed_us(traffic.fabric_read_bytes, traffic.fabric_write_bytes, device.mall)
    hbm_us = _mixed_us(traffic.hbm_read_bytes * (1 - warm), traffic.hbm_write_bytes * (1 - warm), device.hbm)
    terms = {
        Bound.LAUNCH: launch_us(device, case.position),
        Bound.WORKGROUP_LAUNCH: _workgroup_launch_us(traffic, device),
        Bound.ISSUE: compute_us * life.simd_clk / life.life_clk,
        Bound.LATENCY: compute_us * life.think_clk / life.life_clk,
        Bound.LDS: compute_us * life.lds_clk / life.life_clk,
        Bound.L1: compute_us * (life.address_clk + life.fill_clk) / life.life_clk,
        Bound.L2: _l2_us(traffic, device),
        Bound.MALL: fabric_us,
        Bound.HBM: hbm_us,
        Bound.ATOMICS: _atomics_us(traffic, device),
        Bound.FENCES: _fences_us(traffic, device),
    }
    busy = [compute_us, max(fabric_us, hbm_us)]
    busy += [terms[name] for name in (Bound.WORKGROUP_LAUNCH, Bound.L2, Bound.ATOMICS, Bound.FENCES)]
    total = terms[Bound.LAUNCH] + _p_norm(busy, device.combine.p_norm) * device.combine.residual
    return Evaluation(total, terms, compute_us, wave)


def launch_us(device: Device, position: Position) -> float:
    """Fixed cost of a launch in that position."""
    return device.launch.first_us if position is Position.FIRST else device.launch.back_to_back_us


def warm_share(traffic: Traffic, device: Device) -> float:
    """Part of a launch's bytes that an equal launch before it left in the memory-side cache."""
    kept = device.mall.bytes * device.mall.reuse_fraction
    footprint = max(1, traffic.footprint_bytes)
    return 1.0 if footprint <= kept else (kept / footprint) ** 2


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


def _supply_us(traffic: Traffic, device: Device, *, warm: float) -> float:
    """Time the device needs to deliver what workgroups wait for: everything they read, and a share of what they write.

    The levels work as a pipeline, so the slowest counts.
    """
    stored = device.combine.store_wait
    l2 = traffic.l2_read_bytes / device.l2.read_tb_s / _BYTES_PER_US + stored * _l2_write_us(traffic, device)
    fabric = _one_by_one_us(traffic.fabric_read_bytes, stored * traffic.fabric_write_bytes, device.mall)
    cold = 1 - warm
    hbm = _one_by_one_us(traffic.hbm_read_bytes * cold, stored * traffic.hbm_write_bytes * cold, device.hbm)
    return max(l2, fabric, hbm)


def _round_up(value: float) -> int:
    return int(-(-value // 1))


def _workgroup_launch_us(traffic: Traffic, device: Device) -> float:
    waves = traffic.residency.waves_per_workgroup
    each = max(device.launch.workgroup_clk, waves * device.launch.wave_clk_per_xcd / device.compute.num_xcd)
    return traffic.workgroups * each / device.clk_per_us


def _l2_us(traffic: Traffic, device: Device) -> float:
    """Reads and writes that fill a segment by bytes, every other write by its request; longer at a hot channel."""
    read_us = traffic.l2_read_bytes / (device.l2.read_tb_s * _BYTES_PER_US)
    return (read_us + _l2_write_us(traffic, device)) * traffic.channel_imbalance**device.l2.channel_skew


def _l2_write_us(traffic: Traffic, device: Device) -> float:
    partial = traffic.l2_partial_write_requests
    whole_bytes = 64 * max(0, traffic.l2_write_requests - partial)
    whole_us = whole_bytes / (device.l2.write_tb_s * _BYTES_PER_US)
    return whole_us + partial * device.l2.write_request_clk / device.l2_channels / device.clk_per_us


def _mixed_us(read_bytes: float, write_bytes: float, rates: Mall | Hbm) -> float:
    """Reads and writes together: by their own rates if one is alone, by the mixed rate if they are equal."""
    total = read_bytes + write_bytes
    if not total:
        return 0.0
    mixing = 2 * min(read_bytes, write_bytes) / total
    mixed_us = total / rates.mixed_tb_s / _BYTES_PER_US
    return (1 - mixing) * _one_by_one_us(read_bytes, write_bytes, rates) + mixing * mixed_us


def _one_by_one_us(read_bytes: float, write_bytes: float, rates: Mall | Hbm) -> float:
    return (read_bytes / rates.read_tb_s + write_bytes / rates.write_tb_s) / _BYTES_PER_US


def _atomics_us(traffic: Traffic, device: Device) -> float:
    spread = traffic.atomic_requests * device.atomics.request_clk / device.mall.channels
    one_line = traffic.hot_line_atomics * device.atomics.same_line_clk
    return max(spread, one_line) / device.clk_per_us


def _fences_us(traffic: Traffic, device: Device) -> float:
    """Write-backs that queue at the L2 of an XCD; the wait of the wave itself is part of its latency."""
    each = device.fences.writeback_clk * device.fences.writeback_serial
    return traffic.release_fences / device.compute.num_xcd * each / device.clk_per_us


def _p_norm(values: list[float], p: float) -> float:
    largest = max(values)
    if largest <= 0:
        return 0.0
    return float(largest * sum((value / largest) ** p for value in values) ** (1 / p))
