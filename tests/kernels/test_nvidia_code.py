"""What the quantizers compile to for sm_90, which needs no GPU either."""

from __future__ import annotations

import re

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import driver

from wavecast.kernels.formats import E4M3FN, Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel
from wavecast.kernels.rowwise.plan import plan_rowwise

pytestmark = pytest.mark.compile
TARGET = GPUTarget("cuda", 90, 32)


class _Driver:
    """The one thing that kernels ask of a driver when they are compiled: its target."""

    def get_current_target(self) -> GPUTarget:
        return TARGET


@pytest.fixture(autouse=True)
def sm_90(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_active", _Driver())


def ptx(k: int, fmt: Fp8Format) -> str:
    """Code of the row-wise kernel for rows of k values."""
    plan = plan_rowwise(32768, k, dtype=torch.bfloat16, arch="sm_90")
    constants = {"FP8_MAX": fmt.max, "EPS": EPS, "POWER_OF_TWO": False, "BLOCK_M": plan.block_m}
    constants |= {"BLOCK_K": plan.block_k, "PIECES": plan.pieces, "VECTOR": plan.vector}
    types = {"x_ptr": "*bf16", "values_ptr": "*fp8e4nv", "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
    names = rowwise_resident_kernel.arg_names
    source = ASTSource(
        rowwise_resident_kernel,
        {name: "constexpr" if name in constants else types.get(name, "i32") for name in names},
        {(names.index(name),): value for name, value in constants.items()},
        {(index,): [["tt.divisibility", 16]] for index, name in enumerate(names) if name not in constants},
    )
    return triton.compile(source, target=TARGET, options={"num_warps": plan.num_warps}).asm["ptx"]


@pytest.mark.parametrize("k", [5120, 7168])
def test_a_row_is_loaded_once_in_16_bytes_and_no_further(k: int) -> None:
    code = ptx(k, E4M3FN)
    assert len(re.findall(r"ld\.global\.v4\.b32", code)) == k // 1024
    assert len(re.findall(r"st\.global\.v2\.b32", code)) == k // 1024
    assert "st.local" not in code


def test_the_conversion_saturates_and_a_smaller_maximum_is_clamped_with_nan_kept() -> None:
    converted, limited = ptx(5120, E4M3FN), ptx(5120, E4M3FN.limited_to(224))
    assert "cvt.rn.satfinite.e4m3x2.f32" in converted
    assert not re.search(r"(min|max)\.NaN\.f32", converted)
    assert "cvt.rn.satfinite.e4m3x2.f32" in limited
    assert "min.NaN.f32" in limited
    assert "max.NaN.f32" in limited
