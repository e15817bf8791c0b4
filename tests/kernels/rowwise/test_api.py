"""Checks, and the visible reference path on a machine without a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.rowwise import VARIANTS
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)
NO_DEVICE = pytest.mark.skipif(active_arch() is not None, reason="a device is active")


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["separate-kernels", "wavecast"]


@NO_DEVICE
@EVERY_VARIANT
def test_without_a_device_the_reference_answers(quantize: Callable) -> None:
    x = torch.randn(5, 33)
    out = quantize(x, format=E4M3FNUZ, power_of_two=True)
    wanted = quantize_rowwise_reference(x, E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert torch.equal(out.values.view(torch.uint8), wanted[0].view(torch.uint8))
    assert torch.equal(out.scale, wanted[1])
    assert out.scale.shape == out.inverse.shape == (5, 1)


@EVERY_VARIANT
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(4), "x has 1 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), "x is int32; wanted is one of bfloat16, float16, float32"),
        (torch.zeros(4, 5).t(), "rows must be contiguous"),
    ],
)
def test_bad_input_is_named(quantize: Callable, x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(x, format=E4M3FNUZ)
