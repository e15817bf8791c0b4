"""The plan: pure, and saying what is read once and why."""

from __future__ import annotations

import pytest

from wavecast.kernels.colwise_per_group.plan import plan as plan_colwise
from wavecast.kernels.dual_layout.plan import (
    HELD_BY_INFINITY_CACHE,
    HELD_BY_L2,
    MOST_VALUES,
    DualLayoutPlan,
    plan_dual_layout,
    plan_row_blocks,
)

ARCHS = pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])


def plan(tokens: int, columns: int, groups: int, *, arch: str | None = "gfx942") -> DualLayoutPlan:
    return plan_dual_layout(tokens, columns, groups, element_bytes=2, arch=arch)


@ARCHS
@pytest.mark.parametrize("waves", [1, 8, 16])
@pytest.mark.parametrize("element_bytes", [2, 4])
def test_row_blocks_give_a_lane_whole_vectors_and_hold_whole_rows(
    arch: str | None, waves: int, element_bytes: int
) -> None:
    lanes = waves * (32 if arch == "sm_90" else 64)
    for columns in (0, 1, 7, 16, 100, 1024, 1408, 2048, 5120, 7168, 8192, 16384, 65536):
        rows = plan_row_blocks(columns, waves=waves, element_bytes=element_bytes, arch=arch)
        if rows is None:
            assert columns > lanes * MOST_VALUES
            continue
        assert rows.vector * element_bytes == 16
        assert rows.block_m * rows.block_k == lanes * rows.vector
        assert rows.pieces * rows.block_k >= columns > (rows.pieces - 1) * rows.block_k - 1
        assert rows.pieces * rows.vector <= MOST_VALUES


def test_rows_of_multiples_of_a_block_are_not_padded() -> None:
    for columns in (2048, 5120, 7168):
        rows = plan_row_blocks(columns, waves=8, element_bytes=2, arch="gfx942")
        assert rows is not None
        assert rows.pieces * rows.block_k == columns


@ARCHS
def test_equal_groups_give_every_row_program_one_block(arch: str | None) -> None:
    chosen = plan(32768, 7168, 32, arch=arch)
    assert chosen.rows is not None
    assert chosen.row_programs * chosen.rows.block_m == 1024
    if arch != "sm_90":
        assert chosen.columns == plan_colwise(32768, 32, element_bytes=2, arch=arch)


def test_four_programs_of_four_warps_on_a_multiprocessor() -> None:
    chosen = plan(32768, 7168, 32, arch="sm_90")
    assert chosen.rows is not None
    assert (chosen.columns.waves, chosen.columns.rows, chosen.rows.block_m) == (4, 256, 1)
    assert chosen.max_registers == 65536 // (4 * 4 * 32)
    assert plan(32768, 7168, 32).max_registers is None


def test_few_columns_take_two_launches_on_nvidia() -> None:
    chosen = plan(32768, 2048, 32, arch="sm_90")
    assert chosen.rows is None
    assert "a launch for each layout" in chosen.reason
    assert chosen.columns == plan_colwise(32768, 32, element_bytes=2, arch="sm_90")


@ARCHS
def test_the_plan_says_what_is_read_once(arch: str | None) -> None:
    chosen = plan(32768, 7168, 32, arch=arch)
    assert "14.0 MiB, is read from HBM once" in chosen.reason
    assert ("L2 holds" if arch == "sm_90" else "the Infinity Cache holds") in chosen.reason
    assert chosen.held_bytes == (HELD_BY_L2 if arch == "sm_90" else HELD_BY_INFINITY_CACHE)
    long = plan(32768, 7168, 2, arch=arch)
    assert (long.split is not None) == (arch == "sm_90")
    assert "twice" in long.reason


@ARCHS
def test_few_long_groups_have_rows_first_and_columns_in_parts(arch: str | None) -> None:
    chosen = plan(32768, 2048, 1, arch=arch)
    assert chosen.rows is None
    assert chosen.split is not None
    assert chosen.split.rows.pieces * chosen.split.rows.block_k >= 2048
    assert "is read twice" in chosen.reason


def test_rows_that_fit_no_program_are_named() -> None:
    chosen = plan(64, 100_000, 1)
    assert chosen.rows is None
    assert "a launch for each layout" in chosen.reason


@ARCHS
@pytest.mark.parametrize(("tokens", "columns", "groups"), [(0, 8, 2), (8, 0, 1), (1, 1, 300)])
def test_nothing_to_do_has_programs_all_the_same(tokens: int, columns: int, groups: int, arch: str | None) -> None:
    chosen = plan(tokens, columns, groups, arch=arch)
    assert (chosen.rows is None) == (arch == "sm_90")
    assert chosen.rows is None or chosen.row_programs >= 1
