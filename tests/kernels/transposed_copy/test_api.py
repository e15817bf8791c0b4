"""What the transposing copy takes, refuses and plans."""

from __future__ import annotations

import pytest
import torch

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.transposed_copy import copy_transposed
from wavecast.kernels.transposed_copy.plan import plan_transposed_copy


def test_reference_path() -> None:
    x = torch.randn(3, 5, 7).to(torch.bfloat16)
    copy = copy_transposed(x)
    assert last_path() is Path.REFERENCE
    assert copy.is_contiguous()
    assert torch.equal(copy, x.mT)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2), "x has 1 dimensions"),
        (torch.zeros(2, 2, dtype=torch.int64), "x is int64; wanted is one of bfloat16"),
        (torch.zeros(4, 3).t(), "rows must be contiguous"),
    ],
)
def test_refusals(x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        copy_transposed(x)


@pytest.mark.parametrize(
    ("shape", "itemsize", "pack", "units"),
    [
        ((2048, 7168), 1, 4, (16, 16)),
        ((2048, 7168), 2, 2, (8, 8)),
        ((2046, 24), 1, 1, (2, 8)),
        ((64, 64), 4, 1, (4, 4)),
    ],
)
def test_plan(shape: tuple[int, int], itemsize: int, pack: int, units: tuple[int, int]) -> None:
    """Words where columns start at words; whole lines both ways."""
    plan = plan_transposed_copy(2, *shape, strides=(shape[0] * shape[1], shape[1]), itemsize=itemsize)
    assert (plan.pack, plan.rows_unit, plan.columns_unit) == (pack, *units)
    assert plan.tile_cols * itemsize == 128 and plan.tile_rows * itemsize >= 128
    assert plan.programs == 2 * plan.row_tiles * plan.column_tiles
    assert f"{pack} values" in plan.reason


def test_padded_rows_narrow_the_loads() -> None:
    assert plan_transposed_copy(1, 64, 64, strides=(0, 72), itemsize=1).columns_unit == 8
