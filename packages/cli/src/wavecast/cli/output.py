"""Everything the command line prints: data on stdout, messages on stderr.

Tables are 80 columns wide unless the caller asks for more, and make sense without colour. ``NO_COLOR`` and a stdout
that is not a terminal are respected by rich itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

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


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr while the block runs, if stderr is a terminal.

    Args:
        total: Number of steps.

    Yields:
        A function to call with the name of each step before it starts.
    """
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console(error=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        task = bar.add_task("", total=total)
        started = 0

        def advance(name: str) -> None:
            nonlocal started
            bar.update(task, description=name, completed=started)
            started += 1

        yield advance


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
