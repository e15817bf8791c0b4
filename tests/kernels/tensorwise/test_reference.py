"""The numerics policy on the tensor-wise reference, and its agreement with numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from quantizers import column_major, put_specials, skewed_values

from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.tensorwise.layout import Rows, rows_of, values_like
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference

FORMATS = pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)


@FORMATS
def test_agrees_with_numpy_and_ml_dtypes(fmt: Fp8Format) -> None:
    x = put_specials(skewed_values(5, 7, 9))
    values, scale, inverse = quantize_tensorwise_reference(x, fmt, power_of_two=False)
    given = x.float().numpy()
    amax = np.abs(given[np.isfinite(given)]).max()
    wanted = np.float32(fmt.max) / amax
    assert scale.item() == wanted
    assert inverse.item() == np.float32(1) / wanted
    with np.errstate(invalid="ignore"):
        scaled = np.clip(given * wanted, np.float32(-fmt.max), np.float32(fmt.max))
        dtype = {E4M3FN: ml_dtypes.float8_e4m3fn, E4M3FNUZ: ml_dtypes.float8_e4m3fnuz}[fmt]
        codes = torch.from_numpy(scaled.astype(dtype).view(np.uint8))
    number = ~x.isnan()
    assert torch.equal(values.view(torch.uint8)[number], codes[number])
    assert values.float()[~number].isnan().all()


@FORMATS
def test_a_zero_tensor_has_a_finite_scale(fmt: Fp8Format) -> None:
    values, scale, inverse = quantize_tensorwise_reference(torch.zeros(4, 128), fmt, power_of_two=False)
    assert scale.isfinite()
    assert scale > 0
    assert (values.view(torch.uint8) == 0).all()
    assert (values.float() * inverse == 0).all()
    nothing = quantize_tensorwise_reference(torch.empty(0, 5), fmt, power_of_two=False)
    assert torch.equal(nothing.scale, scale)


@FORMATS
def test_tiny_tensors_have_finite_scales_that_fall_with_the_amax(fmt: Fp8Format) -> None:
    tiny = [2.0**-149, 2.0**-133, 2.0**-126, 1e-36, 1e-30, EPS / 2, EPS, 2 * EPS, 1e-3]
    results = [quantize_tensorwise_reference(torch.tensor([amax]), fmt, power_of_two=False) for amax in tiny]
    scales = torch.stack([result.scale for result in results])
    assert scales.isfinite().all()
    assert torch.stack([result.inverse for result in results]).isfinite().all()
    assert (scales.diff() <= 0).all()
    half, eps, double = scales[5:8]
    assert half == eps  # below eps counts as eps
    assert double < eps
    assert not torch.cat([result.values.float() for result in results]).isnan().any()


@FORMATS
def test_nan_stays_and_infinity_saturates_outside_the_amax(fmt: Fp8Format) -> None:
    x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), -2.0])
    values, scale, _ = quantize_tensorwise_reference(x, fmt, power_of_two=False)
    decoded = values.float()
    assert scale == fmt.max / 2
    assert decoded[1].isnan()
    assert decoded[[0, 2, 3, 4]].tolist() == [fmt.max / 2, fmt.max, -fmt.max, -fmt.max]


@pytest.mark.parametrize(
    ("x", "rows"),
    [
        (torch.zeros(7), Rows(1, 7, 7)),
        (torch.zeros(4, 6), Rows(1, 24, 24)),
        (torch.zeros(4, 6).t(), Rows(1, 24, 24)),
        (column_major(torch.zeros(2, 4, 6)), Rows(1, 48, 48)),
        (torch.zeros(2, 3, 4, 5).permute(2, 0, 3, 1), Rows(1, 120, 120)),
        (torch.zeros(4, 6)[:, :5], Rows(4, 5, 6)),
        (torch.zeros(0, 6), Rows(1, 0, 0)),
        (torch.zeros(4, 6)[:, :5].t(), None),
        (torch.zeros(3, 4, 6)[:, :, :5], None),
        (torch.zeros(1).expand(5), None),
        (torch.zeros(12)[::2], None),
    ],
    ids=lambda value: str(tuple(value.stride()) if isinstance(value, torch.Tensor) else value),
)
def test_what_is_one_row_in_memory(x: torch.Tensor, rows: Rows | None) -> None:
    assert rows_of(x) == rows
    if rows is not None and rows.number == 1:
        assert values_like(x, torch.uint8).stride() == x.stride()
