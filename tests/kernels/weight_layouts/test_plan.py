"""The plan: pure, and saying what is read once and why."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.weight_layouts.plan import WeightLayoutsPlan, plan_weight_layouts

ARCHS = pytest.mark.parametrize("arch", ["gfx942", "gfx950", None])


def plan(experts: int, k: int, n: int, arch: str | None) -> WeightLayoutsPlan:
    return plan_weight_layouts(experts, k, n, dtype=torch.bfloat16, arch=arch)


@ARCHS
@pytest.mark.parametrize(
    ("experts", "k", "n"), [(32, 4096, 7168), (32, 7168, 2048), (16, 8192, 5120), (1, 1, 1), (2, 0, 8), (2, 8, 0)]
)
def test_programs_cover_an_expert_and_meet_the_dies(experts: int, k: int, n: int, arch: str | None) -> None:
    chosen = plan(experts, k, n, arch)
    assert chosen.rows is not None
    assert chosen.strips_of_expert * chosen.strips.block_k >= k
    assert chosen.row_programs * chosen.rows.block_m >= n
    assert (chosen.strips_of_expert + chosen.row_programs) % chosen.strips.xcds == 0


def test_the_plan_says_what_is_read_once() -> None:
    assert "56.0 MiB, is read from HBM once, as the Infinity Cache holds" in plan(32, 4096, 7168, "gfx942").reason
    assert "a launch for each layout" in plan(32, 4096, 7168, "sm_90").reason
    assert "a launch for each layout" in plan(1, 100_000, 8, "gfx942").reason


@ARCHS
@pytest.mark.parametrize("n", [64, 2048, 7168])
def test_two_programs_fit_a_compute_unit(n: int, arch: str | None) -> None:
    chosen = plan(8, 2048, n, arch).strips
    assert chosen.num_warps <= 8
    assert chosen.streamed == (chosen.resident_rows < n)
