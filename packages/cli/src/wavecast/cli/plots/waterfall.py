"""Which mechanism makes the baseline slower than the best variant, and by how many µs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import fsum

from wavecast.cli.plots.comparison import Comparison, Variant
from wavecast.cli.plots.mechanisms import mechanism
from wavecast.cli.plots.picture import Cell, Picture, Table
from wavecast.cli.plots.shapley import Combine, exchange_gains, paired

NAME = "waterfall"
COLUMNS = ("step", "terms", "start_us", "end_us", "change_us", "counted", "count_before", "count_after")
# Steps of less than this part of the longer time are drawn as one.
SMALL_STEP = 0.01


@dataclass(frozen=True, slots=True)
class Step:
    """One bar.

    Attributes:
        label: Mechanism.
        terms: The terms of the time that it stands for.
        start_us: Time before the step.
        end_us: Time after it.
        unit: What is counted; empty if nothing.
        before: Count in the baseline.
        after: Count in the best variant.
    """

    label: str
    terms: tuple[str, ...]
    start_us: float
    end_us: float
    unit: str = ""
    before: float | None = None
    after: float | None = None

    @property
    def change_us(self) -> float:
        return self.end_us - self.start_us


@dataclass(frozen=True, slots=True)
class Waterfall:
    """From the baseline to the best variant.

    Attributes:
        baseline: Where it starts.
        best: Where it ends.
        steps: In between, the largest gain first, each from where the one before ends.
    """

    baseline: Variant
    best: Variant
    steps: tuple[Step, ...]

    def table(self) -> Table:
        ends: list[dict[str, Cell]] = [
            {"step": item.label, "start_us": 0.0, "end_us": item.time_us, "change_us": item.time_us}
            for item in (self.baseline, self.best)
        ]
        steps: list[dict[str, Cell]] = [
            {
                "step": item.label,
                "terms": "+".join(item.terms),
                "start_us": item.start_us,
                "end_us": item.end_us,
                "change_us": item.change_us,
                "counted": item.unit or None,
                "count_before": item.before,
                "count_after": item.after,
            }
            for item in self.steps
        ]
        return Table.of(COLUMNS, [ends[0], *steps, ends[1]])


def waterfall(comparison: Comparison, combine: Combine) -> Waterfall | str:
    """The waterfall from the baseline to the fastest other variant, or why there is none.

    Launches are paired as ``paired`` says; the terms of each pair are exchanged, and each gain is the mean over all
    orders of exchanging them. A launch without a partner is exchanged for one that takes no time.

    Args:
        comparison: The variants.
        combine: From the terms of a launch to its time.
    """
    baseline, best = comparison.baseline, comparison.best
    if best is None:
        return "there is one variant only"
    if baseline is None:
        return "the baseline was not predicted"
    if not baseline.prediction.launches or not best.prediction.launches:
        return "the terms of the times are not known"
    gains: Counter[str] = Counter()
    for before, after in paired(baseline.prediction.launches, best.prediction.launches):
        old, new = before.terms if before else {}, after.terms if after else {}
        empty = dict.fromkeys([*old, *new], 0.0)
        gains.update(exchange_gains({**empty, **old}, {**empty, **new}, combine))
    if not any(gains.values()):
        return f"the terms of {baseline.name} and {best.name} are the same"
    return Waterfall(baseline, best, _steps(gains, baseline, best))


def _steps(gains: Counter[str], baseline: Variant, best: Variant) -> tuple[Step, ...]:
    threshold = SMALL_STEP * max(baseline.time_us, best.time_us)
    order = sorted((name for name in gains if gains[name]), key=lambda name: -gains[name])
    small = tuple(name for name in order if abs(gains[name]) < threshold)
    if len(small) == 1:
        small = ()
    steps, now = [], baseline.time_us
    for name in (name for name in order if name not in small):
        found = mechanism(name)
        totals = [found.total(variant.prediction.launches) for variant in (baseline, best)]
        steps.append(Step(found.label, (name,), now, now - gains[name], found.unit, *totals))
        now -= gains[name]
    if small:
        steps.append(
            Step(
                f"{len(small)} others, each below {100 * SMALL_STEP:.0f} %",
                small,
                now,
                now - fsum(gains[name] for name in small),
            )
        )
    return tuple(steps)


def picture(comparison: Comparison, combine: Combine) -> Picture | str:
    """The picture, or why there is none."""
    from wavecast.cli.plots.drawing import draw_waterfall

    found = waterfall(comparison, combine)
    return found if isinstance(found, str) else Picture(NAME, found.table(), partial(draw_waterfall, comparison, found))
