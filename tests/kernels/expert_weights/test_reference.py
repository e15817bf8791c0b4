"""The expert weight reference: the row-wise definition, seen along K."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes, column_major, put_specials, skewed_values

from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference


@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
def test_it_is_row_wise_quantization_of_the_columns(fmt: Fp8Format, power_of_two: bool) -> None:
    weight = column_major(put_specials(skewed_values(3, 10, 7)))
    values, scale, inverse = quantize_expert_weights_reference(weight, fmt, power_of_two=power_of_two)
    assert values.shape == (3, 10, 7)
    assert values.stride() == (70, 1, 10)
    rows = quantize_rowwise_reference(weight.transpose(1, 2).reshape(21, 10), fmt, power_of_two=power_of_two)
    assert_same_bytes("values", values.transpose(1, 2).reshape(21, 10), rows[0])
    assert_same_bytes("scale", scale.reshape(21, 1), rows[1])
    assert_same_bytes("inverse", inverse.reshape(21, 1), rows[2])


def test_a_weight_without_k_has_the_scale_of_zero() -> None:
    empty = quantize_expert_weights_reference(torch.empty(2, 0, 3), E4M3FN, power_of_two=False)
    zero = quantize_expert_weights_reference(torch.zeros(2, 1, 3), E4M3FN, power_of_two=False)
    assert torch.equal(empty[1], zero[1])
