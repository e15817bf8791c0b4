"""What all figures share: size, type, shades that differ in greyscale, files with the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill

import matplotlib as mpl
import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from wavecast.cli.plots.comparison import Comparison

WIDTH_IN = 8.0
DPI = 110
LINE_IN = 0.18  # height of a line of text
KEY_MARK_IN = 0.55  # an entry of the key, besides its text
CHARACTER_IN = 0.06  # of the key
CHARACTERS = 112  # of a line of text in a figure
DARK, MIDDLE, LIGHT, PALE = "#1f3b5c", "#5f86ad", "#a9c4de", "#e4ebf2"
SHORT_SPAN = 150.0
GAIN, LOSS = "#5f86ad", "#f4b58e"
# User settings must not change a file, and no font or time of the machine may enter it.
SETTINGS = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "svg.hashsalt": "wavecast",
    "svg.fonttype": "path",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.6,
    "path.simplify": False,
}


@contextmanager
def style() -> Iterator[None]:
    """The settings of every figure, for as long as it is made or written."""
    with mpl.style.context("default"), mpl.rc_context(SETTINGS):
        yield


def new_figure(comparison: Comparison, *, what: str, height_in: float) -> tuple[Figure, Axes]:
    """A figure with its title and what it shows.

    Args:
        comparison: What is compared.
        what: What the picture shows and how to read it.
        height_in: Height of the axes with their labels; the text above adds to it.
    """
    figure = _titled(comparison, what=what, height_in=height_in)
    return figure, figure.subplots()


def panel_figure(comparison: Comparison, *, what: str, heights_in: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """A figure of several panels, one below the other.

    Args:
        comparison: What is compared.
        what: As of ``new_figure``.
        heights_in: Height of each panel with its labels.
    """
    figure = _titled(comparison, what=what, height_in=0.3 + sum(heights_in))
    axes = figure.subplots(len(heights_in), squeeze=False, gridspec_kw={"height_ratios": heights_in})
    return figure, list(axes[:, 0])


def _titled(comparison: Comparison, *, what: str, height_in: float) -> Figure:
    text = fill(what, CHARACTERS)
    figure = Figure(figsize=(WIDTH_IN, height_in + LINE_IN * (3 + text.count("\n"))), layout="constrained", dpi=DPI)
    figure.suptitle(f"{comparison.title}\n{text}", x=0.01, ha="left", fontsize=9, linespacing=1.3)
    return figure


def add_key(figure: Figure, comparison: Comparison, groups: Sequence[Sequence[Artist]]) -> None:
    """What the numbers depend on, and a key, below the axes; the figure grows by its height.

    Args:
        figure: The figure.
        comparison: What is compared.
        groups: Entries that stand in a column of their own; a long group takes several.
    """
    rows = max(len(group) for group in groups[:-1]) if len(groups) > 1 else 1
    while _key_in(columns := _key_columns(groups, rows)) > WIDTH_IN and rows < sum(map(len, groups)):
        rows += 1
    blank = Line2D([], [], linestyle="", label=" ")
    handles = [handle for column in columns for handle in [*column, *[blank] * (rows - len(column))]]
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LINE_IN * (rows + 2))
    figure.legend(
        handles=handles,
        ncols=len(columns),
        loc="outside lower left",
        frameon=False,
        fontsize=8,
        title=comparison.origin,
        title_fontproperties={"size": 7},
        alignment="left",
    )


def _key_columns(groups: Sequence[Sequence[Artist]], rows: int) -> list[list[Artist]]:
    """The entries of a key by column, none with more than ``rows``."""
    return [list(group[start : start + rows]) for group in groups for start in range(0, len(group), rows)]


def _key_in(columns: Sequence[Sequence[Artist]]) -> float:
    """Width of a key in inches, nearly."""
    longest = [max(len(str(handle.get_label())) for handle in column) for column in columns]
    return sum(KEY_MARK_IN + CHARACTER_IN * length for length in longest)


def right_labels(axes: Axes, texts: Sequence[str], positions: Sequence[float]) -> None:
    """Texts at the right edge of the axes, where nothing of the picture can be under them."""
    side = axes.secondary_yaxis("right")
    side.set_yticks(positions, texts)
    side.tick_params(length=0, pad=6)
    side.minorticks_off()
    side.spines["right"].set_visible(False)


def plain_log_ticks(axis: Axis, span: float) -> None:
    """Ticks of a logarithmic axis as plain numbers.

    Args:
        axis: The axis.
        span: Its upper end over its lower end: a short one has ticks within a decade, too.
    """
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < SHORT_SPAN else (1,), numticks=12))
    axis.set_major_formatter("{x:,.12g}")
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the ending of the path says how."""
    metadata = {".svg": {"Date": None, "Creator": "Wavecast"}, ".png": {"Software": "Wavecast"}}
    with style():
        figure.savefig(path, dpi=DPI, metadata=metadata[path.suffix])
