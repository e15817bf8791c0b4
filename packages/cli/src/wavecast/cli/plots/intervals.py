"""Predicted times with their intervals, beside what was measured and published."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.picture import Picture, Table

NAME = "intervals"
COLUMNS = ("name", "low_us", "predicted_us", "high_us", "measured_us", "published_us")


@dataclass(frozen=True, slots=True)
class Interval:
    """One line of the picture, times in µs, None where not known.

    Attributes:
        name: Key and name of the variant, or whose other code it is.
        low: Lower end.
        predicted: Point.
        high: Upper end.
        measured: Measured.
        published: Published.
    """

    name: str
    low: float | None = None
    predicted: float | None = None
    high: float | None = None
    measured: float | None = None
    published: float | None = None


@dataclass(frozen=True, slots=True)
class Intervals:
    """Variants in their order, then other code."""

    lines: tuple[Interval, ...]

    def table(self) -> Table:
        rows = [(item.name, item.low, item.predicted, item.high, item.measured, item.published) for item in self.lines]
        return Table(COLUMNS, tuple(rows))


def intervals(comparison: Comparison) -> Intervals:
    """What is known about the time of every variant, and of other code on the same shape and device."""
    lines = [
        Interval(
            item.label,
            item.row.predicted_low_us,
            item.time_us,
            item.row.predicted_high_us,
            item.row.measured_us,
            item.row.published_us,
        )
        for item in comparison.variants
    ]
    return Intervals((*lines, *(Interval(name, published=time_us) for name, time_us in comparison.elsewhere)))


def picture(comparison: Comparison) -> Picture:
    """The picture."""
    from wavecast.cli.plots.drawing import draw_intervals

    found = intervals(comparison)
    return Picture(NAME, found.table(), partial(draw_intervals, comparison, found))
