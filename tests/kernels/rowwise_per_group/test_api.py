"""What is refused, and the reference path."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, skewed_values

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.rowwise_per_group import quantize_rowwise_per_group
from wavecast.kernels.rowwise_per_group.api import rowwise_per_group_launch
from wavecast.kernels.rowwise_per_group.plan import plan_rowwise_per_group
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference


@pytest.mark.parametrize(
    ("x", "offs", "message"),
    [
        (torch.zeros(4), torch.tensor([4], dtype=torch.int32), "x has 1 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), torch.tensor([4], dtype=torch.int32), "x is int32; wanted is one of"),
        (torch.zeros(5, 4).t(), torch.tensor([4], dtype=torch.int32), "rows must be contiguous"),
        (torch.zeros(1).expand(4, 5), torch.tensor([4], dtype=torch.int32), "rows must be contiguous"),
        (torch.zeros(4, 4), torch.tensor([4]), "offs is int64; wanted is one of int32; convert it"),
        (torch.zeros(4, 4), torch.tensor([], dtype=torch.int32), "offs is empty"),
        (torch.empty(1, (1 << 31) - 8, device="meta"), torch.empty(1, dtype=torch.int32, device="meta"), "K, rounded"),
        (
            torch.empty(1 << 21, 1, device="meta"),
            torch.empty(1 << 10, dtype=torch.int32, device="meta"),
            "rows times groups is 2147483648; at most 2147483647",
        ),
    ],
)
def test_bad_input_is_named(x: torch.Tensor, offs: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize_rowwise_per_group(x, offs, format=E4M3FNUZ)


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
def test_without_a_device_the_reference_answers() -> None:
    x, offs = skewed_values(5, 40).requires_grad_(), torch.tensor([9, 33], dtype=torch.int32)
    out = quantize_rowwise_per_group(x, offs, format=E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert not any(tensor.requires_grad for tensor in out)
    assert_same_results(
        "reference", out, quantize_rowwise_per_group_reference(x.detach(), offs, E4M3FNUZ, power_of_two=True)
    )


def test_launch_states_the_alignment_that_the_sizes_have_and_no_more() -> None:
    x = torch.empty((90, 76), dtype=torch.bfloat16, device="meta")
    plan = plan_rowwise_per_group(90, 76, 2, dtype=x.dtype, arch="gfx942")
    conversion = Conversion(E4M3FNUZ, E4M3FNUZ.max, False, "gfx942")
    grid, sizes, constants = rowwise_per_group_launch(x, 2, conversion, plan)
    assert grid == (plan.programs,)
    assert sizes == (90, 19, 19, 2)
    assert constants["UNIT"] == 4
