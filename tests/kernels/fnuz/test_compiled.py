"""Facts of the compiled wrong-maximum kernel."""

from __future__ import annotations

import pytest
import torch
from quantizers import Facts, compile_facts

from wavecast.kernels.fnuz.baseline import WRONG_MAXIMUM
from wavecast.kernels.fnuz.kernel import rowwise_resident_kernel
from wavecast.kernels.fnuz.plan import plan_rowwise
from wavecast.kernels.formats import E4M3FNUZ
from wavecast.kernels.reference_ops import EPS


def compiled(arch: str, maximum: float) -> Facts:
    plan = plan_rowwise(32768, 4096, dtype=torch.bfloat16, arch=arch)
    signature = {"x_ptr": "*bf16", "values_ptr": "*fp8e4b8", "scale_ptr": "*fp32", "inverse_ptr": "*fp32"}
    constexprs = {"FP8_MAX": maximum, "EPS": EPS, "POWER_OF_TWO": False, "PIECES": plan.pieces}
    return compile_facts(
        rowwise_resident_kernel,
        arch=arch,
        signature=signature | {"m": "i32", "k": "i32", "x_row_stride": "i32"},
        constexprs=constexprs | {"BLOCK_M": plan.block_m, "BLOCK_K": plan.block_k, "VECTOR": plan.vector},
        num_warps=plan.num_warps,
    )


@pytest.mark.compile
def test_the_bug_costs_nothing_so_no_profile_shows_it() -> None:
    wrong, right = compiled("gfx942", WRONG_MAXIMUM), compiled("gfx942", E4M3FNUZ.max)
    assert wrong.opcodes == right.opcodes
    assert wrong.vgpr == right.vgpr
    assert "hwreg(HW_REG_MODE, 23, 1), 1" in wrong.assembly  # saturate: the overflow is silent


@pytest.mark.compile
def test_e4m3fnuz_is_converted_in_software_on_gfx950() -> None:
    assert compiled("gfx942", E4M3FNUZ.max).count("v_cvt_pk_fp8_f32") > 0
    assert compiled("gfx950", E4M3FNUZ.max).count("v_cvt_(scalef32_)?pk_fp8_f32") == 0
