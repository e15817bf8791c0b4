"""How an experiment calls its operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any


def find_variant(operator: str, variant: str) -> Callable[..., Any]:
    """One variant of an operator.

    Args:
        operator: Module that has them, ``wavecast.kernels.rowwise``, or ``module:function`` of the only one.
        variant: Key of the module's ``VARIANTS``.
    """
    module, _, function = operator.partition(":")
    imported = import_module(module)
    found: Callable[..., Any] = getattr(imported, function) if function else imported.VARIANTS[variant]
    return found


def last_path() -> str | None:
    """How the latest operator call was carried out (``triton``, ``reference``); None before the first call."""
    path = import_module("wavecast.kernels").last_path()
    return None if path is None else str(path)


def result_dtype(result: Any) -> str | None:
    """Element type of the first FP8 tensor in an operator's result, ``e4m3fnuz``; None if there is none."""
    if hasattr(result, "dtype"):
        name = str(result.dtype).removeprefix("torch.")
        return name.removeprefix("float8_") if name.startswith("float8_") else None
    if is_dataclass(result):
        parts = [getattr(result, item.name) for item in fields(result)]
    else:
        parts = list(result) if isinstance(result, tuple) else []
    return next((dtype for part in parts if (dtype := result_dtype(part)) is not None), None)
