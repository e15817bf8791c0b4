"""What is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.rowwise import VARIANTS

EVERY_VARIANT = pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)


@EVERY_VARIANT
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(4), "x has 1 dimensions"),
        (torch.zeros(4, 4, dtype=torch.int32), "x is int32; wanted is one of bfloat16, float16, float32"),
        (torch.zeros(4, 5).t(), "rows must be contiguous"),
        (torch.zeros(1).expand(4, 5), "rows must be contiguous"),
        (torch.empty(1, (1 << 31) - 8, device="meta"), r"K, rounded up to whole blocks, is \d+; at most 2147483647"),
    ],
)
def test_bad_input_is_named(quantize: Callable, x: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(x, format=E4M3FNUZ)
