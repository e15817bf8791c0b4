"""The plan of the padding: pure, tiles within a group, wide accesses."""

from __future__ import annotations

import pytest

from wavecast.kernels.token_padding.plan import MOST_GROUPS, plan_padding


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize("multiple", [0, 1, 7, 16, 24, 32, 128])
@pytest.mark.parametrize(("rows", "columns"), [(0, 8), (9, 0), (300, 1), (33000, 1024), (33000, 3584)])
def test_every_row_is_in_one_tile_of_one_group(rows: int, columns: int, multiple: int, arch: str | None) -> None:
    plan = plan_padding(rows, columns, row_stride=columns, groups=40, row_unit=multiple, itemsize=4, arch=arch)
    assert multiple % plan.tile_rows == 0
    across = max(-(-columns // (plan.vector * plan.tile_vectors)), 1)
    assert plan.programs == max(-(-rows // plan.tile_rows), 1) * across
    assert plan.group_block == 64
    assert plan.reason


@pytest.mark.parametrize(
    ("columns", "row_stride", "itemsize", "vector"),
    [(1024, 1024, 4, 4), (1022, 1024, 4, 2), (48, 48, 1, 16), (5, 7, 2, 1)],
)
def test_accesses_are_as_wide_as_the_alignment_allows(
    columns: int, row_stride: int, itemsize: int, vector: int
) -> None:
    plan = plan_padding(9, columns, row_stride=row_stride, groups=1, row_unit=0, itemsize=itemsize, arch="gfx942")
    assert plan.vector == vector


def test_more_groups_than_a_program_looks_at_together() -> None:
    assert plan_padding(9, 8, row_stride=8, groups=5000, row_unit=0, itemsize=4, arch=None).group_block == MOST_GROUPS
