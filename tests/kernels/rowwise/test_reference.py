"""The numerics policy, line by line, on the row-wise reference."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

FORMATS = pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)


@FORMATS
def test_a1_the_amax_maps_to_the_largest_value(fmt: Fp8Format) -> None:
    x = torch.linspace(-1, 1, 1025).to(torch.bfloat16)[None]
    values, scale, inverse = quantize_rowwise_reference(x, fmt, power_of_two=False)
    decoded = values.float()
    assert decoded.abs().max() == fmt.max
    assert not decoded.isnan().any()
    assert torch.equal(scale, torch.tensor([[fmt.max]]))
    normal = x.float().abs() * fmt.max >= fmt.min_normal
    error = (decoded * inverse - x.float()).abs() / x.float().abs()
    assert error[normal].max() <= 1 / 16


@FORMATS
def test_b1_zero_rows_have_a_finite_scale_and_do_not_change_others(fmt: Fp8Format) -> None:
    x = torch.randn(4, 128, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    whole = quantize_rowwise_reference(x, fmt, power_of_two=False)
    x = x.clone()
    x[2] = 0
    values, scale, inverse = quantize_rowwise_reference(x, fmt, power_of_two=False)
    assert scale[2].isfinite().all()
    assert scale[2] > 0
    assert (values[2].view(torch.uint8) == 0).all()
    assert torch.equal(inverse, torch.ones_like(scale) / scale)
    for row in (0, 1, 3):
        assert torch.equal(values[row].view(torch.uint8), whole[0][row].view(torch.uint8))
        assert torch.equal(scale[row], whole[1][row])


@FORMATS
def test_b2_tiny_rows_have_finite_scales_that_fall_with_the_amax(fmt: Fp8Format) -> None:
    tiny = [2.0**-149, 2.0**-133, 2.0**-126, 1e-36, 1e-30, EPS / 2, EPS, 2 * EPS, 1e-3]
    values, scale, inverse = quantize_rowwise_reference(torch.tensor(tiny)[:, None], fmt, power_of_two=False)
    assert scale.isfinite().all()
    assert inverse.isfinite().all()
    assert (scale.diff(dim=0) <= 0).all()
    assert not values.float().isnan().any()


@FORMATS
def test_b4_nan_stays_and_infinity_saturates_outside_the_amax(fmt: Fp8Format) -> None:
    x = torch.tensor([[1.0, float("nan"), float("inf"), -float("inf"), -2.0]])
    values, scale, _ = quantize_rowwise_reference(x, fmt, power_of_two=False)
    decoded = values.float()[0]
    assert scale == fmt.max / 2
    assert decoded[1].isnan()
    assert decoded[[0, 2, 3, 4]].tolist() == [fmt.max / 2, fmt.max, -fmt.max, -fmt.max]


def test_power_of_two_scales_are_the_largest_below_the_exact_one() -> None:
    amax = torch.tensor([0.75, 1.0, 1.875, 2.0, 239.0, 240.0, 241.0])[:, None]
    _, exact, _ = quantize_rowwise_reference(amax, E4M3FNUZ, power_of_two=False)
    _, scale, inverse = quantize_rowwise_reference(amax, E4M3FNUZ, power_of_two=True)
    mantissa, _ = torch.frexp(scale)
    assert (mantissa == 0.5).all()
    assert (scale <= exact).all()
    assert (2 * scale > exact).all()
    assert torch.equal(scale * inverse, torch.ones_like(scale))


def test_a_row_without_values_has_the_scale_of_zero() -> None:
    values, scale, _ = quantize_rowwise_reference(torch.empty(3, 0), E4M3FN, power_of_two=False)
    assert values.shape == (3, 0)
    assert torch.equal(scale, quantize_rowwise_reference(torch.zeros(3, 1), E4M3FN, power_of_two=False)[1])
