"""What is refused, and the tile of the copy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from colwise_cases import Case

from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.wgrad_copies import VARIANTS
from wavecast.kernels.wgrad_copies.plan import copy_plan

EVERY_VARIANT = pytest.mark.parametrize("prepare", VARIANTS.values(), ids=VARIANTS)
GRAD = Case("grad", 60, 24, (21, 60))


@EVERY_VARIANT
def test_different_numbers_of_tokens_are_named(prepare: Callable) -> None:
    with pytest.raises(ValueError, match="tokens in grad_output is 60 but that in a is 61; they must be equal"):
        prepare(GRAD.x(), torch.zeros(61, 8), GRAD.offs(), format=E4M3FN)


@EVERY_VARIANT
def test_more_groups_than_a_grid_can_have_are_named(prepare: Callable) -> None:
    offs = torch.zeros(65536, dtype=torch.int32)
    with pytest.raises(ValueError, match="offs has 65536 groups; at most 65535 are possible"):
        prepare(GRAD.x(), GRAD.x(), offs, format=E4M3FN)


@pytest.mark.parametrize("element_bytes", [2, 4])
def test_the_copy_tile_has_whole_lines_on_both_sides(element_bytes: int) -> None:
    tile = copy_plan(element_bytes=element_bytes)
    assert tile.rows * element_bytes == tile.columns * element_bytes == 128
