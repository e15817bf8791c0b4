"""How an experiment calls its operator."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def find_variant(module: str, variant: str) -> Callable[..., Any]:
    """One variant of an operator.

    Args:
        module: Package of the operator, ``wavecast.kernels.rowwise``; imported now, so that the catalogue can be
            listed without torch.
        variant: Key of its ``VARIANTS``.
    """
    found: Callable[..., Any] = import_module(module).VARIANTS[variant]
    return found


def run_variant(module: str, variant: str, inputs: tuple[Any, ...]) -> Any:
    """Call one variant of an operator that takes all its inputs by position; arguments as ``find_variant``."""
    return find_variant(module, variant)(*inputs)


def last_path() -> str | None:
    """How the latest operator call was carried out (``triton``, ``reference``); None before the first call."""
    path = import_module("wavecast.kernels").last_path()
    return None if path is None else str(path)
