"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from quantizers import assert_same_results, guarded_outputs, put_specials, skewed_values

from wavecast.kernels.device import native_format
from wavecast.kernels.rowwise import VARIANTS
from wavecast.kernels.rowwise.api import launch_fused
from wavecast.kernels.rowwise.baseline import launch_separate_kernels
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

pytestmark = pytest.mark.execute
SHAPES = [(1, 1), (1, 16), (5, 100), (300, 48), (3, 5000), (2, 4096), (1, 70000)]
CASES = list(zip(SHAPES, itertools.cycle((False, True)), strict=False))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("shape", "power_of_two"), CASES, ids=str)
def test_equal_to_the_reference(virtual_arch: str, variant: str, shape: tuple[int, int], power_of_two: bool) -> None:
    x = put_specials(skewed_values(*shape))
    x[shape[0] // 2, : shape[1] // 2] = 0
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=power_of_two)
    assert_same_results(variant, VARIANTS[variant](x, power_of_two=power_of_two), wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_other_inputs_and_padded_rows(virtual_arch: str, variant: str, dtype: torch.dtype) -> None:
    x = skewed_values(9, 64, dtype=dtype)[:, :40]
    x[4] = 0
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](x), wanted)


def test_every_bf16_value(virtual_arch: str) -> None:
    """All 2^16 inputs, scaled by 1: the cast alone."""
    fmt = native_format(virtual_arch)
    x = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).reshape(256, 256)
    x = torch.cat([x, torch.full((256, 1), fmt.max, dtype=torch.bfloat16)], dim=1)
    big = x.float().abs() > fmt.max
    x[big & x.isfinite()] = fmt.max
    wanted = quantize_rowwise_reference(x, fmt, power_of_two=False)
    assert (wanted[1] == 1).all()
    assert_same_results("wavecast", VARIANTS["wavecast"](x), wanted)


@pytest.mark.parametrize("launch", [launch_separate_kernels, launch_fused], ids=["separate-kernels", "wavecast"])
def test_nothing_is_written_beside_the_outputs(virtual_arch: str, launch: Callable[..., None]) -> None:
    fmt = native_format(virtual_arch)
    x = skewed_values(7, 50)
    wanted = quantize_rowwise_reference(x, fmt, power_of_two=True)
    with guarded_outputs() as guard:
        outputs = tuple(guard.like(tensor) for tensor in wanted)
        launch(x, *outputs, fmt=fmt, power_of_two=True, arch=virtual_arch)
    assert_same_results("guarded", outputs, wanted)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(0, 16), (3, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int]) -> None:
    x = torch.empty(*shape, dtype=torch.bfloat16)
    wanted = quantize_rowwise_reference(x, native_format(virtual_arch), power_of_two=False)
    assert_same_results(variant, VARIANTS[variant](x), wanted)
