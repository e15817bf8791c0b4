"""Checks, and the path without a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from dual_layout_cases import CASES, Case
from quantizers import BAD_GROUPS_OF_ROWS, assert_same_results

from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.dual_layout import VARIANTS, quantize_dual_layout
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["two-kernels", "wavecast"]


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_a_device_both_references_answer(quantize: Callable, case: Case) -> None:
    x, offs = case.x(), case.offs()
    out = quantize(x, offs, format=E4M3FNUZ, power_of_two=True)
    assert last_path() is Path.REFERENCE
    assert_same_results("rowwise", out.rowwise, quantize_rowwise_reference(x, E4M3FNUZ, power_of_two=True))
    wanted = colwise_per_group_reference(x, offs, fmt=E4M3FNUZ, power_of_two=True)
    assert_same_results("colwise", out.colwise, wanted)


@EVERY_VARIANT
@BAD_GROUPS_OF_ROWS
def test_bad_input_is_named(quantize: Callable, x: torch.Tensor, offs: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(x, torch.tensor(offs, dtype=torch.int32), format=E4M3FNUZ)


def test_offsets_of_another_type_are_named() -> None:
    with pytest.raises(ValueError, match="offs is int64; wanted is one of int32; convert it"):
        quantize_dual_layout(torch.zeros(4, 4), torch.tensor([4]), format=E4M3FNUZ)
