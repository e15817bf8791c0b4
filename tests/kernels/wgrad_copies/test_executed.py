"""The code objects that the GPU would run, executed: equal to the reference byte for byte."""

from __future__ import annotations

import pytest
import torch
from colwise_cases import Case
from quantizers import assert_same_bytes

from wavecast.kernels.device import native_format
from wavecast.kernels.wgrad_copies import VARIANTS
from wavecast.kernels.wgrad_copies.baseline import column_major_copy
from wavecast.kernels.wgrad_copies.reference import wgrad_operands_reference

pytestmark = pytest.mark.execute


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_to_the_reference(virtual_arch: str, variant: str) -> None:
    grad, a = Case("grad", 512, 48, (100, 512)), Case("a", 512, 80, (100, 512))
    wanted = wgrad_operands_reference(grad.x(), a.x(), grad.offs(), fmt=native_format(virtual_arch), power_of_two=True)
    out = VARIANTS[variant](grad.x(), a.x(), grad.offs(), power_of_two=True)
    for name, one, (values, scale, _) in zip(("grad", "a"), (out.grad_output, out.a), wanted, strict=True):
        assert_same_bytes(f"{name} values", one.values, values)
        assert_same_bytes(f"{name} scale", one.scale, scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_copy_is_exact_with_tails(virtual_arch: str, dtype: torch.dtype) -> None:
    x = Case("copy", 131, 70, (131,), dtype=dtype, special=True).x()
    copy = column_major_copy(x)
    assert copy.stride() == (1, 131)
    assert torch.equal(copy.contiguous().view(torch.int16), x.contiguous().view(torch.int16))
