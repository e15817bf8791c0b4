"""A picture: its data as a table, and how it is drawn."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """What a picture shows: every number in it is a cell, or is made of cells as the heading says.

    Attributes:
        columns: Names, with units where there are any.
        rows: Cells in the order of the columns; None where a column does not apply.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: tuple[str, ...], rows: Iterable[Mapping[str, Cell]]) -> Table:
        """The table of rows given by column; what a row does not name does not apply to it."""
        return cls(columns, tuple(tuple(row.get(name) for name in columns) for row in rows))

    def csv(self) -> str:
        """The table as CSV: full precision, empty cells for None."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)
        return text.getvalue()


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture.

    Attributes:
        name: Last part of its files' names: ``roofline``.
        table: What it shows.
        draw: Draws it.
    """

    name: str
    table: Table
    draw: Callable[[], Figure]


def amount(value: float, unit: str) -> str:
    """A count or size with three digits, a prefix and its unit: ``67.1 M requests``, ``202 MB``."""
    number = count(value)
    return f"{number}{'' if number[-1].isalpha() else ' '}{unit}" if unit.startswith("B") else f"{number} {unit}"


def count(value: float) -> str:
    """A count with three digits and a prefix: ``67.1 M``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{_three(value / factor)} {prefix}"
    return _three(value)


def _three(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
