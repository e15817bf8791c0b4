"""The row-wise plan: pure, and within the registers that it promises."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.rowwise.plan import FILL_PROGRAMS, RESIDENT_VGPRS, next_power_of_two, plan_rowwise

SHAPES = [(m, k) for m in (1, 7, 128, 32768, 5_000_000) for k in (0, 1, 16, 17, 512, 1408, 2048, 7168, 65536, 65537)]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize(("m", "k"), SHAPES)
def test_every_row_is_covered_once(m: int, k: int, arch: str | None) -> None:
    plan = plan_rowwise(m, k, dtype=torch.bfloat16, arch=arch)
    assert (plan.programs - 1) * plan.block_m < m <= plan.programs * plan.block_m
    assert plan.block_k == next_power_of_two(plan.block_k)
    lanes = plan.num_warps * (32 if arch == "sm_90" else 64)
    assert plan.block_m * plan.pieces * plan.block_k <= lanes * RESIDENT_VGPRS
    assert plan.pieces == 1 or arch == "sm_90"
    if plan.resident:
        assert plan.pieces * plan.block_k >= k


@pytest.mark.parametrize(("k", "pieces", "warps"), [(2048, 4, 4), (5120, 5, 4), (7168, 7, 4), (16384, 8, 8)])
def test_nvidia_executes_no_more_than_the_row(k: int, pieces: int, warps: int) -> None:
    plan = plan_rowwise(32768, k, dtype=torch.bfloat16, arch="sm_90")
    assert (plan.pieces, plan.num_warps) == (pieces, warps)
    assert plan.pieces * plan.block_k == k


def test_a_row_is_read_once_up_to_the_stated_length() -> None:
    assert plan_rowwise(8, 65536, dtype=torch.bfloat16, arch="gfx942").resident
    assert not plan_rowwise(8, 65537, dtype=torch.bfloat16, arch="gfx942").resident
    assert plan_rowwise(8, 32768, dtype=torch.bfloat16, arch="sm_90").resident
    assert not plan_rowwise(8, 32769, dtype=torch.bfloat16, arch="sm_90").resident


def test_short_rows_are_bundled_only_where_enough_programs_remain() -> None:
    assert plan_rowwise(1_000_000, 512, dtype=torch.bfloat16, arch="gfx942").block_m == 16
    assert plan_rowwise(FILL_PROGRAMS, 512, dtype=torch.bfloat16, arch="gfx942").block_m == 1
    assert plan_rowwise(1_000_000, 16384, dtype=torch.bfloat16, arch="gfx942").block_m == 1


@pytest.mark.parametrize(("value", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (4096, 4096), (4097, 8192)])
def test_next_power_of_two(value: int, power: int) -> None:
    assert next_power_of_two(value) == power
