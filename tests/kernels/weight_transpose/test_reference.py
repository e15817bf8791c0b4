"""The transposed reference: the row-wise definition, seen along N."""

from __future__ import annotations

import pytest
from quantizers import assert_same_bytes, column_major, put_specials, skewed_values

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference


@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
def test_it_is_row_wise_quantization_of_k_rows_transposed(fmt: Fp8Format, power_of_two: bool) -> None:
    weight = column_major(put_specials(skewed_values(3, 10, 7)))
    values, scale, inverse = quantize_weight_transpose_reference(weight, fmt, power_of_two=power_of_two)
    assert values.shape == (3, 7, 10)
    assert values.stride() == (70, 1, 7)
    for expert in range(3):
        rows = quantize_rowwise_reference(weight[expert].contiguous(), fmt, power_of_two=power_of_two)
        assert_same_bytes("values", values[expert].t(), rows[0])
        assert_same_bytes("scale", scale[expert, :, None], rows[1])
        assert_same_bytes("inverse", inverse[expert, :, None], rows[2])
