"""Time that the device's shared memory system needs for the traffic of one launch, level by level.

L2 channels, the memory-side cache (MALL), HBM, atomics and fences; the compute units that ask for the traffic are timed
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavecast.simulator.devices import Device
from wavecast.simulator.devices.constants import Hbm, Mall
from wavecast.simulator.timing.prediction import Bound
from wavecast.simulator.traffic import Traffic

_BYTES_PER_US = 1e6  # of one TB/s


def memory_terms(traffic: Traffic, device: Device, *, warm: float) -> dict[Bound, float]:
    """µs that each level would need for the launch if it worked alone.

    Args:
        traffic: What the launch moves.
        device: The constants.
        warm: Part of the bytes that a launch before left in the memory-side cache, see ``warm_share``.
    """
    cold = 1 - warm
    hbm_read_bytes, hbm_write_bytes = traffic.hbm_read_bytes * cold, traffic.hbm_write_bytes * cold
    early_bytes = traffic.fabric_write_bytes - _last_bytes(traffic, device)
    return {
        Bound.L2: _l2_us(traffic, device),
        Bound.MALL: mixed_us(traffic.fabric_read_bytes, early_bytes, device.mall)
        + fills_us(hbm_read_bytes, hbm_write_bytes, device),
        Bound.HBM: mixed_us(hbm_read_bytes, hbm_write_bytes, device.hbm),
        Bound.ATOMICS: _atomics_us(traffic, device),
        Bound.FENCES: _fences_us(traffic, device),
        Bound.WRITE_BACK: write_back_us(_last_bytes(traffic, device), device),
    }


def busy_us(terms: Mapping[Bound, float]) -> list[float]:
    """Terms that lengthen one another; the memory-side cache and HBM carry the same bytes, so the slower counts."""
    others = [terms[name] for name in (Bound.L2, Bound.ATOMICS, Bound.FENCES)]
    return [max(terms[Bound.MALL], terms[Bound.HBM]), *others]


def serial_us(terms: Mapping[Bound, float]) -> float:
    """What comes after everything else: the end of a launch waits for the L2s to write back."""
    return terms[Bound.WRITE_BACK]


def crowded_us(hbm_us: float, offered_us: float, device: Device) -> float:
    """Time of device memory when requests come no faster than they would be done in ``offered_us``.

    Bytes in flight are the rate times the latency, so few of them mean a low rate: with as much on offer as the memory
    can take, it takes three quarters. It is all busy from twice that on.

    Args:
        hbm_us: What it needs at its best rate.
        offered_us: What those who ask would need if the memory took everything at once.
        device: The constants.
    """
    crowding = device.hbm.crowding
    if offered_us <= 2 * crowding * hbm_us:
        return hbm_us
    return max(hbm_us, offered_us / (1 - crowding * hbm_us / offered_us))


def warm_share(traffic: Traffic, device: Device) -> float:
    """Part of a launch's bytes that an equal launch before it left in the memory-side cache."""
    kept = device.mall.bytes * device.mall.reuse_fraction
    footprint = max(1, traffic.footprint_bytes)
    return 1.0 if footprint <= kept else (kept / footprint) ** 2


def _l2_us(traffic: Traffic, device: Device) -> float:
    """Reads and writes that fill a segment by bytes, every other write by its request; longer at a hot channel.

    Where the rate of both together is known, they hinder one another as much as it says, as those of HBM do.
    """
    read_us = traffic.l2_read_bytes / (device.l2.read_tb_s * _BYTES_PER_US)
    write_us = _l2_write_us(traffic, device)
    total_us = read_us + write_us
    if device.l2.mixed_tb_s is not None and total_us:
        # Of two equal amounts at their own rates, this is what both together take.
        together = (device.l2.read_tb_s + device.l2.write_tb_s) / (device.l2.read_tb_s * device.l2.write_tb_s)
        share = 2 / device.l2.mixed_tb_s / together
        mixing = 2 * min(read_us, write_us) / total_us
        total_us *= 1 - mixing * (1 - share)
    return total_us * traffic.channel_imbalance**device.l2.in_step


def _l2_write_us(traffic: Traffic, device: Device) -> float:
    partial = traffic.l2_partial_write_requests
    whole_bytes = device.write_segment_bytes * max(0, traffic.l2_write_requests - partial)
    whole_us = whole_bytes / (device.l2.write_tb_s * _BYTES_PER_US)
    return whole_us + partial * device.l2.write_request_clk / device.l2_channels / device.clk_per_us


def _last_bytes(traffic: Traffic, device: Device) -> float:
    """What the L2s write back when the launch ends.

    Nothing where its waves release what they wrote themselves; otherwise what the L2s still hold, of which no more than
    a share of their capacity is ever dirty: the rest has left while the launch ran.
    """
    if traffic.release_fences:
        return 0
    capacity = device.l2.bytes_per_xcd * device.compute.num_xcd
    return min(traffic.last_write_back_bytes, device.l2.dirty_share * capacity)


def write_back_us(dirty_bytes: float, device: Device) -> float:
    """All L2s write back at once. A device whose one L2 is the point of coherence writes nothing back."""
    each = device.l2.write_back_bytes_per_clk
    if each is None:
        return 0.0
    return dirty_bytes / (each * device.compute.num_xcd) / device.clk_per_us


def fills_us(read_bytes: float, write_bytes: float, device: Device) -> float:
    """Time that the memory-side cache needs for what it fetches from HBM and what it writes there."""
    return device.mall.fill_share * mixed_us(read_bytes, write_bytes, device.mall)


def mixed_us(read_bytes: float, write_bytes: float, rates: Mall | Hbm) -> float:
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
    """Write-backs that queue at the L2 of an XCD; the wait of the wave itself is part of its latency.

    A share of the searches for dirty lines queues, and what they find is written: together, all that the launch writes.
    """
    if not traffic.release_fences:
        return 0.0
    each = device.fences.writeback_clk * device.fences.writeback_serial
    search_us = traffic.release_fences / device.compute.num_xcd * each / device.clk_per_us
    return search_us + write_back_us(traffic.fabric_write_bytes, device)
