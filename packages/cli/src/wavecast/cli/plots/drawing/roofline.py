"""The roofline on logarithmic axes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wavecast.cli.output import significant
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import add_key, new_figure, plain_log_ticks, right_labels, style
from wavecast.cli.plots.roofline import Ceiling, Point, Roofline

LINES = {"hbm": ("black", "solid"), "mall": ("0.45", "dashed"), "l2": ("0.45", "dashdot")}
# Size and face.
MARKS = {"hbm": (5, "black"), "mall": (8.5, "0.7"), "l2": (12, "white")}
LEVEL_NAMES = {"hbm": "HBM", "mall": "Infinity Cache", "l2": "L2"}
MARKERS = "osD^vPX*<>hd"
MARGIN = 3.0


def draw_roofline(comparison: Comparison, roofline: Roofline) -> Figure:
    """Bandwidths as slopes, rates as levels, every variant with a mark for each level of the memory system."""
    what = (
        "A mark stands at the operations a byte of one level: the nearer to the line of that level, the more that "
        "level bounds it. Up is more operations a second, which is faster only where variants execute equally many."
    )
    with style():
        figure, axes = new_figure(comparison, what=what, height_in=3.9)
        _draw_ceilings(axes, roofline)
        handles = [
            Line2D([], [], color=color, linestyle=line, label=f"{item.label}: {item.value:.3g} TB/s")
            for item in roofline.bandwidths
            for color, line in [LINES[item.level]]
        ]
        levels = [_mark(level, "o", label=f"mark of {LEVEL_NAMES[level]}") for level in LINES]
        names = []
        for variant, marker in zip(comparison.variants, _markers(len(comparison.variants)), strict=True):
            own = [point for point in roofline.points if point.variant is variant]
            places = [(point.intensity, point.rate) for point in own]
            axes.plot(*zip(*places, strict=True) if places else ([], []), color="0.3", linewidth=0.8, zorder=3)
            for point in own:
                axes.add_line(_mark(point.level, marker, at=point))
            label = f"{variant.label}, {significant(variant.time_us)} µs"
            names.append(Line2D([], [], linestyle="", marker=marker, color="0.3", label=label))
        axes.set_xlabel("executed operations (matrix FLOP + lane operations of vector instructions) a byte")
        axes.set_ylabel("Top/s (10¹² operations a second)")
        axes.grid(color="0.92", which="major")
        add_key(figure, comparison, [handles, levels, names])
        return figure


def _mark(level: str, marker: str, *, at: Point | None = None, label: str = "") -> Line2D:
    """The mark of a point, or one for the key. Marks of one variant may coincide, so their sizes differ."""
    x, y = ([at.intensity], [at.rate]) if at else ([], [])
    size, face = MARKS[level]
    look = Line2D(x, y, linestyle="", marker=marker, markersize=size, label=label)
    look.set(markerfacecolor=face, markeredgecolor="black", zorder=5 - size / 10)
    return look


def _markers(number: int) -> list[str]:
    return [MARKERS[index % len(MARKERS)] for index in range(number)]


def _draw_ceilings(axes: Axes, roofline: Roofline) -> None:
    top = max(item.value for item in roofline.rates)
    intensities = [point.intensity for point in roofline.points]
    ridge = top / min(item.value for item in roofline.bandwidths)
    left, right = min(intensities) / MARGIN, max(ridge, *intensities) * MARGIN
    low = min(point.rate for point in roofline.points) / MARGIN
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, top * 2))
    plain_log_ticks(axes.xaxis, right / left)
    plain_log_ticks(axes.yaxis, top * 2 / low)
    for item in roofline.bandwidths:
        color, line = LINES[item.level]
        # Top/s over op/B is TB/s.
        end = top / item.value
        axes.plot([left, end], [left * item.value, top], color=color, linestyle=line, linewidth=1.3, zorder=2)
    fastest = max(item.value for item in roofline.bandwidths)
    for item in roofline.rates:
        axes.plot([item.value / fastest, right], [item.value] * 2, color="0.25", linewidth=1.0, linestyle="dotted")
    right_labels(axes, [_rate(item) for item in roofline.rates], [item.value for item in roofline.rates])


def _rate(ceiling: Ceiling) -> str:
    return f"{ceiling.label}: {significant(ceiling.value)}"
