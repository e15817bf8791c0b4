"""What the streams of the slowest GPU do when, a panel a variant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.picture import Picture, Table
from wavecast.cli.timeline import Bar, Timeline

NAME = "timeline"
COLUMNS = (
    "variant", "gpu", "stream", "queue", "kind", "name", "ready_us", "start_us", "end_us", "waited_us", "compute_units",
    "bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """One variant.

    Attributes:
        label: Key and name of the variant.
        timeline: What it did.
    """

    label: str
    timeline: Timeline

    @property
    def bars(self) -> tuple[Bar, ...]:
        """Bars of the GPU that ended last."""
        return tuple(bar for bar in self.timeline.bars if bar.rank == self.timeline.slowest)

    @property
    def streams(self) -> tuple[str, ...]:
        """Its streams, by first appearance."""
        return tuple(dict.fromkeys(bar.stream for bar in self.bars))


def picture(comparison: Comparison) -> Picture | str:
    """The picture, or why there is none."""
    from wavecast.cli.plots.drawing import draw_gantt

    panels = [
        Panel(item.label, item.prediction.timeline)
        for item in comparison.variants
        if item.prediction.timeline is not None
    ]
    if not panels:
        return "kernels of one GPU have no timeline of streams"
    rows = [
        (
            panel.label, bar.rank, bar.stream, bar.queue, bar.kind, bar.name, bar.ready_us, bar.start_us, bar.end_us,
            bar.waited_us, bar.units, bar.size_bytes,
        )
        for panel in panels
        for bar in panel.timeline.bars
    ]  # fmt: skip
    return Picture(NAME, Table(COLUMNS, tuple(rows)), partial(draw_gantt, comparison, panels))
