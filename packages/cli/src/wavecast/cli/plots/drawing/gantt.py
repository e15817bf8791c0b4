"""Streams as lines of bars over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wavecast.cli.output import significant, times
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import DARK, LIGHT, MIDDLE, PALE, add_key, panel_figure, right_labels, style
from wavecast.cli.plots.gantt import Panel
from wavecast.cli.timeline import Bar

LOOKS: dict[str, dict[str, Any]] = {
    "product": {"facecolor": DARK, "edgecolor": "white"},
    "collective": {"facecolor": MIDDLE, "edgecolor": "white"},
    "transfer": {"facecolor": LIGHT, "edgecolor": "white"},
    "local": {"facecolor": PALE, "edgecolor": "0.35", "hatch": "////"},
    "signal": {"facecolor": "black", "edgecolor": "black"},
    "wait": {"facecolor": "white", "edgecolor": "0.6", "linestyle": ":"},
}
NAMES = {
    "product": "product",
    "collective": "collective",
    "transfer": "copy between GPUs",
    "local": "copy within the GPU, other kernel",
    "signal": "barrier, signal",
    "wait": "wait",
}
TEXT_SHARE = 0.05  # of the axis that a bar must take to carry its time
WAIT_SHARE = 0.05  # of a product's time that waits must take to be written
LINE_IN = 0.26


def draw_gantt(comparison: Comparison, panels: Sequence[Panel]) -> Figure:
    """A panel for every variant, a line for every stream, on one axis of time."""
    what = (
        "What the streams of the GPU that ends last do when; GPUs start together. Dotted: a wait for an event or a "
        "signal, or an operation whose turn has come and that waits for compute units or a copy engine. Numbers: µs; "
        "of a product also what its workgroups wait for chunks, on average. On the right: the hardware queue that "
        "starts what a stream has enqueued; what is in the kernel, workgroups of the product do themselves."
    )
    end_us = max(panel.timeline.total_us for panel in panels)
    with style():
        heights = [len(panel.streams) for panel in panels]
        figure, axes = panel_figure(comparison, what=what, heights_in=[0.34 + LINE_IN * count for count in heights])
        for place, (panel, area) in enumerate(zip(panels, axes, strict=True)):
            _panel(area, panel, panels[0], end_us)
            area.set_xlim(0, 1.01 * end_us)
            area.tick_params(labelbottom=place == len(panels) - 1)
            area.grid(axis="x", color="0.85")
        axes[-1].set_xlabel("time, µs")
        axes[-1].xaxis.set_major_formatter("{x:,.12g}")
        shown = [kind for kind in LOOKS if any(bar.kind == kind for panel in panels for bar in panel.bars)]
        patches = [Patch(label=NAMES[kind], linewidth=0.6, **LOOKS[kind]) for kind in shown]
        add_key(figure, comparison, [patches])
        return figure


def _panel(area: Axes, panel: Panel, first: Panel, end_us: float) -> None:
    streams, total_us = panel.streams, panel.timeline.total_us
    title = f"{panel.label}: {significant(total_us)} µs"
    if panel is not first:
        title += f", {times(first.timeline.total_us / total_us)} the speed of {first.label.partition(' ')[0]}"
    area.set_title(title, loc="left", fontsize=9)
    for bar in panel.bars:
        line = streams.index(bar.stream)
        if bar.start_us - bar.ready_us > 1e-9 and bar.kind != "signal":
            area.barh(line, bar.start_us - bar.ready_us, left=bar.ready_us, height=0.5, linewidth=0.6, **LOOKS["wait"])
        height = 0.5 if bar.kind == "wait" else 0.7
        area.barh(line, bar.end_us - bar.start_us, left=bar.start_us, height=height, linewidth=0.6, **LOOKS[bar.kind])
        if bar.end_us - bar.start_us > TEXT_SHARE * end_us and bar.kind not in ("signal", "wait"):
            _label(area, bar, line)
    area.set_yticks(range(len(streams)), streams)
    area.set_ylim(len(streams) - 0.4, -0.6)
    right_labels(area, [_queue(panel, stream) for stream in streams], list(range(len(streams))))


def _label(area: Axes, bar: Bar, line: int) -> None:
    light, taken_us = bar.kind in ("transfer", "local"), bar.end_us - bar.start_us
    text = significant(taken_us)
    if bar.waited_us > WAIT_SHARE * taken_us:
        text += f", {significant(bar.waited_us)} waiting"
    area.text(
        (bar.start_us + bar.end_us) / 2, line, text, ha="center", va="center", fontsize=7,
        color="black" if light else "white",
    )  # fmt: skip


def _queue(panel: Panel, stream: str) -> str:
    queue = next(bar.queue for bar in panel.bars if bar.stream == stream)
    return f"queue {queue}" if queue >= 0 else "in the kernel"
