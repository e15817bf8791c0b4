"""The code objects that the GPU would run, executed: equal to the reference byte for byte."""

from __future__ import annotations

import pytest
import torch
from quantizers import assert_same_results, finite_weights, guarded_outputs, special_weights

from wavecast.kernels.device import native_format
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.weight_layouts.api import WeightLayouts, launch_weights, weight_layouts_result

pytestmark = pytest.mark.execute

WEIGHTS = [
    finite_weights(2, 256, 128),
    special_weights(3, 150, 300),
    special_weights(2, 72, 133),
    special_weights(2, 33, 20, dtype=torch.float16),
    special_weights(2, 80, 144, dtype=torch.float32),
    finite_weights(1, 1, 1),
    finite_weights(2, 8, 0),
    finite_weights(2, 0, 8),
]


@pytest.mark.parametrize("weight", WEIGHTS, ids=lambda weight: f"{tuple(weight.shape)}-{weight.dtype}")
def test_equal_to_the_reference_between_canaries(virtual_arch: str, weight: torch.Tensor) -> None:
    fmt = native_format(virtual_arch)
    wanted = weight_layouts_result(weight, fmt=fmt, power_of_two=False)
    with guarded_outputs() as guard:
        out = WeightLayouts(*(Quantized(*(guard.like(tensor) for tensor in part)) for part in wanted))
        launch_weights(weight, out, Conversion(fmt, fmt.max, False, virtual_arch))
    assert_same_results("columns", out.columns, wanted.columns)
    assert_same_results("transposed", out.transposed, wanted.transposed)
