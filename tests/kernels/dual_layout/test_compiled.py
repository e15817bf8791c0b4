"""Facts of the compiled kernel: what the two kernels in it have, and no more registers than leave two programs room."""

from __future__ import annotations

import pytest
import torch
from quantizers import Facts, compile_facts

from wavecast.kernels.colwise_per_group.api import colwise_launch
from wavecast.kernels.device import native_format
from wavecast.kernels.dual_layout.kernel import dual_layout_kernel
from wavecast.kernels.dual_layout.plan import plan_dual_layout

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
ELEMENTS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


def facts(arch: str, columns: int, *, dtype: str = "bf16", power_of_two: bool = False) -> Facts:
    """Compile as launched for 32 groups of 1,024 rows."""
    x = torch.empty((32768, columns), dtype=ELEMENTS[dtype], device="meta")
    plan = plan_dual_layout(32768, columns, 32, element_bytes=x.element_size(), arch=arch)
    assert plan.rows is not None
    _, _, constants = colwise_launch(x, 32, fmt=native_format(arch), power_of_two=power_of_two, plan=plan.columns)
    num_warps = constants.pop("num_warps")
    constants |= {
        "BLOCK_M": plan.rows.block_m, "BLOCK_K": plan.rows.block_k, "ROW_PIECES": plan.rows.pieces,
        "VECTOR": plan.rows.vector,
    }  # fmt: skip
    names = dual_layout_kernel.arg_names
    types = dict.fromkeys(names, "i32") | {name: "*fp32" for name in names if name.endswith("_ptr")}
    types |= {"x_ptr": f"*{dtype}", "offs_ptr": "*i32", "row_values_ptr": FP8[arch], "values_ptr": FP8[arch]}
    signature = {name: kind for name, kind in types.items() if name not in constants}
    return compile_facts(dual_layout_kernel, arch=arch, signature=signature, constexprs=constants, num_warps=num_warps)


@pytest.mark.parametrize("columns", [2048, 7168])
@pytest.mark.parametrize("power_of_two", [False, True])
def test_wide_accesses_and_room_for_two_programs_on_a_compute_unit(arch: str, columns: int, power_of_two: bool) -> None:
    """Eight waves a program: two are resident if a lane needs no more than 128 registers."""
    compiled = facts(arch, columns, power_of_two=power_of_two)
    assert compiled.count("(global|buffer)_load_dwordx4") >= 32
    assert compiled.count("(global|buffer)_store_dwordx2") >= 32
    assert compiled.vgpr <= 128
    assert compiled.spills == 0
    assert compiled.lds_bytes <= 32768


def test_no_fence_no_atomic_no_logarithm(arch: str) -> None:
    compiled = facts(arch, 7168)
    assert compiled.count("buffer_(wbl2|inv)") == 0
    assert compiled.count(".*atomic.*") == 0
    assert compiled.count("v_(log|exp)_f32") == 0
    assert compiled.count("v_cvt_(scalef32_)?pk_fp8_f32") > 0
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in compiled.assembly


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_other_inputs_keep_the_widths_and_do_not_spill(arch: str, dtype: str) -> None:
    compiled = facts(arch, 2048, dtype=dtype)
    assert compiled.count("(global|buffer)_load_dwordx4") >= 16
    assert compiled.spills == 0
