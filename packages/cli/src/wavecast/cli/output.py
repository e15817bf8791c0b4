"""Everything the command line prints: data on stdout, messages on stderr.

Tables are 80 columns wide unless the caller asks for more, and make sense without colour. ``NO_COLOR`` and a stdout
that is not a terminal are respected by rich itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
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
