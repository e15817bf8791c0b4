"""Checks, the reference path, and the catalogue names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from colwise_cases import Case

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.wgrad_copies.baseline import VARIANTS
from wavecast.kernels.wgrad_copies.plan import copy_plan
from wavecast.kernels.wgrad_copies.reference import wgrad_operands_reference

EVERY_VARIANT = pytest.mark.parametrize("prepare", VARIANTS.values(), ids=VARIANTS)
GRAD, A = Case("grad", 60, 24, (21, 60)), Case("a", 60, 40, (21, 60))


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["transpose-copies", "strided-read", "wavecast"]


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
def test_without_a_device_the_reference_answers(prepare: Callable) -> None:
    out = prepare(GRAD.x(), A.x(), offs=GRAD.offs(), format=E4M3FN)
    wanted = wgrad_operands_reference(GRAD.x(), A.x(), offs=GRAD.offs(), fmt=E4M3FN, power_of_two=False)
    assert last_path() is Path.REFERENCE
    for one, (values, scale, _) in zip((out.grad_output, out.a), wanted, strict=True):
        assert torch.equal(one.values.view(torch.uint8), values.view(torch.uint8))
        assert torch.equal(one.scale, scale)


@EVERY_VARIANT
def test_different_numbers_of_tokens_are_named(prepare: Callable) -> None:
    with pytest.raises(ValueError, match="tokens in grad_output is 60 but that in a is 61; they must be equal"):
        prepare(GRAD.x(), torch.zeros(61, 8), offs=GRAD.offs(), format=E4M3FN)


@pytest.mark.parametrize("element_bytes", [2, 4])
def test_the_copy_tile_has_whole_lines_on_both_sides(element_bytes: int) -> None:
    tile = copy_plan(element_bytes=element_bytes)
    assert tile.rows * element_bytes == tile.columns * element_bytes == 128
