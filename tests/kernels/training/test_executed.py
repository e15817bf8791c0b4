"""Forward and backward by executed code objects: exact where FP8 is."""

from __future__ import annotations

import pytest
import torch
from training_cases import GROUPED, LINEAR, Layer, exact_operands, three_products, train

from wavecast.kernels.device import Path, last_path
from wavecast.kernels.training import Recipe

pytestmark = pytest.mark.execute


@pytest.mark.parametrize(
    ("layer", "recipe"),
    [(GROUPED, Recipe.ROWWISE), (GROUPED, Recipe.TENSORWISE), (LINEAR, Recipe.ROWWISE)],
    ids=lambda value: getattr(value, "name", value),
)
def test_equal_to_float64_where_fp8_is_exact(virtual_arch: str, layer: Layer, recipe: Recipe) -> None:
    operands = exact_operands(layer, torch.bfloat16)
    actual = train(layer, operands, recipe=recipe, out_dtype=torch.bfloat16)
    assert last_path() is Path.TRITON
    for one, exact in zip(actual, three_products(layer, *operands), strict=True):
        assert torch.equal(one, exact.to(torch.bfloat16))
