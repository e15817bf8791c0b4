"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest
import torch
from quantizers import assert_same_results, column_major, guarded_outputs, put_specials, skewed_values

from wavecast.kernels.device import native_format
from wavecast.kernels.weight_transpose import VARIANTS
from wavecast.kernels.weight_transpose.api import launch_strips
from wavecast.kernels.weight_transpose.baseline import launch_atomic
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

pytestmark = pytest.mark.execute
SHAPES = [(1, 1, 1), (2, 40, 70), (1, 33, 129), (3, 100, 64), (2, 31, 40), (1, 64, 1408), (1, 40, 5400)]
CASES = list(zip(SHAPES, itertools.cycle((False, True)), strict=False))
LAUNCHES = [partial(launch_atomic, semantics="acq_rel"), partial(launch_atomic, semantics="relaxed"), launch_strips]


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
    wanted = quantize_weight_transpose_reference(weight, native_format(virtual_arch), power_of_two=power_of_two)
    assert_same_results(variant, VARIANTS[variant](weight, power_of_two=power_of_two), wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs(virtual_arch: str, variant: str, dtype: torch.dtype) -> None:
    weight = weights(2, 48, 80, dtype=dtype)
    wanted = quantize_weight_transpose_reference(weight, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](weight), wanted)


@pytest.mark.parametrize("launch", LAUNCHES, ids=VARIANTS)
@pytest.mark.parametrize("shape", [(2, 40, 72), (2, 33, 71)], ids=str)
def test_nothing_is_written_beside_the_outputs(
    virtual_arch: str, launch: Callable[..., None], shape: tuple[int, int, int]
) -> None:
    fmt = native_format(virtual_arch)
    weight = weights(*shape)
    wanted = quantize_weight_transpose_reference(weight, fmt, power_of_two=True)
    with guarded_outputs() as guard:
        outputs = tuple(guard.like(tensor) for tensor in wanted)
        launch(weight, *outputs, fmt=fmt, power_of_two=True, arch=virtual_arch)
    assert_same_results("guarded", outputs, wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(0, 16, 16), (2, 0, 16), (2, 16, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int, int]) -> None:
    weight = column_major(torch.empty(*shape, dtype=torch.bfloat16))
    fmt = native_format(virtual_arch)
    out = VARIANTS[variant](weight)
    wanted = quantize_weight_transpose_reference(weight, fmt, power_of_two=False)
    assert out.values.shape == wanted[0].shape
    assert torch.equal(out.scale, wanted[1])
    assert torch.equal(out.inverse, wanted[2])
