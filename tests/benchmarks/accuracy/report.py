"""Results as tables: on a terminal, as Markdown between the marks of a page, and as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from calibrate import Fold
from micro import Check
from price import Priced
from published import NEAR, WIDEST, Published, is_reached

from wavecast.cli.scores import Point, Score, score, score_by

SCHEMA = "wavecast.accuracy/1"
_BEGIN, _END = "<!-- table {name} -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text.

    Attributes:
        name: What a page's mark calls it.
        title: Over the table.
        head: Names of the columns.
        rows: Text by row and column.
    """

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """A data set with its predictions.

    Attributes:
        name: ``mi300a``; ``test`` for programs that the user brought.
        priced: With the device file's constants.
        plain: The same programs with published values in place of fitted ones; empty if nothing is fitted.
        left_out: Each benchmark with constants fitted without it; empty likewise.
        folds: The fits.
    """

    name: str
    priced: tuple[Priced, ...]
    plain: tuple[Point, ...] = ()
    left_out: tuple[Point, ...] = ()
    folds: tuple[Fold, ...] = ()

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(entry.point for entry in self.priced)


def significant(value: float) -> str:
    """Three significant digits, no exponent."""
    decimals = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    return f"{value:,.{decimals}f}"


def percent(value: float, *, sign: bool = False) -> str:
    """A fraction in percent with one decimal."""
    return f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"


def score_table(scored: Scored) -> Table:
    """Scores by benchmark and of all, and of all without calibration and with each benchmark left out of the fit."""
    by_benchmark = score_by(scored.points, lambda point: point.benchmark)
    outside = {name: score(_of(scored.left_out, name)) for name in by_benchmark} if scored.left_out else {}
    head = ("benchmark", "rows", "median %", "p90 %", "worst %", "bias %", "WMAPE %", "inside %", "width")
    rows = [_score_cells(name, found) for name, found in by_benchmark.items()]
    rows.append(_score_cells("**all**", score(scored.points)))
    if outside:
        head = (*head, "left out: median %", "p90 %")
        rows = [
            (*row, percent(found.median), percent(found.p90))
            for row, found in zip(rows, [*outside.values(), score(scored.left_out)], strict=True)
        ]
    if scored.plain:
        found = score(scored.plain)
        rows.append((*_score_cells("without calibration", found), *(("", "") if outside else ())))
    return Table(scored.name, f"{scored.name}: errors of predicted times", head, tuple(rows))


def _of(points: Iterable[Point], benchmark: str) -> list[Point]:
    return [point for point in points if point.benchmark == benchmark]


def _score_cells(name: str, found: Score) -> tuple[str, ...]:
    errors = (percent(found.median), percent(found.p90), percent(found.worst), percent(found.bias, sign=True))
    return (name, str(found.count), *errors, percent(found.wmape), percent(found.coverage), f"{found.width:.2f}")


def worst_table(scored: Scored, *, count: int) -> Table:
    """The largest errors, with what the prediction consists of."""
    worst = sorted(scored.priced, key=lambda entry: -abs(entry.point.error))[:count]
    rows = tuple(
        (
            entry.point.benchmark,
            entry.point.label,
            significant(entry.point.measured_us),
            significant(entry.point.predicted_us),
            percent(entry.point.error, sign=True),
            str(entry.bound),
            _terms(entry),
        )
        for entry in worst
    )
    head = ("benchmark", "size", "measured µs", "predicted µs", "error %", "bound", "terms, µs")
    return Table(f"{scored.name}-worst", f"{scored.name}: the largest errors", head, rows)


def _terms(entry: Priced) -> str:
    shown = {str(name): us for name, us in entry.terms.items() if us > 0.05 * entry.point.predicted_us}
    if entry.host_us:
        shown["host"] = entry.host_us
    return ", ".join(f"{name} {significant(us)}" for name, us in sorted(shown.items(), key=lambda item: -item[1]))


def folds_table(scored: Scored) -> Table:
    """Fitted constants by the benchmark that is left out."""
    keys = tuple(scored.folds[0].constants)
    rows = tuple((fold.left_out, *(f"{fold.constants[key]:.3g}" for key in keys)) for fold in scored.folds)
    title = f"{scored.name}: constants fitted without a benchmark"
    return Table(f"{scored.name}-folds", title, ("left out", *keys), rows)


