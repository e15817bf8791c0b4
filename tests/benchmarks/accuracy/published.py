"""The project's own catalogue against the times that others published for the same code: nothing here is fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wavecast.cli.scores import Point

DATASET = "published"
# Widest interval, upper over lower end, that still counts as an answer where a constant cannot be known.
WIDEST = 2.5
NEAR = 0.2


@dataclass(frozen=True, slots=True)
class Speedup:
    """A published pair of variants on one shape.

    Attributes:
        experiment: Name in the catalogue.
        label: The two variants and the shape.
        published: Slower over faster time.
        predicted: The same from the predicted times.
    """

    experiment: str
    label: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1


@dataclass(frozen=True, slots=True)
class Published:
    """What the catalogue says about published times.

    Attributes:
        points: A point a published time.
        speedups: One a published pair.
        failures: What could not be predicted, and why.
    """

    points: tuple[Point, ...]
    speedups: tuple[Speedup, ...]
    failures: tuple[str, ...]


def is_reached(point: Point) -> bool:
    """Whether a published time is met: within a fifth, or inside an interval that is not too wide to mean anything."""
    return abs(point.error) <= NEAR or (point.is_covered and point.width <= WIDEST)


def predict_published(*, jobs: int, progress: Callable[[str], None]) -> Published:
    """Predict every variant and shape of the catalogue for which a time was published."""
    from wavecast.cli.experiments.catalogue import EXPERIMENTS
    from wavecast.cli.prediction import Case, predict_cases

    cases = []
    for experiment in EXPERIMENTS.values():
        for shape in experiment.shapes:
            for device in dict.fromkeys(entry.device for entry in experiment.published):
                has_time = [
                    name
                    for name in experiment.variants
                    if experiment.published_for(name, shape=shape, device=device) is not None
                ]
                if has_time:
                    cases.append(Case(experiment, shape, device, tuple(has_time)))
    points: list[Point] = []
    speedups: list[Speedup] = []
    failures: list[str] = []
    for case, outcome in zip(cases, predict_cases(cases, jobs=jobs, done=progress), strict=True):
        shape = ",".join(f"{key}={value}" for key, value in case.shape.items())
        failures += [f"{case.experiment.name} {shape}: {error}" for error in outcome.errors]
        found = [row for row in outcome.rows if None not in (row.predicted_us, row.published_us)]
        for row in found:
            times = (row.published_us, row.predicted_us, row.predicted_low_us, row.predicted_high_us)
            measured, predicted, low, high = (float(value or 0.0) for value in times)
            points.append(
                Point(DATASET, row.experiment, f"{row.variant} {shape} {row.device}", measured, predicted, low, high)
            )
        first = points[-len(found) :] if found else []
        for later in first[1:]:
            before = first[0]
            label = f"{before.label.split()[0]} / {later.label}"
            speedups.append(
                Speedup(
                    later.benchmark,
                    label,
                    before.measured_us / later.measured_us,
                    before.predicted_us / later.predicted_us,
                )
            )
    return Published(tuple(points), tuple(speedups), tuple(failures))
