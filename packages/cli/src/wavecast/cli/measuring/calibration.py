"""Which constants of a device its own GPU shows, and how: probes, and what follows from their times.

A probe measures; `constants_of` turns what all of them measured into constants, as the device files define them. Both
know a device only by its specification, so the same probes run on every GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavecast.cli.device_spec import SpecFacts

MB = 10**6
GB = 10**9
LARGE_BYTES = (64 * MB, 256 * MB, GB, 4 * GB)
WIDTHS = (1, 2, 4, 8, 16)
STRIDES = (1, 2, 4, 8, 16, 32)
EMPTY_GROUPS = 262_144


@dataclass(frozen=True, slots=True)
class Sample:
    """One point that a probe measured.

    Attributes:
        probe: What was measured: ``hbm read``.
        at: Where: ``256 MB``.
        value: Number.
        unit: Its unit.
    """

    probe: str
    at: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Pinned:
    """A constant that the measurements give.

    Attributes:
        key: ``section.name`` in the device file.
        value: Its value, in the unit of the device file.
        low: Lower end of its range; None where the file's own range is kept.
        high: Upper end.
        note: How it follows.
    """

    key: str
    value: float
    low: float | None
    high: float | None
    note: str


@dataclass
class Probes:
    """What all probes measured, by probe and by place.

    Attributes:
        clock_mhz: Clock of the compute units, read between the probes.
        samples: The points, in the order in which they were measured.
    """

    clock_mhz: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, probe: str, at: str, value: float, unit: str) -> None:
        """Take a point."""
        self.samples.append(Sample(probe, at, value, unit))

    def of(self, probe: str) -> dict[str, float]:
        """The points of a probe, place to value; empty if it did not run."""
        return {sample.at: sample.value for sample in self.samples if sample.probe == probe}

    @property
    def clock_ghz(self) -> float:
        """The largest clock that was read: what the model calls the clock of kernels that are bound by memory."""
        return max(self.clock_mhz) / 1e3


def constants_of(probes: Probes, spec: SpecFacts) -> list[Pinned]:
    """The constants that were measured.

    Args:
        probes: What was measured.
        spec: The device as its file has it: counts of units, and which constants it has.
    """
    found: list[Pinned | None] = [_clock(probes)]
    for level in ("hbm", "l2", "mall"):
        for way, key in (("read", "read_tb_s"), ("write", "write_tb_s"), ("copy", "mixed_tb_s")):
            found.append(_bandwidth(probes, spec, level, way, f"{level}.{key}"))
    clk_per_ns = probes.clock_ghz
    for level in ("l1", "l2", "mall", "hbm"):
        found.append(_latency(probes, spec, level))
    found += _launch(probes, spec)
    found += _atomics(probes, spec)
    found.append(_store_path(probes, spec))
    found.append(_narrow_stores(probes, spec))
    found.append(_partial_writes(probes, spec, clk_per_ns))
    return [item for item in found if item is not None and item.key in spec.values]


def _clock(probes: Probes) -> Pinned:
    return Pinned("compute.clock_ghz", probes.clock_ghz, None, None, "largest clock read between the probes")


def _bandwidth(probes: Probes, spec: SpecFacts, level: str, way: str, key: str) -> Pinned | None:
    points = probes.of(f"{level} {way}")
    if not points or key not in spec.values:
        return None
    value = list(points.values())[-1] if level == "hbm" else max(points.values())
    where = ", ".join(f"{at}: {rate:.3g}" for at, rate in points.items())
    smallest = min(list(points.values())[-3:])
    return Pinned(key, value, min(value, smallest), max(points.values()), f"TB/s by bytes: {where}")


def _latency(probes: Probes, spec: SpecFacts, level: str) -> Pinned | None:
    points = probes.of(f"{level} latency")
    if not points:
        return None
    values = [ns * probes.clock_ghz for ns in points.values()]
    where = ", ".join(f"{at}: {ns:.4g} ns" for at, ns in points.items())
    return Pinned(f"{level}.latency_clk", values[0], min(values), max(values), f"dependent loads, {where}")


def _launch(probes: Probes, spec: SpecFacts) -> list[Pinned | None]:
    points = probes.of("launch")
    if not points:
        return []
    clk_per_us = probes.clock_ghz * 1e3
    first, event, idle = points["one, queued"], points["nothing"], points["one, idle"]
    lowest, highest = min(first, event), max(first, idle)
    empty = points["empty workgroup"] * 1e-3 * clk_per_us
    wide = points["empty workgroup of most waves"] * 1e-3 * clk_per_us
    waves = points["most waves"]
    # Where a launch alone takes a time of its own beside its work, an empty kernel shows that and not what lies before.
    alone = "launch.alone_us" if "launch.alone_us" in spec.values else "launch.first_us"
    return [
        Pinned(alone, first, lowest, highest, "empty kernel between two events behind queued work; "
               "low: nothing between them; high: on an idle queue"),
        Pinned("launch.back_to_back_us", points["one of many"], None, None, "empty kernels that were enqueued ahead"),
        Pinned("launch.workgroup_clk", empty, None, None, f"{EMPTY_GROUPS:,} empty workgroups of one wave"),
        Pinned("launch.wave_clk_per_xcd", wide * spec.values["compute.num_xcd"] / waves, None, None,
               f"{EMPTY_GROUPS:,} empty workgroups of {waves:.0f} waves"),
    ]  # fmt: skip


def _atomics(probes: Probes, spec: SpecFacts) -> list[Pinned | None]:
    chain, spread, fenced = probes.of("atomic chain"), probes.of("atomics"), probes.of("fence after stores")
    if not chain or not spread:
        return []
    clk = {at: ns * probes.clock_ghz for at, ns in chain.items()}
    relaxed = clk["relaxed gpu"]
    release, acquire = max(clk["release gpu"] - relaxed, 0.0), max(clk["acquire gpu"] - relaxed, 0.0)
    busy = [max(ns * probes.clock_ghz, 0.0) for at, ns in fenced.items() if at == "release less relaxed"]
    lanes, channels = spec.values["compute.wave_lanes"], spec.atomic_channels
    same = spread["one address"] * lanes * probes.clock_ghz
    far = spread["an address a lane"] * lanes * channels * probes.clock_ghz
    return [
        Pinned("atomics.latency_clk", relaxed, None, None, "dependent relaxed additions of one lane, device scope"),
        Pinned("atomics.same_line_clk", same, None, None, "all lanes add to one address"),
        Pinned("atomics.request_clk", far, None, None, "every lane adds to an address of its own"),
        Pinned("fences.writeback_clk", release, min([release, *busy]), max([release, *busy]),
               "a release beyond a relaxed addition with nothing pending; the other end: after a store of every lane"),
        Pinned("fences.invalidate_clk", acquire, None, None, "an acquire beyond a relaxed addition"),
    ]  # fmt: skip


def _store_path(probes: Probes, spec: SpecFacts) -> Pinned | None:
    points = probes.of("l2 write by programs")
    few = [rate * 1e12 / int(at) / (probes.clock_ghz * 1e9) for at, rate in points.items() if int(at) <= FEW_PROGRAMS]
    if not few:
        return None
    note = f"stores of 1 to {FEW_PROGRAMS} programs, one a compute unit, into L2"
    return Pinned("l1.store_bytes_per_clk", max(few), min(few), max(few), note)


FEW_PROGRAMS = 8
"""Programs that certainly run on compute units of their own."""


def _narrow_stores(probes: Probes, spec: SpecFacts) -> Pinned | None:
    rate = probes.of("l2 store width").get("1")
    if rate is None:
        return None
    value = 4 * spec.values["compute.num_cu"] * probes.clock_ghz * 1e9 / (rate * 1e12)
    return Pinned("l1.store_quad_clk", value, None, None, f"contiguous 1-byte stores into L2 at {rate:.3g} TB/s")


def _partial_writes(probes: Probes, spec: SpecFacts, clk_per_ns: float) -> Pinned | None:
    rate = probes.of("scattered bytes").get("in L2")
    if rate is None:
        return None
    channels = spec.values["l2.channels_per_xcd"] * spec.values["compute.num_xcd"]
    note = f"bytes stored by lanes in different rows, {rate:.3g} G/s on all channels"
    return Pinned("l2.write_request_clk", channels * clk_per_ns / rate, None, None, note)


def compared(pinned: list[Pinned], values: Mapping[str, float]) -> list[tuple[Pinned, float, float]]:
    """Each measured constant with the file's value and how far it lies from it, in per cent."""
    return [(item, values[item.key], 100.0 * (item.value / values[item.key] - 1.0)) for item in pinned]
