"""Facts of the compiled row-wise kernels."""

from __future__ import annotations

import pytest
import torch
from quantizers import Facts, compile_facts

from wavecast.kernels.device import native_format
from wavecast.kernels.formats import E4M3FN, E4M3FNUZ, Fp8Format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.rowwise import baseline
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel
from wavecast.kernels.rowwise.plan import plan_rowwise

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}
POINTERS = {E4M3FNUZ: "*fp8e4b8", E4M3FN: "*fp8e4nv"}
ROWS = 1 << 24
"""Enough that short rows are bundled fully."""


def fused(arch: str, m: int, k: int, *, dtype: str = "bf16", fmt: Fp8Format | None = None) -> Facts:
    fmt = native_format(arch) if fmt is None else fmt
    plan = plan_rowwise(m, k, dtype=DTYPES[dtype], arch=arch)
    fn = rowwise_resident_kernel if plan.resident else rowwise_streaming_kernel
    names = {"x_ptr": f"*{dtype}", "values_ptr": POINTERS[fmt], "scale_ptr": "*fp32"}
    names |= {"inverse_ptr": "*fp32"}
    sizes = {"m": "i32", "k": "i32", "x_row_stride": "i32"} if plan.resident else {"k": "i32", "x_row_stride": "i32"}
    blocks = {"BLOCK_M": plan.block_m, "PIECES": plan.pieces} if plan.resident else {}
    return compile_facts(
        fn,
        arch=arch,
        signature=names | sizes,
        constexprs=blocks
        | {
            "FP8_MAX": fmt.max,
            "EPS": EPS,
            "POWER_OF_TWO": True,
            "BLOCK_K": plan.block_k,
            "VECTOR": plan.vector,
        },
        num_warps=plan.num_warps,
    )


@pytest.mark.parametrize(
    ("k", "dtype"),
    [*((k, "bf16") for k in (16, 512, 7168, 65536)), (2048, "fp16"), (65536, "fp16"), (512, "fp32"), (65536, "fp32")],
)
def test_values_are_read_once_in_16_bytes_and_stored_in_vectors(arch: str, k: int, dtype: str) -> None:
    facts = fused(arch, ROWS, k, dtype=dtype)
    plan = plan_rowwise(ROWS, k, dtype=DTYPES[dtype], arch=arch)
    vectors = plan.block_m * plan.block_k // (plan.num_warps * 64 * plan.vector)
    assert facts.widths("load") == {"dwordx4"}
    assert facts.count("(global|buffer)_load_dwordx4") == vectors
    stores = facts.count("(global|buffer)_store_dword.*")
    if dtype == "fp32":  # 4 values a vector, 4 bytes; the scales may be joined to wider stores
        assert facts.count("(global|buffer)_store_dword") >= vectors
    else:  # 8 values a vector, 8 bytes
        assert facts.count("(global|buffer)_store_dwordx2") >= vectors
    assert facts.widths("store") <= {"dword", "dwordx2", "dwordx4"}
    assert stores - vectors <= 4  # scale and inverse
    assert facts.spills == 0


def test_long_rows_are_read_twice_in_16_bytes(arch: str) -> None:
    facts = fused(arch, 16, 1 << 20)
    assert facts.widths("load") == {"dwordx4"}
    assert facts.widths("store") == {"dwordx2", "dword"}
    assert facts.spills == 0


def test_the_conversion_is_native_and_saturates(arch: str) -> None:
    facts = fused(arch, 32768, 2048)
    assert facts.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in facts.assembly
    assert facts.count("v_(log|exp)_f32") == 0


def test_the_chain_moves_13_bytes_a_value(arch: str) -> None:
    """Width of each access of a lane, for the four values that a lane of the elementwise launches has."""
    common = {"x_ptr": "*bf16", "scale_ptr": "*fp32", "product_ptr": "*fp32", "values_ptr": FP8[arch]}
    row = {"k": "i32", "x_row_stride": "i32"}

    def compiled(fn: object, *names: str, **constexprs: object) -> Facts:
        types = common | row | {"amax_ptr": "*fp32", "count": "i32"}
        return compile_facts(
            fn,
            arch=arch,
            signature={name: types[name] for name in names},
            constexprs=constexprs,
            num_warps=baseline.NUM_WARPS,
        )

    amax = compiled(baseline.row_amax_kernel, "x_ptr", "amax_ptr", "k", "x_row_stride", BLOCK_K=baseline.BLOCK)
    multiply = compiled(
        baseline.multiply_kernel, "x_ptr", "scale_ptr", "product_ptr", "k", "x_row_stride", BLOCK=baseline.BLOCK
    )
    cast = compiled(
        baseline.saturating_cast_kernel, "product_ptr", "values_ptr", "count", FP8_MAX=1.0, BLOCK=baseline.BLOCK
    )
    assert amax.widths("load") == {"dwordx2"}
    assert multiply.widths("load") == {"dwordx2"}
    assert multiply.widths("store") == {"dwordx4"}
    assert cast.widths("load") == {"dwordx4"}
    assert cast.widths("store") == {"dword"}


@pytest.mark.parametrize("fmt", [E4M3FN, E4M3FNUZ], ids=lambda fmt: fmt.name)
def test_a3_only_the_native_format_is_converted_in_hardware(arch: str, fmt: Fp8Format) -> None:
    """The other one is right too (see the executed tests), in several times as many instructions."""
    native, other = fused(arch, ROWS, 2048), fused(arch, ROWS, 2048, fmt=fmt)
    vector = "v_(?!mov|readfirstlane).*"
    assert (other.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0) is fmt.is_native_on(arch)
    assert (other.count(vector) > 2 * native.count(vector)) is not fmt.is_native_on(arch)
