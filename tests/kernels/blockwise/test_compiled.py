"""Facts of the compiled block-wise kernel."""

from __future__ import annotations

import pytest
from quantizers import compile_facts

from wavecast.kernels.blockwise.kernel import blockwise_kernel
from wavecast.kernels.blockwise.layout import SIDE
from wavecast.kernels.blockwise.plan import plan_blockwise
from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS

FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


@pytest.mark.compile
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("square", [True, False], ids=["128x128", "1x128"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_one_read_in_16_bytes_native_conversion_and_vector_stores(arch: str, square: bool, dtype: str) -> None:
    itemsize = 4 if dtype == "fp32" else 2
    plan = plan_blockwise(1, 32768, 7168, strides=(0, 7168), square=square, itemsize=itemsize, arch=arch)
    names = {"x_ptr": f"*{dtype}", "values_ptr": FP8[arch], "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
    facts = compile_facts(
        blockwise_kernel,
        arch=arch,
        signature=names | dict.fromkeys(("rows", "vectors", "row_stride", "batch_stride"), "i32"),
        constexprs={"FP8_MAX": native_format(arch).max, "EPS": EPS, "POWER_OF_TWO": True}
        | {"SQUARE": square, "TILE_ROWS": plan.tile_rows, "SIDE": SIDE, "VECTOR": plan.vector},
        num_warps=plan.num_warps,
    )
    vectors = plan.tile_rows * SIDE // (64 * plan.num_warps * plan.vector)
    assert facts.widths("load") == {"dwordx4"}
    assert facts.count("(global|buffer)_load_dwordx4") == vectors
    assert facts.widths("store") == ({"dwordx2", "dword"} if dtype == "bf16" else {"dword"})
    assert facts.count("(global|buffer)_store_.*") == vectors + 2  # and the scale and its inverse
    assert facts.spills == 0
    assert facts.vgpr <= 128  # four workgroups of 4 waves, or two of 8, a compute unit
    assert facts.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in facts.assembly
    assert facts.count("buffer_(wbl2|inv)") == 0
