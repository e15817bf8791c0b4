"""Traffic as stacked bars, a group for every level."""

from __future__ import annotations

from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wavecast.cli.output import significant
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import DARK, LIGHT, MIDDLE, add_key, new_figure, style
from wavecast.cli.plots.traffic import LEVELS, TrafficByLevel

TITLES = {"asked": "asked for by lanes", "l2": "L2", "mall": "Infinity Cache", "hbm": "HBM"}
PARTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"facecolor": DARK, "hatch": ""}),
    ("write", {"facecolor": LIGHT, "hatch": "////"}),
    ("atomic", {"facecolor": MIDDLE, "hatch": "xxx"}),
)
# From so many bars in a group on there is no room for figures beside one another.
UPRIGHT = 5
# Of the lines of different minima: no experiment has more.
DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2))
RATIO: dict[str, Any] = {
    "textcoords": "offset points",
    "ha": "center",
    "va": "bottom",
    "fontsize": 7,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6},
}


def draw_traffic(comparison: Comparison, traffic: TrafficByLevel) -> Figure:
    """Reads and writes of every variant at every level, the minimum as a line, the ratio to it over each bar."""
    variants = comparison.variants
    width = 0.8 / len(variants)
    upright = len(variants) >= UPRIGHT
    what = (
        "Bytes that move at each level of the memory system. Over a bar: how many times the minimum, which is inputs "
        "once and outputs once."
    )
    with style():
        figure, axes = new_figure(comparison, what=what, height_in=3.4)
        ticks, letters = [], []
        for bar in traffic.bars:
            number = next(index for index, item in enumerate(variants) if item is bar.variant)
            x = LEVELS.index(bar.level) + (number - (len(variants) - 1) / 2) * width
            bottom = 0.0
            for part, look in PARTS:
                size = getattr(bar, part) / 1e6
                if size:
                    axes.bar(x, size, 0.86 * width, bottom=bottom, edgecolor="black", linewidth=0.6, **look)
                bottom += size
            ticks.append(x)
            letters.append(bar.variant.key)
            if bar.times_minimum is not None:
                axes.annotate(_ratio(bar.times_minimum), (x, bottom), (0, 3), **RATIO, rotation=90 * upright)
        axes.set_xticks(ticks, letters)
        axes.tick_params(axis="x", length=0)
        groups = axes.secondary_xaxis("bottom")
        groups.set_xticks(range(len(LEVELS)), [TITLES[level] for level in LEVELS])
        groups.tick_params(length=0, pad=22)
        groups.spines["bottom"].set_visible(False)
        minima = _minima(comparison)
        for minimum, dashes in zip(minima, DASHES, strict=False):
            axes.axhline(minimum / 1e6, color="black", linewidth=1.1, linestyle=(0, dashes), zorder=0.9)
        axes.set_ylabel("MB (10⁶ bytes)")
        axes.yaxis.set_major_formatter("{x:,.12g}")
        axes.margins(y=0.14 if upright else 0.08)
        axes.grid(axis="y", color="0.9")
        shown = [part for part in PARTS if any(getattr(bar, part[0]) for bar in traffic.bars)]
        handles: list[Artist] = [
            Patch(edgecolor="black", linewidth=0.6, label=name, facecolor=look["facecolor"], hatch=look["hatch"])
            for name, look in shown
        ]
        for (minimum, names), dashes in zip(minima.items(), DASHES, strict=False):
            label = f"minimum{' of ' + ', '.join(names) if len(minima) > 1 else ''}: {significant(minimum / 1e6)} MB"
            handles.append(Line2D([], [], color="black", linestyle=(0, dashes), label=label))
        keys = [
            Line2D([], [], linestyle="", label=f"{comparison.described(item)}, {significant(item.time_us)} µs")
            for item in variants
        ]
        add_key(figure, comparison, [handles, keys])
        return figure


def _minima(comparison: Comparison) -> dict[int, list[str]]:
    """Minimum bytes to the keys of the variants that have them: those called with other types have others."""
    minima: dict[int, list[str]] = {}
    for item in comparison.variants:
        if item.row.minimum_bytes:
            minima.setdefault(item.row.minimum_bytes, []).append(item.key)
    return minima


def _ratio(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{significant(value)}×"
