"""What the wrong maximum does, by the definition."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, put_specials, skewed_values

from wavecast.kernels.fnuz.baseline import WRONG_MAXIMUM
from wavecast.kernels.fnuz.reference import damage_fractions, quantize_fnuz_reference
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

RAMP = torch.linspace(-1, 1, 1025).to(torch.bfloat16)[None]


def share_above(fraction_of_amax: float) -> float:
    """Share of the ramp above a fraction of its amax."""
    return (RAMP.float().abs() > fraction_of_amax).float().mean().item()


@pytest.mark.parametrize("power_of_two", [False, True])
def test_the_right_maximum_is_row_wise_quantization(power_of_two: bool) -> None:
    x = put_specials(skewed_values(6, 40))
    right = quantize_fnuz_reference(x, maximum=E4M3FNUZ.max, power_of_two=power_of_two)
    assert_same_results("max-240", right, quantize_rowwise_reference(x, E4M3FNUZ, power_of_two=power_of_two))


def test_the_right_maximum_does_no_damage() -> None:
    values, scale, _ = quantize_fnuz_reference(RAMP, maximum=E4M3FNUZ.max, power_of_two=False)
    assert damage_fractions(RAMP, values, scale) == (0.0, 0.0)


def test_the_wrong_maximum_clips_46_percent_of_a_ramp() -> None:
    values, scale, _ = quantize_fnuz_reference(RAMP, maximum=WRONG_MAXIMUM, power_of_two=False)
    clipped, invalid = damage_fractions(RAMP, values, scale)
    assert clipped == pytest.approx(share_above(E4M3FNUZ.max / WRONG_MAXIMUM), abs=1e-6)
    assert clipped == pytest.approx(0.46, abs=0.005)
    assert invalid == 0


def test_without_saturation_the_wrong_maximum_makes_45_percent_nan() -> None:
    values, scale, _ = quantize_fnuz_reference(RAMP, maximum=WRONG_MAXIMUM, power_of_two=False, saturating=False)
    clipped, invalid = damage_fractions(RAMP, values, scale)
    assert invalid == pytest.approx(0.45, abs=0.005)
    assert clipped < 0.02


def test_nan_inputs_are_no_damage() -> None:
    x = torch.full((1, 4), float("nan"))
    values, scale, _ = quantize_fnuz_reference(x, maximum=E4M3FNUZ.max, power_of_two=False)
    assert damage_fractions(x, values, scale) == (0.0, 0.0)
