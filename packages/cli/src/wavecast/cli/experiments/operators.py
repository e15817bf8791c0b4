"""How an experiment calls its operator."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def run_variant(module: str, variant: str, arguments: tuple[Any, ...]) -> Any:
    """Call one variant of an operator.

    Args:
        module: Package of the operator, ``wavecast.kernels.rowwise``; imported now, so that the catalogue can be
            listed without torch.
        variant: Key of its ``VARIANTS``.
        arguments: What all its variants take.
    """
    return import_module(module).VARIANTS[variant](*arguments)


def last_path() -> str | None:
    """How the latest operator call was carried out (``triton``, ``reference``); None before the first call."""
    path = import_module("wavecast.kernels").last_path()
    return None if path is None else str(path)
