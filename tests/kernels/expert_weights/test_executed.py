"""Executed code objects equal the reference byte for byte."""

from __future__ import annotations

from collections.abc import Callable

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
from wavecast.kernels.expert_weights import VARIANTS
from wavecast.kernels.expert_weights.api import launch_rows
from wavecast.kernels.expert_weights.baseline import launch_five_kernels, launch_two_pass
from wavecast.kernels.expert_weights.reference import quantize_expert_weights_reference

pytestmark = pytest.mark.execute

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

# A single value; tails in every dimension; several tiles each way and wide accesses. The chain has, but for its scales,
# the launches of the row-wise one.
CASES = [
    (launch_five_kernels, (2, 33, 129), BF16, True),
    (launch_five_kernels, (2, 48, 80), FP16, False),
    (launch_two_pass, (1, 1, 1), BF16, False),
    (launch_two_pass, (2, 33, 129), BF16, True),
    (launch_two_pass, (2, 272, 144), BF16, True),
    (launch_two_pass, (2, 48, 80), FP16, False),
    (launch_two_pass, (2, 48, 80), FP32, False),
    (launch_rows, (1, 1, 1), BF16, False),
    (launch_rows, (2, 33, 129), BF16, True),
    (launch_rows, (1, 1408, 80), BF16, True),
    (launch_rows, (2, 48, 80), FP16, False),
    (launch_rows, (2, 48, 80), FP32, False),
]


@pytest.mark.parametrize(
    ("launch", "shape", "dtype", "power_of_two"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_equal_to_the_reference_between_canaries(
    virtual_arch: str, launch: Callable[..., None], shape: tuple[int, int, int], dtype: torch.dtype, power_of_two: bool
) -> None:
    make = finite_weights if launch is launch_two_pass else special_weights  # upstream has no policy for NaN and Inf
    weight = make(*shape, dtype=dtype)
    fmt = native_format(virtual_arch)
    reference = quantize_expert_weights_reference
    check_launch(launch, reference, weight, fmt=fmt, power_of_two=power_of_two, arch=virtual_arch)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(0, 16, 16), (2, 0, 16), (2, 16, 0)], ids=str)
def test_nothing_to_do(virtual_arch: str, variant: str, shape: tuple[int, int, int]) -> None:
    weight = column_major(torch.empty(*shape, dtype=torch.bfloat16))
    wanted = quantize_expert_weights_reference(weight, native_format(virtual_arch), power_of_two=True)
    assert_same_results(variant, VARIANTS[variant](weight, power_of_two=True), wanted)


@REPEATABLE
@given(experts=st.integers(1, 3), k=st.integers(17, 31), n=st.integers(0, 4).map(lambda n: 8 * n + 4), seed=SEEDS)
def test_any_weights(virtual_arch: str, experts: int, k: int, n: int, seed: int) -> None:
    weight = any_bits(experts, n, k, seed=seed).transpose(1, 2)
    fmt = native_format(virtual_arch)
    reference = quantize_expert_weights_reference
    check_launch(launch_rows, reference, weight, fmt=fmt, power_of_two=False, arch=virtual_arch)
