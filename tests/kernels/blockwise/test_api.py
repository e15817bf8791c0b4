"""What is refused, and the path without a device."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, put_specials, skewed_values

from wavecast.kernels.blockwise import quantize_blockwise
from wavecast.kernels.blockwise.reference import quantize_blockwise_reference
from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FNUZ


@pytest.mark.parametrize(
    ("x", "block", "message"),
    [
        (torch.zeros(4), 128, "x has 1 dimensions"),
        (torch.zeros(4, 4, 4, 4), 128, "x has 4 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), 128, "x is int32; wanted is one of bfloat16, float16, float32"),
        (torch.zeros(8, 10)[::2, ::2], 128, r"strides .* call .contiguous\(\)"),
        (torch.zeros(4, 5), 64, r"block is 64; wanted is 128, \(128, 128\), \(1, 128\) or \(128, 1\)"),
        (torch.zeros(4, 5), (128, 64), r"block is \(128, 64\); wanted"),
        (torch.zeros(4, 5), (128, 1), r"is row-major; .* wanted is block=\(1, 128\)"),
        (torch.zeros(4, 5).t(), (1, 128), r"is column-major; .* wanted is block=\(128, 1\)"),
        (
            torch.empty((4, 1 << 24), device="meta"),
            128,
            "between the first and last row of a tile is 2147483648; at most 2147483647",
        ),
    ],
)
def test_bad_input_is_named(x: torch.Tensor, block: int | tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize_blockwise(x, block, format=E4M3FNUZ)


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
def test_without_a_device_the_reference_answers() -> None:
    x = put_specials(skewed_values(130, 140)).requires_grad_()
    out = quantize_blockwise(x, format=E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert not any(tensor.requires_grad for tensor in out)
    wanted = quantize_blockwise_reference(x.detach(), block=(128, 128), fmt=E4M3FNUZ, power_of_two=True)
    assert_same_results("reference", out, wanted)
