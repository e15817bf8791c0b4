"""The plan: pure, one group of the mean size a block, and within the registers that it promises."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.rowwise_per_group.plan import HELD_LANE_VALUES, NARROWEST_BLOCK, plan_rowwise_per_group

AMD = pytest.mark.parametrize("arch", ["gfx942", "gfx950", None])


@AMD
@pytest.mark.parametrize("mean", [1, 100, 128, 129, 1024, 4096, 4097, 65536])
@pytest.mark.parametrize("m", [1, 7, 2048])
def test_the_mean_group_fits_one_block(m: int, mean: int, arch: str | None) -> None:
    plan = plan_rowwise_per_group(m, 32 * mean, 32, dtype=torch.bfloat16, arch=arch)
    lanes = plan.num_warps * 64
    assert mean <= plan.block_k < max(2 * mean, NARROWEST_BLOCK + 1)
    assert plan.block_m * plan.block_k <= lanes * HELD_LANE_VALUES
    assert plan.block_m * plan.block_k >= lanes * plan.vector
    assert plan.programs == -(-m // plan.block_m) * 32
    assert f"mean group of {mean} columns" in plan.reason
    assert "read once" in plan.reason


@AMD
def test_longer_groups_are_loaded_twice_and_the_plan_says_so(arch: str | None) -> None:
    plan = plan_rowwise_per_group(8, 2 * 65536 + 2, 2, dtype=torch.bfloat16, arch=arch)
    assert plan.block_k == 32768
    assert "loaded twice" in plan.reason


@pytest.mark.parametrize(
    ("mean", "rows", "columns"),
    [(1, 8, 128), (255, 8, 128), (260, 4, 256), (1023, 2, 512), (1024, 1, 1024), (9000, 1, 1024)],
)
def test_nvidia_programs_are_one_warp_and_no_longer_than_the_mean_group(mean: int, rows: int, columns: int) -> None:
    plan = plan_rowwise_per_group(2048, 32 * mean, 32, dtype=torch.bfloat16, arch="sm_90")
    assert (plan.block_m, plan.block_k, plan.num_warps) == (rows, columns, 1)
    assert ("read once" in plan.reason) is (mean <= columns)
