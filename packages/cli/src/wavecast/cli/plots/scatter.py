"""Scatter of predicted against measured times, as PNG and SVG with the numbers beside them as CSV."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from wavecast.cli.scores import Point

_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#4a4a4a")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_FACTOR = 1.2
_SALT = "wavecast"


def write_scatter(points: Sequence[Point], folder: Path, *, name: str, title: str) -> tuple[Path, ...]:
    """Write ``name.png``, ``name.svg`` and ``name.csv``.

    Args:
        points: At least one.
        folder: Where; made if it does not exist.
        name: File name without its end.
        title: Above the picture.

    Returns:
        The three paths.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = _SALT
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(8, 7), layout="constrained")
    times = [value for point in points for value in (point.measured_us, point.predicted_us)]
    ends = (min(times) / 1.5, max(times) * 1.5)
    axes.fill_between(
        ends, [end / _FACTOR for end in ends], [end * _FACTOR for end in ends], color="#eeeeee", label="within 20 %"
    )
    axes.plot(ends, ends, color="#999999", linewidth=1)
    for position, benchmark in enumerate(dict.fromkeys(point.benchmark for point in points)):
        mine = [point for point in points if point.benchmark == benchmark]
        measured = [point.measured_us for point in mine]
        predicted = [point.predicted_us for point in mine]
        below = [point.predicted_us - point.low_us for point in mine]
        above = [point.high_us - point.predicted_us for point in mine]
        colour = _COLOURS[position % len(_COLOURS)]
        marker = _MARKERS[position // len(_COLOURS) % len(_MARKERS)]
        axes.errorbar(
            measured, predicted, yerr=(below, above), fmt=marker, color=colour, markersize=5, elinewidth=0.7,
            alpha=0.8, label=benchmark,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="measured, µs", ylabel="predicted, µs", title=title)
    axes.set_aspect("equal")
    axes.grid(which="major", color="#dddddd", linewidth=0.5)
    axes.legend(fontsize=8, loc="upper left")
    paths = tuple(folder / f"{name}.{end}" for end in ("png", "svg", "csv"))
    figure.savefig(paths[0], dpi=150)
    figure.savefig(paths[1], metadata={"Date": None})
    pyplot.close(figure)
    with paths[2].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [field.name for field in fields(Point)]
        writer.writerow([*names, "error"])
        writer.writerows([*(getattr(point, field) for field in names), point.error] for point in points)
    return paths
