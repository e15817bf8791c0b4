"""The tensor-wise plan: pure, and every value in one tile or in the tail."""

from __future__ import annotations

import pytest

from wavecast.kernels.tensorwise.layout import Rows
from wavecast.kernels.tensorwise.plan import MOST_PROGRAMS, PARTIALS_BLOCK, plan_tensorwise

ROWS = [
    *(Rows(1, n, n) for n in (0, 1, 7, 8, 4097, 32768 * 2048, 2**33 + 3)),
    *(Rows(m, k, stride) for m in (2, 5000) for k, stride in ((1, 2), (40, 48), (48, 51), (70000, 70001))),
]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm_90", None])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_every_value_is_in_a_vector_or_in_the_tail(rows: Rows, itemsize: int, arch: str | None) -> None:
    plan = plan_tensorwise(rows, itemsize=itemsize, arch=arch)
    assert plan.vectors * plan.vector + plan.tail == rows.length
    assert plan.tail < plan.vector
    assert plan.tail == 0 or rows.number == 1  # a tail of every row has no place in the kernels
    assert plan.row_stride * plan.vector == rows.stride - rows.stride % plan.vector
    assert 1 <= plan.partials <= min(plan.tiles, MOST_PROGRAMS)
    assert plan.partials <= PARTIALS_BLOCK
    values = plan.tile_rows * plan.tile_vectors * plan.vector
    assert values == plan.num_warps * (32 if arch == "sm_90" else 64) * 32
    down, across = -(-rows.number // plan.tile_rows), -(-plan.vectors // plan.tile_vectors)
    assert plan.tiles == max(down * across, 1)
    assert str(plan.tiles) in plan.reason


def test_rows_without_gaps_are_read_in_16_bytes_whatever_their_number() -> None:
    assert plan_tensorwise(Rows(1, 1001, 1001), itemsize=2, arch="gfx942").vector == 8
    assert plan_tensorwise(Rows(7, 44, 48), itemsize=2, arch="gfx942").vector == 4
