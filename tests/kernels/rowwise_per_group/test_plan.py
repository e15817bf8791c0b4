"""The plan: pure, one group of the mean size a block, and within the registers that it promises."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.rowwise_per_group.plan import HELD_LANE_VALUES, NARROWEST_BLOCK, plan_rowwise_per_group

ARCHS = pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])


@ARCHS
@pytest.mark.parametrize("mean", [1, 100, 128, 129, 1024, 4096, 4097, 32768])
@pytest.mark.parametrize("m", [1, 7, 2048])
def test_the_mean_group_fits_one_block(m: int, mean: int, arch: str | None) -> None:
    plan = plan_rowwise_per_group(m, 32 * mean, 32, dtype=torch.bfloat16, arch=arch)
    lanes = plan.num_warps * (32 if arch == "sm_90" else 64)
    assert mean <= plan.block_k < max(2 * mean, NARROWEST_BLOCK + 1)
    assert plan.block_m * plan.block_k <= lanes * HELD_LANE_VALUES
    assert plan.block_m * plan.block_k >= lanes * plan.vector
    assert plan.programs == -(-m // plan.block_m) * 32
    assert f"mean group of {mean} columns" in plan.reason
    assert "read once" in plan.reason


@ARCHS
def test_longer_groups_are_read_twice_and_the_plan_says_so(arch: str | None) -> None:
    longest = 32768 if arch == "sm_90" else 65536
    plan = plan_rowwise_per_group(8, 2 * longest + 2, 2, dtype=torch.bfloat16, arch=arch)
    assert plan.block_k == longest // 2
    assert "read twice" in plan.reason
    assert "read once" in plan_rowwise_per_group(8, 2 * longest, 2, dtype=torch.bfloat16, arch=arch).reason
