"""The block-wise plan: pure, every value in one tile, as wide as the alignment allows."""

from __future__ import annotations

import pytest

from wavecast.kernels.blockwise.layout import SIDE
from wavecast.kernels.blockwise.plan import plan_blockwise


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("shape", [(1, 0, 5), (1, 1, 1), (3, 300, 200), (1, 32768, 7168)], ids=str)
def test_every_value_is_in_one_tile(shape: tuple[int, int, int], square: bool, arch: str | None) -> None:
    batch, rows, columns = shape
    plan = plan_blockwise(*shape, strides=(rows * columns, columns), square=square, itemsize=2, arch=arch)
    assert plan.programs == batch * -(-rows // plan.tile_rows) * -(-columns // SIDE)
    assert plan.tile_rows == SIDE or not square
    assert f"{plan.tile_rows} x {SIDE}" in plan.reason


@pytest.mark.parametrize(
    ("columns", "strides", "itemsize", "vector"),
    [(7168, (0, 7168), 2, 8), (7168, (0, 7168), 4, 4), (100, (0, 100), 2, 4), (64, (7, 64), 2, 1), (64, (0, 66), 2, 2)],
)
def test_accesses_are_as_wide_as_the_alignment_allows(
    columns: int, strides: tuple[int, int], itemsize: int, vector: int
) -> None:
    plan = plan_blockwise(1, 9, columns, strides=strides, square=True, itemsize=itemsize, arch="gfx942")
    assert plan.vector == vector
