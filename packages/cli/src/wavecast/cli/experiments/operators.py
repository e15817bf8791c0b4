"""How an experiment calls its operator."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def find_variant(module: str, variant: str) -> Callable[..., Any]:
    """One variant of an operator.

    Args:
        module: Module that has them, ``wavecast.kernels.rowwise``.
        variant: Key of its ``VARIANTS``.
    """
    found: Callable[..., Any] = import_module(module).VARIANTS[variant]
    return found


def call_by_position(operator: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """Call an operator that takes all its inputs by position."""
    return operator(*inputs)


def last_path() -> str | None:
    """How the latest operator call was carried out (``triton``, ``reference``); None before the first call."""
    path = import_module("wavecast.kernels").last_path()
    return None if path is None else str(path)
