"""What all documents are checked with: every key is there, none besides, and every value has its type."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Hashable
from dataclasses import fields
from typing import Any


class RowError(ValueError):
    """A row or document that does not follow its schema."""


def known_keys(schema: type, data: Any) -> dict[str, Any]:
    """The values of a JSON object that has exactly the fields of a dataclass as keys."""
    names = {item.name for item in fields(schema)}
    if not isinstance(data, dict) or set(data) != names:
        wrong = sorted(set(data) ^ names) if isinstance(data, dict) else [repr(data)]
        raise RowError(f"{schema.__name__}: missing or unknown keys: {', '.join(wrong)}")
    return dict(data)


def check_types(value: Any) -> None:
    """Compare every field with its annotation: a number that is a string must not reach a record."""
    for name, allowed in _types_of(typing.cast("Hashable", type(value))).items():
        content = getattr(value, name)
        if not isinstance(content, allowed) or (isinstance(content, bool) and bool not in allowed):
            names = " or ".join(sorted(kind.__name__ for kind in allowed))
            raise RowError(f"{type(value).__name__}.{name} is {content!r}, wanted {names}")


@functools.cache
def _types_of(kind: Hashable) -> dict[str, tuple[type, ...]]:
    hints = typing.get_type_hints(kind)
    return {item.name: _allowed_types(hints[item.name]) for item in fields(typing.cast("type[Any]", kind))}


def _allowed_types(hint: Any) -> tuple[type, ...]:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    allowed: list[type] = [typing.get_origin(option) or option for option in options]
    return (*allowed, int) if float in allowed else tuple(allowed)
