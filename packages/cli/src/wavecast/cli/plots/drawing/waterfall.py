"""A waterfall of horizontal bars."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wavecast.cli.output import significant, times
from wavecast.cli.plots.comparison import Comparison
from wavecast.cli.plots.drawing.style import DARK, GAIN, LOSS, add_key, new_figure, right_labels, style
from wavecast.cli.plots.picture import amount, count
from wavecast.cli.plots.waterfall import Step, Waterfall

HOW = (
    "Each bar is what one mechanism gains (to the left) or costs (to the right): the mean over all orders of "
    "exchanging the terms of one time for those of the other (Shapley value), so the bars add up to the difference."
)


def draw_waterfall(comparison: Comparison, waterfall: Waterfall) -> Figure:
    """The baseline on top, a bar for every step, the best variant at the bottom."""
    ends, steps = (waterfall.baseline, waterfall.best), waterfall.steps
    last = len(steps) + 1
    ratio = times(ends[0].time_us / ends[1].time_us)
    what = f"Where {ends[1].name} is {ratio} as fast as {ends[0].name}. {HOW}"
    with style():
        figure, axes = new_figure(comparison, what=what, height_in=1.0 + 0.42 * (last + 1))
        for position, end in zip((0, last), ends, strict=True):
            axes.barh(position, end.time_us, height=0.6, color=DARK)
        for position, step in enumerate(steps, start=1):
            axes.barh(position, step.change_us, left=step.start_us, height=0.6, **_look(step.change_us))
        for position, level in enumerate([ends[0].time_us, *(step.end_us for step in steps)]):
            axes.plot([level, level], [position + 0.3, position + 0.7], color="0.4", linewidth=0.8)
        names = [comparison.described(end) for end in ends]
        axes.set_yticks(range(last + 1), [names[0], *map(_label, steps), names[1]])
        axes.set_ylim(last + 0.6, -0.6)
        axes.set_xlim(0, 1.04 * max(ends[0].time_us, ends[1].time_us, *(step.end_us for step in steps)))
        axes.xaxis.set_major_formatter("{x:,.12g}")
        axes.set_xlabel("time of all launches, µs")
        axes.grid(axis="x", color="0.85")
        totals = [f"{significant(end.time_us)} µs" for end in ends]
        right_labels(axes, [totals[0], *map(_change, steps), totals[1]], list(range(last + 1)))
        handles = [Patch(facecolor=DARK, label="time of a variant"), Patch(**_look(-1.0), label="gain")]
        if any(step.change_us > 0 for step in steps):
            handles.append(Patch(**_look(1.0), label="cost"))
        add_key(figure, comparison, [[handle] for handle in handles])
        return figure


def _look(change_us: float) -> dict[str, Any]:
    own = {"facecolor": GAIN} if change_us <= 0 else {"facecolor": LOSS, "hatch": "////"}
    return {**own, "edgecolor": "black", "linewidth": 0.6}


def _label(step: Step) -> str:
    if step.before is None or step.after is None:
        return step.label
    before = amount(step.before, "B") if step.unit.startswith("B") else count(step.before)
    return f"{step.label}\n{before} → {amount(step.after, step.unit)}"


def _change(step: Step) -> str:
    sign = "−" if step.change_us <= 0 else "+"
    return f"{sign}{significant(abs(step.change_us))} µs"
