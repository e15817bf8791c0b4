"""The block-wise reference: every block is what the tensor-wise definition makes of it."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_bytes, column_major, put_specials, skewed_values

from wavecast.kernels.blockwise.reference import quantize_blockwise_reference
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference

FORMATS = pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
BLOCKS = pytest.mark.parametrize("block", [(128, 128), (1, 128), (128, 1)], ids=str)


@FORMATS
@BLOCKS
def test_it_is_tensor_wise_quantization_of_each_block(fmt: Fp8Format, block: tuple[int, int]) -> None:
    x = put_specials(skewed_values(9 if block[0] == 1 else 140, 9 if block[1] == 1 else 140))
    values, scale, inverse = quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=True)
    height, width = block
    assert scale.shape == (-(-x.shape[0] // height), -(-x.shape[1] // width))
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            place = (slice(i * height, (i + 1) * height), slice(j * width, (j + 1) * width))
            one = quantize_tensorwise_reference(x[place].contiguous(), fmt, power_of_two=True)
            assert_same_bytes("values", values[place].reshape(-1).contiguous(), one.values.reshape(-1))
            assert_same_bytes("scale", scale[i, j], one.scale)
            assert_same_bytes("inverse", inverse[i, j], one.inverse)


@pytest.mark.parametrize(
    ("x", "block", "values", "scales"),
    [
        (torch.zeros(300, 200), (128, 128), (200, 1), (2, 1)),
        (torch.zeros(300, 200), (1, 128), (200, 1), (1, 300)),
        (torch.zeros(300, 264)[:, :200], (128, 128), (200, 1), (2, 1)),
        (torch.zeros(200, 300).t(), (128, 128), (1, 300), (1, 3)),
        (torch.zeros(200, 300).t(), (128, 1), (1, 300), (200, 1)),
        (column_major(torch.zeros(2, 300, 200)), (128, 128), (60000, 1, 300), (6, 1, 3)),
        (torch.zeros(2, 300, 200), (1, 128), (60000, 200, 1), (600, 1, 300)),
    ],
    ids=lambda value: str(tuple(value.stride()) if isinstance(value, torch.Tensor) else value),
)
def test_layouts(x: torch.Tensor, block: tuple[int, int], values: tuple[int, ...], scales: tuple[int, ...]) -> None:
    out = quantize_blockwise_reference(x, block=block, fmt=E4M3FN, power_of_two=False)
    assert out.values.stride() == values
    assert out.scale.stride() == out.inverse.stride() == scales


@FORMATS
@BLOCKS
def test_a_zero_block_has_a_finite_scale_and_does_not_change_others(fmt: Fp8Format, block: tuple[int, int]) -> None:
    x = skewed_values(256, 256)
    whole = quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=False)
    x[: block[0], : block[1]] = 0
    values, scale, inverse = quantize_blockwise_reference(x, block=block, fmt=fmt, power_of_two=False)
    assert scale.isfinite().all()
    assert (scale > 0).all()
    zeros = values[: block[0], : block[1]]
    assert (zeros.contiguous().view(torch.uint8) == 0).all()
    assert (zeros.float() * inverse[0, 0] == 0).all()
    scale[0, 0] = whole.scale[0, 0]
    assert torch.equal(scale, whole.scale)
    values[: block[0], : block[1]] = whole.values[: block[0], : block[1]]
    assert_same_bytes("others", values, whole.values)


@FORMATS
def test_tiny_blocks_have_finite_scales_that_fall_with_the_amax(fmt: Fp8Format) -> None:
    tiny = torch.tensor([2.0**-149, 2.0**-133, 2.0**-126, 1e-36, 1e-30, EPS / 2, EPS, 2 * EPS, 1e-3])[:, None]
    values, scale, inverse = quantize_blockwise_reference(
        tiny.expand(9, 5).contiguous(), block=(1, 128), fmt=fmt, power_of_two=False
    )
    assert scale.isfinite().all()
    assert inverse.isfinite().all()
    assert (scale.diff(dim=0) <= 0).all()
    assert scale[5] == scale[6]  # below eps counts as eps
    assert scale[7] < scale[6]
    assert not values.float().isnan().any()
