"""Executed code objects equal the reference byte for byte, the bug included."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, put_specials, skewed_values

from wavecast.kernels.fnuz import VARIANTS, damage
from wavecast.kernels.fnuz.reference import quantize_fnuz_reference

pytestmark = pytest.mark.execute


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_to_the_reference(virtual_arch: str, variant: str) -> None:
    if virtual_arch != "gfx942" and variant == "max-448":
        pytest.skip("the software conversion of other architectures need not saturate")
    x = put_specials(skewed_values(7, 100))
    maximum = float(variant.removeprefix("max-"))
    wanted = quantize_fnuz_reference(x, maximum=maximum, power_of_two=True)
    assert_same_results(variant, VARIANTS[variant](x, power_of_two=True), wanted)


def test_the_ramp_is_clipped_by_the_bug_only(virtual_arch: str) -> None:
    if virtual_arch != "gfx942":
        pytest.skip("e4m3fnuz is the format of gfx942")
    ramp = torch.linspace(-1, 1, 1025).to(torch.bfloat16)[None]
    assert damage(ramp, VARIANTS["max-448"](ramp)).clipped_fraction == pytest.approx(0.46, abs=0.005)
    assert damage(ramp, VARIANTS["max-240"](ramp)).clipped_fraction == 0
