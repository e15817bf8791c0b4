"""Checks, and the visible reference path on a machine without a device."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.fnuz import VARIANTS, damage, quantize_fnuz

NO_DEVICE = pytest.mark.skipif(active_arch() is not None, reason="a device is active")


@NO_DEVICE
def test_the_variants_differ_by_the_maximum_their_name_says() -> None:
    x = torch.tensor([[1.0, -0.5]])
    for name, quantize in VARIANTS.items():
        assert quantize(x).scale.item() == float(name.removeprefix("max-"))
        assert last_path() is Path.REFERENCE


@NO_DEVICE
def test_damage_shows_the_bug_and_not_the_fix() -> None:
    x = torch.randn(16, 256, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
    bug, fix = (damage(x, VARIANTS[name](x)) for name in ("max-448", "max-240"))
    assert bug.clipped_fraction > 0.05
    assert fix.clipped_fraction == fix.nan_fraction == 0


@pytest.mark.parametrize("maximum", [0.0, -1.0, float("nan"), float("inf")])
def test_a_maximum_that_is_none_is_refused(maximum: float) -> None:
    with pytest.raises(ValueError, match="a positive finite value is wanted, 240.0 for e4m3fnuz"):
        quantize_fnuz(torch.zeros(1, 1), maximum=maximum)
