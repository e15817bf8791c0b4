"""Checks, and the path without a device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from quantizers import BAD_WEIGHTS, assert_same_results, special_weights

from wavecast.kernels.device import Path, active_arch, last_path
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.weight_layouts import VARIANTS
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)


def test_the_catalogue_names() -> None:
    assert list(VARIANTS) == ["two-kernels", "wavecast"]


@pytest.mark.skipif(active_arch() is not None, reason="a device is active")
@EVERY_VARIANT
def test_without_a_device_both_references_answer(quantize: Callable) -> None:
    weight = special_weights(3, 40, 72)
    out = quantize(weight, format=E4M3FN, power_of_two=True)
    assert last_path() is Path.REFERENCE
    for name, part, reference in (
        ("columns", out.columns, quantize_expert_weights_reference),
        ("transposed", out.transposed, quantize_weight_transpose_reference),
    ):
        assert_same_results(name, part, reference(weight, E4M3FN, power_of_two=True))


@EVERY_VARIANT
@BAD_WEIGHTS
def test_bad_input_is_named(quantize: Callable, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(weight, format=E4M3FN)
