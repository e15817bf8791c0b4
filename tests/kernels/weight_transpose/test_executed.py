"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from quantizers import (
    REPEATABLE,
    SEEDS,
    any_bits,
    assert_same_results,
    check_launch,
    column_major,
    finite_weights,
    special_weights,
)

from wavecast.kernels.device import native_format
from wavecast.kernels.weight_transpose import VARIANTS
from wavecast.kernels.weight_transpose.api import launch_transposed
from wavecast.kernels.weight_transpose.baseline import launch_atomic
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

pytestmark = pytest.mark.execute

acq_rel, relaxed = partial(launch_atomic, "acq_rel"), partial(launch_atomic, "relaxed")
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
STREAMED = (1, 40, 5400)

# Tails in every dimension and a single value; several tiles each way; bytes joined to words, and not; several
# resident blocks; rows that are read twice.
CASES = [
    (relaxed, (2, 33, 129), BF16, False),
    (relaxed, (2, 144, 272), BF16, True),
    (acq_rel, (2, 144, 272), BF16, True),
    (relaxed, (2, 48, 80), FP16, True),
    (relaxed, (2, 48, 80), FP32, True),
    (launch_transposed, (1, 1, 1), BF16, False),
    (launch_transposed, (2, 33, 71), BF16, True),
    (launch_transposed, (3, 100, 72), BF16, True),
    (launch_transposed, (1, 64, 1408), BF16, True),
    (launch_transposed, STREAMED, BF16, True),
    (launch_transposed, (2, 48, 80), FP16, False),
    (launch_transposed, (2, 48, 80), FP32, False),
]


def name(value: object) -> str:
    """Test id of a launch, shape, dtype or flag."""
    return value.args[0] if isinstance(value, partial) else getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("launch", "shape", "dtype", "power_of_two"), CASES, ids=name)
def test_equal_to_the_reference_between_canaries(
    virtual_arch: str, launch: Callable[..., None], shape: tuple[int, int, int], dtype: torch.dtype, power_of_two: bool
) -> None:
    make = special_weights if launch is launch_transposed else finite_weights  # upstream has no policy for NaN and Inf
    if virtual_arch != "gfx942" and shape == STREAMED:
        pytest.skip("three seconds to compile; differs by the cast only, which the other shapes have")
    weight = make(*shape, dtype=dtype)
    fmt = native_format(virtual_arch)
    reference = quantize_weight_transpose_reference
    check_launch(launch, reference, weight, fmt=fmt, power_of_two=power_of_two, arch=virtual_arch)


@pytest.mark.parametrize("variant", ["atomic-relaxed", "wavecast"])
@pytest.mark.parametrize("shape", [(0, 16, 16), (2, 0, 16), (2, 16, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int, int]) -> None:
    weight = column_major(torch.empty(*shape, dtype=torch.bfloat16))
    wanted = quantize_weight_transpose_reference(weight, native_format(virtual_arch), power_of_two=True)
    assert_same_results(variant, VARIANTS[variant](weight, power_of_two=True), wanted)


@REPEATABLE
@given(experts=st.integers(1, 3), k=st.integers(17, 31), n=st.integers(0, 4).map(lambda n: 8 * n + 4), seed=SEEDS)
def test_any_weights(virtual_arch: str, experts: int, k: int, n: int, seed: int) -> None:
    weight = any_bits(experts, n, k, seed=seed).transpose(1, 2)
    fmt = native_format(virtual_arch)
    reference = quantize_weight_transpose_reference
    check_launch(launch_transposed, reference, weight, fmt=fmt, power_of_two=False, arch=virtual_arch)
