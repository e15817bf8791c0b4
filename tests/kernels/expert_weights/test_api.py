"""What is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from quantizers import BAD_WEIGHTS

from wavecast.kernels.expert_weights import VARIANTS
from wavecast.kernels.formats import E4M3FN


@pytest.mark.parametrize("quantize", VARIANTS.values(), ids=VARIANTS)
@BAD_WEIGHTS
def test_bad_input_is_named(quantize: Callable, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(weight, format=E4M3FN)
