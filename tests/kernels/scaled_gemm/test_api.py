"""Checks, the path without a device, and the reference against float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gemms import assert_exact, assert_within_bound, exact_and_size, scales, values

from wavecast.kernels.device import Path, active_arch, last_path, native_format
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ
from wavecast.kernels.scaled_gemm import scaled_gemm

NO_DEVICE = pytest.mark.skipif(active_arch() is not None, reason="a device is active")
E8 = E4M3FNUZ.dtype


def operands(dtype: torch.dtype = E8, *, exact: bool = True, scalar: bool = False) -> tuple[torch.Tensor, ...]:
    a = values(20, 48, dtype=dtype, exact=exact, seed=0)
    b = values(12, 48, dtype=dtype, exact=exact, seed=1).t()
    if scalar:
        return a, b, scales(exact=exact, seed=2), scales(exact=exact, seed=3)
    return a, b, scales(20, 1, exact=exact, seed=2), scales(1, 12, exact=exact, seed=3)


@NO_DEVICE
@pytest.mark.parametrize("dtype", [E4M3FN.dtype, E4M3FNUZ.dtype], ids=str)
@pytest.mark.parametrize("scalar", [True, False])
def test_without_a_device_the_reference_answers(dtype: torch.dtype, scalar: bool) -> None:
    given = operands(dtype, scalar=scalar)
    exact, _ = exact_and_size(*given)
    assert_exact(scaled_gemm(*given, out_dtype=torch.float32), exact)
    assert last_path() is Path.REFERENCE
    given = operands(dtype, exact=False, scalar=scalar)
    exact, size = exact_and_size(*given)
    assert_within_bound(scaled_gemm(*given), exact, size, 48)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a": torch.zeros(20, 48, dtype=torch.bfloat16)}, "a is bfloat16; wanted is one of float8_e4m3fn"),
        ({"b": torch.zeros(2, 48, 12, dtype=E8)}, "b has 3 dimensions"),
        ({"b": torch.zeros(12, 32, dtype=E8).t()}, "K of a is 48 but K of b is 32"),
        ({"b": torch.zeros(48, 12, dtype=E8)}, "b has strides .* dimension 0"),
        ({"a_inverse": torch.ones(20)}, r"a_inverse has shape \(20,\); wanted is \(20, 1\)"),
        ({"b_inverse": torch.ones(1, 13)}, r"b_inverse has shape \(1, 13\); wanted is \(1, 12\)"),
        ({"b_inverse": torch.ones(1, 12, dtype=torch.bfloat16)}, "b_inverse is bfloat16"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], message: str) -> None:
    given = dict(zip(("a", "b", "a_inverse", "b_inverse"), operands(), strict=True)) | changes
    with pytest.raises(ValueError, match=message):
        scaled_gemm(**given)


@pytest.mark.execute
def test_a3_another_format_is_refused(virtual_arch: str) -> None:
    other = {E4M3FN: E4M3FNUZ, E4M3FNUZ: E4M3FN}[native_format(virtual_arch)]
    with pytest.raises(ValueError, match=f"{other.name}, which {virtual_arch} does not multiply in hardware"):
        scaled_gemm(*operands(other.dtype))
