"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from quantizers import assert_same_results, column_major, guarded_outputs, put_specials, skewed_values

from wavecast.kernels.device import native_format
from wavecast.kernels.expert_weights import VARIANTS
from wavecast.kernels.expert_weights.api import launch_rows
from wavecast.kernels.expert_weights.baseline import launch_five_kernels, launch_two_pass
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference

pytestmark = pytest.mark.execute
SHAPES = [(1, 1, 1), (2, 40, 70), (1, 33, 129), (3, 100, 64), (2, 31, 40), (1, 1408, 16), (1, 5000, 3)]
CASES = list(zip(SHAPES, itertools.cycle((False, True)), strict=False))


def weights(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Skewed over experts, with NaN, Inf, a zero k and a zero n."""
    weight = column_major(put_specials(skewed_values(*shape, dtype=dtype)))
    weight[-1, shape[1] // 3] = 0
    weight[-1, :, shape[2] // 3] = 0
    return weight


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("shape", "power_of_two"), CASES, ids=str)
def test_equal_to_the_reference(
    virtual_arch: str, variant: str, shape: tuple[int, int, int], power_of_two: bool
) -> None:
    weight = weights(*shape)
    wanted = quantize_expert_weights_reference(weight, native_format(virtual_arch), power_of_two=power_of_two)
    assert_same_results(variant, VARIANTS[variant](weight, power_of_two=power_of_two), wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs(virtual_arch: str, variant: str, dtype: torch.dtype) -> None:
    weight = weights(2, 48, 80, dtype=dtype)
    wanted = quantize_expert_weights_reference(weight, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](weight), wanted)


@pytest.mark.parametrize("launch", [launch_five_kernels, launch_two_pass, launch_rows], ids=VARIANTS)
@pytest.mark.parametrize("shape", [(2, 40, 72), (2, 33, 71)], ids=str)
def test_nothing_is_written_beside_the_outputs(
    virtual_arch: str, launch: Callable[..., None], shape: tuple[int, int, int]
) -> None:
    fmt = native_format(virtual_arch)
    weight = weights(*shape)
    wanted = quantize_expert_weights_reference(weight, fmt, power_of_two=True)
    with guarded_outputs() as guard:
        outputs = tuple(guard.like(tensor) for tensor in wanted)
        launch(weight, *outputs, fmt=fmt, power_of_two=True, arch=virtual_arch)
    assert_same_results("guarded", outputs, wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(0, 16, 16), (2, 0, 16), (2, 16, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int, int]) -> None:
    weight = column_major(torch.empty(*shape, dtype=torch.bfloat16))
    out = VARIANTS[variant](weight)
    wanted = quantize_expert_weights_reference(weight, native_format(virtual_arch), power_of_two=False)
    assert out.values.shape == wanted[0].shape
    assert torch.equal(out.scale, wanted[1])
    assert torch.equal(out.inverse, wanted[2])
