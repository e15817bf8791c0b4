"""Intervals as horizontal bars."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wavecast.cli.output import significant
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import DARK, LIGHT, add_key, new_figure, plain_log_ticks, right_labels, style
from wavecast.cli.plots.intervals import Interval, Intervals

# Times that are further apart than this need a logarithmic axis.
LINEAR_RATIO = 12
MARKS: dict[str, dict[str, Any]] = {
    "predicted": {"marker": "|", "color": DARK, "markersize": 15, "markeredgewidth": 3},
    "measured": {"marker": "x", "color": "black", "markersize": 8, "markeredgewidth": 2},
    "published": {"marker": "D", "color": "black", "markerfacecolor": "white", "markersize": 7, "markeredgewidth": 1.3},
}


def draw_intervals(comparison: Comparison, intervals: Intervals) -> Figure:
    """A line for every variant: the interval as a bar, and marks for what was predicted, measured and published."""
    lines = intervals.lines
    positions = range(len(lines))
    reported = any(line.measured is not None or line.published is not None for line in lines)
    what = "Predicted time, and the interval that the uncertain constants of the device give it"
    what += "; beside them times that others report." if reported else "."
    with style():
        figure, axes = new_figure(comparison, what=what, height_in=1.0 + 0.42 * len(lines))
        for position, line in zip(positions, lines, strict=True):
            if line.low is not None and line.high is not None:
                axes.barh(position, line.high - line.low, left=line.low, height=0.5, color=LIGHT, edgecolor=DARK)
            for name, mark in MARKS.items():
                value = getattr(line, name)
                if value is not None:
                    axes.plot([value], [position], linestyle="", label=name, **mark)
        axes.set_yticks(positions, [line.name for line in lines])
        axes.set_ylim(len(lines) - 0.4, -0.6)
        _set_scale(axes, [value for line in lines for value in _values(line)])
        axes.set_xlabel("time, µs")
        axes.grid(axis="x", color="0.85")
        right_labels(axes, [_summary(line) for line in lines], list(positions))
        shown = [name for name in MARKS if any(getattr(line, name) is not None for line in lines)]
        marks = [Line2D([], [], linestyle="", label=name, **{**MARKS[name], "markersize": 8}) for name in shown]
        interval = Patch(facecolor=LIGHT, edgecolor=DARK, label="interval")
        add_key(figure, comparison, [[interval], *([mark] for mark in marks)])
        return figure


def _values(line: Interval) -> list[float]:
    values = (line.low, line.predicted, line.high, line.measured, line.published)
    return [value for value in values if value is not None]


def _set_scale(axes: Axes, values: list[float]) -> None:
    if max(values) <= LINEAR_RATIO * min(values):
        axes.set_xlim(0, 1.05 * max(values))
        axes.xaxis.set_major_formatter("{x:,.12g}")
        return
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 1.25, max(values) * 1.25)
    plain_log_ticks(axes.xaxis, 1.25**2 * max(values) / min(values))


def _summary(line: Interval) -> str:
    parts = []
    if line.predicted is not None:
        parts.append(f"{significant(line.predicted)} ({significant(line.low)}–{significant(line.high)}) µs")
    if line.measured is not None:
        parts.append(f"measured {significant(line.measured)} µs")
    if line.published is not None:
        parts.append(f"published {significant(line.published)} µs")
    return "\n".join(parts)
