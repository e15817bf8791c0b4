"""The row-wise reference per group: the column-wise one, seen from the other side."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes, put_specials, skewed_values

from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference

FORMATS = pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)


@FORMATS
@pytest.mark.parametrize("power_of_two", [False, True])
def test_it_is_column_wise_quantization_of_the_transpose(fmt: Fp8Format, power_of_two: bool) -> None:
    x = put_specials(skewed_values(9, 50))
    offs = torch.tensor([0, 7, 7, 31, 44], dtype=torch.int32)
    ours = quantize_rowwise_per_group_reference(x, offs, fmt, power_of_two=power_of_two)
    values, scale, inverse = colwise_per_group_reference(x.t().contiguous(), offs, fmt=fmt, power_of_two=power_of_two)
    assert_same_bytes("values", ours.values, values.t())
    assert_same_bytes("scale", ours.scale, scale)
    assert_same_bytes("inverse", ours.inverse, inverse)


@FORMATS
def test_one_group_is_row_wise_quantization(fmt: Fp8Format) -> None:
    x = put_specials(skewed_values(9, 50))
    ours = quantize_rowwise_per_group_reference(x, torch.tensor([50], dtype=torch.int32), fmt, power_of_two=False)
    values, scale, _ = quantize_rowwise_reference(x, fmt, power_of_two=False)
    assert_same_bytes("values", ours.values, values)
    assert torch.equal(ours.scale, scale.t())


def test_columns_behind_the_last_group_are_zero_bytes() -> None:
    offs = torch.tensor([2, 4], dtype=torch.int32)
    values, scale, _ = quantize_rowwise_per_group_reference(torch.full((3, 6), -1.0), offs, E4M3FN, power_of_two=False)
    assert (values.view(torch.uint8)[:, 4:] == 0).all()
    assert (values.float()[:, :4] == -E4M3FN.max).all()
    assert scale.shape == (2, 3)
