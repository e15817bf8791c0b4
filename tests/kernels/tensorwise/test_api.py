"""What is refused, and the path without a device."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, put_specials, skewed_values

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.tensorwise import quantize_tensorwise
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor(1.0), r"x has no dimension; at least 1 is wanted; reshape it to \(1,\)"),
        (torch.zeros(4, 4, dtype=torch.int32), "x is int32; wanted is one of bfloat16, float16, float32"),
        (torch.zeros(4, 6)[:, ::2], r"x has strides \(6, 2\) .* call .contiguous\(\)"),
        (torch.zeros(1).expand(4, 5), "x has strides"),
    ],
)
def test_bad_input_is_named(x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize_tensorwise(x, format=E4M3FNUZ)


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
def test_without_a_device_the_reference_answers() -> None:
    x = put_specials(skewed_values(3, 5, 8)).requires_grad_()
    out = quantize_tensorwise(x, format=E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert not any(tensor.requires_grad for tensor in out)
    assert_same_results("reference", out, quantize_tensorwise_reference(x.detach(), E4M3FNUZ, power_of_two=True))
