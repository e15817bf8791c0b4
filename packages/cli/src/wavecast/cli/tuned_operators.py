"""Operators whose configurations are chosen by prediction on a virtual device, and by Triton's autotuner on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from wavecast.cli import simulate
from wavecast.kernels.weight_transpose import tuned


def _run(space: str, weight: Any) -> Any:
    choose = simulate.choose_predicted if simulate.has_virtual_device() else None
    return tuned.quantize_weight_transpose_tuned(weight, space=space, choose=choose)


VARIANTS: dict[str, Callable[..., Any]] = {space: partial(_run, space) for space in tuned.SPACES}
"""The variants of ``autotune-space``, the baseline first."""
