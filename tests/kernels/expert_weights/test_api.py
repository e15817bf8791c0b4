"""Checks, and the visible reference path on a machine without a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from quantizers import column_major

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.expert_weights import VARIANTS
from wavecast.kernels.formats import E4M3FN

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["five-kernels", "fused", "wavecast"]


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
def test_without_a_device_the_reference_answers(quantize: Callable) -> None:
    out = quantize(column_major(torch.randn(2, 6, 5)), format=E4M3FN)
    assert last_path() is Path.REFERENCE
    assert out.values.shape == (2, 6, 5)
    assert out.scale.shape == out.inverse.shape == (2, 1, 5)


@EVERY_VARIANT
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.zeros(4, 4), "weight has 2 dimensions"),
        (torch.zeros(2, 4, 4, dtype=torch.float64), "weight is float64"),
        (torch.zeros(2, 4, 6), r"weight has strides \(24, 6, 1\) .* wanted are \(24, 1, 4\)"),
        (torch.empty((1, 1 << 16, 1 << 16), device="meta").transpose(1, 2), "at most 2147483647"),
    ],
    ids=["rank", "dtype", "row-major", "large"],
)
def test_bad_input_is_named(quantize: Callable, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(weight, format=E4M3FN)
