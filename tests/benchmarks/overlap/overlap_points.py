"""A predicted figure beside a measured one, and what a list of them says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True, slots=True)
class Point:
    """One figure.

    Attributes:
        group: What it belongs to.
        label: Which row.
        measured: µs, GB/s or a ratio.
        predicted: In the same unit.
        fitted: Whether a constant of a device file comes from this row.
    """

    group: str
    label: str
    measured: float
    predicted: float
    fitted: bool = False

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def summary(points: Iterable[Point]) -> tuple[str, ...]:
    """Number, median, mean and worst absolute error, and the median with its sign; fitted rows do not count."""
    errors = [point.error for point in points if not point.fitted]
    sizes = sorted(abs(error) for error in errors)
    return (
        str(len(sizes)),
        f"{100 * median(sizes):.1f} %",
        f"{100 * fmean(sizes):.1f} %",
        f"{100 * sizes[-1]:.1f} %",
        f"{100 * median(errors):+.1f} %",
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def rows_of(points: Iterable[Point], *, digits: int = 1) -> list[tuple[str, ...]]:
    """Rows of label, measured, predicted, error."""
    return [
        (
            point.label + (" (fitted)" if point.fitted else ""),
            f"{point.measured:,.{digits}f}",
            f"{point.predicted:,.{digits}f}",
            f"{100 * point.error:+.1f} %",
        )
        for point in points
    ]
