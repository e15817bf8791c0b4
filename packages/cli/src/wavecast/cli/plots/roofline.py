"""What the device could do, and where the variants are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from wavecast.cli.devices import DeviceFacts
from wavecast.cli.plots.comparison import Comparison, Variant
from wavecast.cli.plots.picture import Cell, Picture, Table

NAME = "roofline"
COLUMNS = ("name", "kind", "level", "tb_s", "ops", "bytes", "time_us", "ops_per_byte", "top_s", "constants")
# Level, its label, and the rate that the device file has for it.
BANDWIDTHS = (
    ("hbm", "HBM, copy", "hbm.mixed_tb_s"),
    ("mall", "Infinity Cache, copy", "mall.mixed_tb_s"),
    ("l2", "L2, read", "l2.read_tb_s"),
)
# Rate of a type, its label, and the clock that the device sustains under it.
MATRIX_TYPES = (
    ("matrix.f16", "16-bit", "compute.matrix_clock_ghz"),
    ("matrix.f8", "FP8", "compute.matrix_clock_8bit_ghz"),
    ("matrix.f8f6f4_8bit", "MXFP8", "compute.matrix_clock_8bit_ghz"),
    ("matrix.f8f6f4_small", "MXFP6/4", "compute.matrix_clock_8bit_ghz"),
)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the device reaches at one level of its memory, or in one kind of operation.

    Attributes:
        label: What gives it.
        level: ``hbm``, ``mall`` or ``l2`` of a bandwidth; empty for a rate of operations.
        value: TB/s of a bandwidth, Top/s (10¹² operations a second) of a rate.
        constants: Constants of the device file whose product it is.
    """

    label: str
    level: str
    value: float
    constants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A variant at one level of the memory system.

    Attributes:
        variant: The variant.
        level: ``hbm``, ``mall`` or ``l2``.
        ops: Executed operations of all launches.
        bytes: Bytes that all launches move at that level.
    """

    variant: Variant
    level: str
    ops: float
    bytes: float

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.ops / self.bytes

    @property
    def rate(self) -> float:
        """10¹² operations a second."""
        return self.ops / self.variant.time_us / 1e6


@dataclass(frozen=True, slots=True)
class Roofline:
    """Ceilings and points."""

    bandwidths: tuple[Ceiling, ...]
    rates: tuple[Ceiling, ...]
    points: tuple[Point, ...]

    def table(self) -> Table:
        rows: list[dict[str, Cell]] = []
        for ceiling in (*self.bandwidths, *self.rates):
            kind, column = ("bandwidth", "tb_s") if ceiling.level else ("rate", "top_s")
            line: dict[str, Cell] = {"name": ceiling.label, "kind": kind, "level": ceiling.level or None}
            rows.append({**line, column: ceiling.value, "constants": " * ".join(ceiling.constants)})
        for point in self.points:
            line = {"name": point.variant.label, "kind": "variant", "level": point.level}
            measures = {"ops": point.ops, "bytes": point.bytes, "time_us": point.variant.time_us}
            rows.append({**line, **measures, "ops_per_byte": point.intensity, "top_s": point.rate})
        return Table.of(COLUMNS, rows)


def ceilings(device: DeviceFacts) -> tuple[tuple[Ceiling, ...], tuple[Ceiling, ...]]:
    """Bandwidths, and rates of operations from the lowest to the highest; what a device does not have is left out.

    Matrix instructions run at the clock that the device sustains under them. Equal rates are one line.
    """
    known = {item.key: item.value for item in device.constants}
    bandwidths = tuple(Ceiling(label, level, known[key], (key,)) for level, label, key in BANDWIDTHS if key in known)
    vector_keys = ("compute.num_cu", "compute.simd_per_cu", "compute.wave_lanes", "compute.clock_ghz")
    # GHz are 10⁹ operations a second.
    vector = prod(known[key] for key in vector_keys) / known["issue.valu_clk"] / 1e3
    rates = {vector: Ceiling("vector", "", vector, (*vector_keys, "1 / issue.valu_clk"))}
    for key, label, clock in MATRIX_TYPES:
        if key in known:
            constants = (key, "compute.num_cu", clock)
            value = prod(known[name] for name in constants) / 1e3
            same = rates.get(value)
            name = f"{same.label}, {label}" if same else f"MFMA {label}"
            rates[value] = Ceiling(name, "", value, same.constants if same else constants)
    return bandwidths, tuple(sorted(rates.values(), key=lambda item: item.value))


def points(variant: Variant) -> tuple[Point, ...]:
    """A variant at every level at which it moves anything; nothing if it computes nothing."""
    launches = variant.prediction.launches
    ops = sum(launch.matrix_flop + launch.vector_ops for launch in launches)
    moved = {
        "hbm": sum(launch.bytes.hbm_read + launch.bytes.hbm_write for launch in launches),
        "mall": sum(launch.bytes.mall_read + launch.bytes.mall_write for launch in launches),
        "l2": sum(launch.bytes.l2_read + launch.bytes.l2_write for launch in launches),
    }
    return tuple(Point(variant, level, ops, size) for level, size in moved.items() if ops and size)


def roofline(comparison: Comparison) -> Roofline | str:
    """The roofline, or why there is none."""
    found = tuple(point for variant in comparison.variants for point in points(variant))
    if not found:
        return "no variant moves bytes and computes"
    return Roofline(*ceilings(comparison.device), found)


def picture(comparison: Comparison) -> Picture | str:
    """The picture, or why there is none."""
    from wavecast.cli.plots.drawing import draw_roofline

    found = roofline(comparison)
    return found if isinstance(found, str) else Picture(NAME, found.table(), partial(draw_roofline, comparison, found))
