"""Bytes at every level of the memory system against the least that any implementation must move."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from wavecast.cli.plots.comparison import Comparison, Variant
from wavecast.cli.plots.picture import Picture, Table

NAME = "traffic"
COLUMNS = ("variant", "level", "read_bytes", "write_bytes", "atomic_bytes", "minimum_bytes", "times_minimum")
LEVELS = ("asked", "l2", "mall", "hbm")


@dataclass(frozen=True, slots=True)
class Bar:
    """A variant at one level.

    Attributes:
        variant: The variant.
        level: ``asked`` (by the lanes, at the L1), ``l2``, ``mall`` or ``hbm``.
        read: Bytes read.
        write: Bytes written.
        atomic: Bytes of atomics, known where they are asked for.
    """

    variant: Variant
    level: str
    read: float
    write: float
    atomic: float = 0.0

    @property
    def total(self) -> float:
        return self.read + self.write + self.atomic

    @property
    def times_minimum(self) -> float | None:
        """Over the minimum of the variant; None if that is not known."""
        minimum = self.variant.row.minimum_bytes
        return self.total / minimum if minimum else None


@dataclass(frozen=True, slots=True)
class TrafficByLevel:
    """Bars, by variant and then by level."""

    bars: tuple[Bar, ...]

    def table(self) -> Table:
        return Table.of(
            COLUMNS,
            (
                {
                    "variant": bar.variant.label,
                    "level": bar.level,
                    "read_bytes": bar.read,
                    "write_bytes": bar.write,
                    "atomic_bytes": bar.atomic,
                    "minimum_bytes": bar.variant.row.minimum_bytes,
                    "times_minimum": bar.times_minimum,
                }
                for bar in self.bars
            ),
        )


def bars(variant: Variant) -> tuple[Bar, ...]:
    """A variant at every level, all its launches together."""
    moved = [launch.bytes for launch in variant.prediction.launches]
    return (
        Bar(
            variant,
            "asked",
            sum(item.asked_read for item in moved),
            sum(item.asked_write for item in moved),
            sum(item.asked_atomic for item in moved),
        ),
        Bar(variant, "l2", sum(item.l2_read for item in moved), sum(item.l2_write for item in moved)),
        Bar(variant, "mall", sum(item.mall_read for item in moved), sum(item.mall_write for item in moved)),
        Bar(variant, "hbm", sum(item.hbm_read for item in moved), sum(item.hbm_write for item in moved)),
    )


def traffic_by_level(comparison: Comparison) -> TrafficByLevel | str:
    """The bars, or why there are none."""
    found = tuple(bar for variant in comparison.variants for bar in bars(variant))
    return TrafficByLevel(found) if any(bar.total for bar in found) else "no variant moves bytes"


def picture(comparison: Comparison) -> Picture | str:
    """The picture, or why there is none."""
    from wavecast.cli.plots.drawing import draw_traffic

    found = traffic_by_level(comparison)
    return found if isinstance(found, str) else Picture(NAME, found.table(), partial(draw_traffic, comparison, found))
