"""The kernel, executed as gfx942 and gfx950 code."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gemms import assert_exact, assert_within_bound, exact_and_size, scales, values
from quantizers import guarded_outputs

from wavecast.kernels.device import Path, last_path, native_format
from wavecast.kernels.scaled_gemm import scaled_gemm
from wavecast.kernels.scaled_gemm.api import launch_scaled
from wavecast.kernels.scaled_gemm.plan import plan_gemm

pytestmark = pytest.mark.execute


@pytest.mark.parametrize("row_scales", [True, False])
def test_exact_on_integers(virtual_arch: str, row_scales: bool) -> None:
    """Rows and columns beyond whole tiles, K beyond whole blocks; between canaries, over recycled memory."""
    dtype = native_format(virtual_arch).dtype
    a = values(150, 144, dtype=dtype, exact=True, seed=0)
    b = values(208, 144, dtype=dtype, exact=True, seed=1).t()
    a_inverse = scales(*([150, 1] if row_scales else []), exact=True, seed=2)
    b_inverse = scales(*([1, 208] if row_scales else []), exact=True, seed=3)
    plan = replace(plan_gemm(150, 208, 144, element_bytes=1, arch=virtual_arch), programs=8)
    with guarded_outputs() as guard:
        out = guard.like(torch.empty(150, 208))
        launch_scaled(a, b, a_inverse, b_inverse, out, plan)
    exact, _ = exact_and_size(a, b, a_inverse, b_inverse)
    assert_exact(out, exact)


def test_every_code_within_the_bound(virtual_arch: str) -> None:
    dtype = native_format(virtual_arch).dtype
    a = values(33, 144, dtype=dtype, exact=False, seed=0)
    b = values(48, 144, dtype=dtype, exact=False, seed=1).t()
    given = (a, b, scales(33, 1, exact=False, seed=2), scales(exact=False, seed=3))
    exact, size = exact_and_size(*given)
    out = scaled_gemm(*given)
    assert last_path() is Path.TRITON
    assert_within_bound(out, exact, size, 144)


def test_nothing_to_sum(virtual_arch: str) -> None:
    dtype = native_format(virtual_arch).dtype
    one = torch.ones(())
    for m, k, n in ((20, 0, 16), (0, 16, 16), (16, 16, 0)):
        a = values(m, k, dtype=dtype, exact=True, seed=0)
        out = scaled_gemm(a, values(n, k, dtype=dtype, exact=True, seed=1).t(), one, one, out_dtype=torch.float32)
        assert out.shape == (m, n) and (out == 0).all()