def checks_table(checks: Sequence[Check]) -> Table:
    """Constants of the device file beside what microbenchmarks say."""
    rows = tuple(
        (
            check.constant,
            f"{check.measured:.3g}",
            f"{check.value:g}",
            f"{check.low:g} – {check.high:g}",
            "yes" if check.is_inside else "no",
            check.how,
        )
        for check in checks
    )
    head = ("constant", "measured", "device file", "range", "inside", "from")
    return Table("micro", "mi300x: constants that microbenchmarks pin", head, rows)


def published_table(published: Published) -> Table:
    """Published times against predicted ones."""
    rows = tuple(
        (
            point.benchmark,
            point.label,
            significant(point.measured_us),
            significant(point.predicted_us),
            f"{significant(point.low_us)} – {significant(point.high_us)}",
            percent(point.error, sign=True),
            f"{point.width:.2f}",
            "yes" if point.is_covered else "no",
            "yes" if is_reached(point) else "no",
        )
        for point in published.points
    )
    head = (
        "experiment",
        "variant",
        "published µs",
        "predicted µs",
        "interval µs",
        "error %",
        "width",
        "inside",
        "reached",
    )
    title = f"published times, nothing fitted; met: within {NEAR:.0%}, or inside an interval of at most {WIDEST:g}"
    return Table("published", title, head, rows)


def speedups_table(published: Published) -> Table:
    """Published speedups against predicted ones."""
    rows = tuple(
        (
            entry.experiment,
            entry.label,
            f"{entry.published:.2f}",
            f"{entry.predicted:.2f}",
            percent(entry.error, sign=True),
        )
        for entry in published.speedups
    )
    return Table("speedups", "published speedups", ("experiment", "pair", "published", "predicted", "error %"), rows)


def print_table(table: Table) -> None:
    """Print on stdout, as wide as the content."""
    from rich.console import Console
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title, title_justify="left")
    for position, name in enumerate(table.head):
        is_text = all(not _is_number(row[position]) for row in table.rows)
        shown.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*(cell.replace("**", "") for cell in row))
    Console(width=200, highlight=False).print(shown)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+]?[\d.,]+", text))


def markdown(table: Table) -> str:
    """The table as Markdown, without its title."""
    lines = [table.head, tuple("---" for _ in table.head), *table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill_page(text: str, tables: Iterable[Table]) -> str:
    """The page with each table between its marks; a table that the page has no marks for is left out.

    Raises:
        ValueError: A mark is not closed.
    """
    for table in tables:
        begin = _BEGIN.format(name=table.name)
        if begin not in text:
            continue
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(_END)
        if not end:
            raise ValueError(f"the page has {begin!r} without {_END!r} after it")
        text = f"{before}{begin}\n{markdown(table)}\n{_END}{after}"
    return text


def update_page(path: Path, tables: Iterable[Table]) -> None:
    """Write the tables into the page."""
    path.write_text(fill_page(path.read_text(encoding="utf-8"), tables), encoding="utf-8")


def document(scored: Sequence[Scored], checks: Sequence[Check], published: Published | None) -> dict[str, Any]:
    """Everything as plain JSON data."""
    return {
        "schema": SCHEMA,
        "datasets": [
            {
                "name": entry.name,
                "points": [{**asdict(point), "error": point.error} for point in entry.points],
                "score": asdict(score(entry.points)),
                "scores": {
                    name: asdict(found) for name, found in score_by(entry.points, lambda point: point.benchmark).items()
                },
                "uncalibrated": asdict(score(entry.plain)) if entry.plain else None,
                "leave_one_benchmark_out": asdict(score(entry.left_out)) if entry.left_out else None,
                "folds": [{"left_out": fold.left_out, "constants": dict(fold.constants)} for fold in entry.folds],
            }
            for entry in scored
        ],
        "microbenchmarks": [{field.name: getattr(check, field.name) for field in fields(check)} for check in checks],
        "published": None
        if published is None
        else {
            "points": [{**asdict(point), "error": point.error} for point in published.points],
            "speedups": [{**asdict(entry), "error": entry.error} for entry in published.speedups],
            "failures": list(published.failures),
        },
    }
