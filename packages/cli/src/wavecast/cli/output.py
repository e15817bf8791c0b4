"""Everything the command line prints: data on stdout, messages on stderr.

Tables are 80 columns wide unless the caller asks for more, and make sense without colour. ``NO_COLOR`` and a stdout
that is not a terminal are respected by rich itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

NARROW = 80
UNKNOWN = "–"


def console(*, wide: bool = False, error: bool = False) -> Console:
    """A console of 80 columns, or as wide as its content if ``wide``; on stderr if ``error``."""
    from rich.console import Console

    return Console(width=240 if wide else NARROW, stderr=error, highlight=False, soft_wrap=False)


def print_table(table: RenderableType, *, wide: bool = False) -> None:
    """Print a table or text on stdout."""
    console(wide=wide).print(table)


def print_json(document: Mapping[str, Any]) -> None:
    """Print ``document`` on stdout as JSON with a trailing newline; full precision, null for what is unknown."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def print_message(text: str) -> None:
    """Print a line for a person on stderr."""
    sys.stderr.write(text + "\n")


def print_error(message: str, hint: str) -> None:
    """Print ``error: …``, and after a blank line ``hint: …`` if there is one, on stderr."""
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"\nhint: {hint}\n")


class Steps:
    """Progress of a known number of steps; this one shows nothing."""

    def done(self, name: str) -> None:
        """Say that a step is through."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Clear the bar while something is printed on the same terminal."""
        yield


class _Bar(Steps):
    """Steps as a bar."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total)

    def done(self, name: str) -> None:
        self._bar.update(self._task, description=name, advance=1)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._bar.stop()
        yield
        self._bar.start()


@contextmanager
def progress(total: int) -> Iterator[Steps]:
    """A progress bar on stderr while the block runs, if stderr is a terminal.

    Args:
        total: Number of steps.
    """
    if not sys.stderr.isatty():
        yield Steps()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:32}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        yield _Bar(bar, total)


def significant(value: float | None, digits: int = 3) -> str:
    """``value`` with three significant digits and no exponent; an en dash if unknown."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}" if decimals else f"{round(value):,}"


def percent(value: float | None) -> str:
    """A signed percentage with one decimal; an en dash if unknown."""
    return UNKNOWN if value is None else f"{value:+.1f}"


def times(value: float | None) -> str:
    """A ratio, ``5.77×``; an en dash if unknown."""
    return UNKNOWN if value is None else f"{significant(value)}×"
