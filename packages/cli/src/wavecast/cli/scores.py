"""How far predictions lie from measured times."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Point:
    """One measured time with its prediction.

    Attributes:
        dataset: Where the time was published, ``mi300a``.
        benchmark: Name there, ``vectoradd``.
        label: Size and parameters, ``1024``.
        measured_us: The measured time, above 0.
        predicted_us: The predicted time.
        low_us: Lower end of the prediction's interval.
        high_us: Upper end.
    """

    dataset: str
    benchmark: str
    label: str
    measured_us: float
    predicted_us: float
    low_us: float
    high_us: float

    def __post_init__(self) -> None:
        where = f"{self.dataset}, {self.benchmark} {self.label}"
        values = (self.measured_us, self.predicted_us, self.low_us, self.high_us)
        if not all(math.isfinite(value) and value > 0 for value in values):
            raise ValueError(f"{where}: times must be finite and above 0, got {values}")
        if not self.low_us <= self.predicted_us <= self.high_us:
            raise ValueError(f"{where}: {self.predicted_us} µs is outside its interval {self.low_us}…{self.high_us} µs")

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_us / self.measured_us - 1

    @property
    def is_covered(self) -> bool:
        """Whether the interval contains the measured time."""
        return self.low_us <= self.measured_us <= self.high_us

    @property
    def width(self) -> float:
        """Upper over lower end of the interval."""
        return self.high_us / self.low_us


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of a set of points; fractions, not percent.

    Attributes:
        count: Points.
        median: Of the absolute errors.
        p90: Of the absolute errors, interpolated linearly.
        worst: The largest absolute error.
        bias: Median of the errors with their sign: below 0 where predictions are too short.
        wmape: Sum of the absolute differences over the sum of the measured times.
        coverage: Share of the points whose interval contains the measured time.
        width: Median of upper over lower end of the interval.
    """

    count: int
    median: float
    p90: float
    worst: float
    bias: float
    wmape: float
    coverage: float
    width: float


def score(points: Sequence[Point]) -> Score:
    """The score of at least one point.

    Raises:
        ValueError: without points.
    """
    if not points:
        raise ValueError("no points to score; wanted at least one")
    errors = np.array([point.error for point in points])
    measured = np.array([point.measured_us for point in points])
    differences = np.array([point.predicted_us - point.measured_us for point in points])
    return Score(
        count=len(points),
        median=float(np.median(np.abs(errors))),
        p90=float(np.percentile(np.abs(errors), 90)),
        worst=float(np.abs(errors).max()),
        bias=float(np.median(errors)),
        wmape=float(np.abs(differences).sum() / measured.sum()),
        coverage=float(np.mean([point.is_covered for point in points])),
        width=float(np.median([point.width for point in points])),
    )


def score_by(points: Iterable[Point], key: Callable[[Point], str]) -> dict[str, Score]:
    """A score for each group of points, in the order in which the groups appear."""
    groups: defaultdict[str, list[Point]] = defaultdict(list)
    for point in points:
        groups[key(point)].append(point)
    return {name: score(group) for name, group in groups.items()}
