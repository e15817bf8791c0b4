"""The plan: candidates, their choice, and what is said about it."""

from __future__ import annotations

import pytest

from wavecast.kernels.device import compute_units
from wavecast.kernels.grouped_gemm.plan import BLOCK_K_BYTES, XCDS, candidates, plan_gemm, unit_of

ARCHES = ["gfx942", "gfx950", "sm_90", "sm_120", None]
DEEPSEEK = (32768, 4096, 7168, 32)
"""Rows, columns, summed length and groups."""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("element_bytes", [1, 2])
def test_few_candidates_and_one_of_them_is_taken(arch: str | None, element_bytes: int) -> None:
    tiles = candidates(arch, element_bytes)
    assert len(tiles) <= 4
    assert max(tile.rate for tile in tiles) == 1.0
    for rows in (0, 1, 100, 5000, 100000):
        for jagged in (True, False):
            plan = plan_gemm(rows, 1408, 2048, 8, jagged=jagged, element_bytes=element_bytes, arch=arch)
            assert (plan.block_m, plan.block_n) in {(tile.m, tile.n) for tile in tiles}
            assert plan.block_k * element_bytes == BLOCK_K_BYTES
            assert plan.programs >= 1 and plan.programs % plan.xcds == 0
            assert plan.xcds == (1 if (arch or "").startswith("sm_") else XCDS)
            assert f"{plan.block_m} x {plan.block_n}" in plan.reason


def test_many_rows_take_large_tiles_and_few_rows_small_ones() -> None:
    blocks = [
        plan_gemm(32 * rows, 4096, 7168, 32, jagged=True, element_bytes=1, arch="gfx942").block_m
        for rows in (16, 64, 128, 256, 1024, 4096)
    ]
    assert blocks == sorted(blocks)
    assert (blocks[0], blocks[-1]) == (64, 256)


def test_short_sums_take_two_programs_a_unit() -> None:
    """While one loads its first block or stores, the other multiplies."""
    plans = [plan_gemm(7168, 4096, length, 32, element_bytes=1, arch="gfx942") for length in (256, 1024, 16384)]
    assert [plan.programs for plan in plans] == [608, 608, 304]


@pytest.mark.parametrize(("arch", "tile"), [("gfx942", (256, 128)), ("gfx950", (256, 256))])
def test_deepseek(arch: str, tile: tuple[int, int]) -> None:
    plan = plan_gemm(*DEEPSEEK, jagged=True, element_bytes=1, arch=arch)
    assert (plan.block_m, plan.block_n) == tile
    assert plan.programs == compute_units(arch)


def test_compiler_options_are_those_of_the_architecture() -> None:
    options = {
        arch: dict(plan_gemm(*DEEPSEEK, element_bytes=1, arch=arch).backend_options) for arch in ("gfx942", "sm_90")
    }
    assert options == {"gfx942": {"matrix_instr_nonkdim": 16, "kpack": 2, "waves_per_eu": 2}, "sm_90": {}}


def test_no_more_programs_than_tiles() -> None:
    assert plan_gemm(100, 100, 64, element_bytes=1, arch="gfx942").programs == 8
    assert plan_gemm(0, 100, 64, 3, jagged=True, element_bytes=1, arch="sm_90").programs == 3


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90"])
def test_bands_make_the_programs_of_an_l2_share_operands(arch: str) -> None:
    plan = plan_gemm(*DEEPSEEK, jagged=True, element_bytes=1, arch=arch)
    together = plan.programs // plan.xcds

    def lines(band: int) -> float:
        return band * plan.block_m + together / band * plan.block_n

    assert all(lines(plan.band) <= 1.25 * lines(other) for other in (1, 2, 4, 8, 16, 32))


@pytest.mark.parametrize(
    ("given", "unit"), [((128, 48), 16), ((40,), 8), ((6, 100), 2), ((37, 16), 1), ((0, 1), 16), ((16, 1), 1)]
)
def test_units(given: tuple[int, ...], unit: int) -> None:
    assert unit_of(*given) == unit
