"""Facts of the compiled expert weight quantizers; the fused one is the row-wise kernel, tested there."""

from __future__ import annotations

import pytest
from quantizers import Facts, compile_facts

from wavecast.kernels.device import native_format
from wavecast.kernels.expert_weights import baseline
from wavecast.kernels.reference_ops import EPS

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}


def two_pass(arch: str) -> Facts:
    signature = {"w_ptr": "*bf16", "stride_e": "i64", "stride_n": "i32", "values_ptr": FP8[arch], "out_stride_e": "i64"}
    signature |= {"out_stride_n": "i32", "scale_ptr": "*fp32", "inverse_ptr": "*fp32", "k": "i32", "n": "i32"}
    return compile_facts(
        baseline.two_pass_kernel,
        arch=arch,
        signature=signature,
        constexprs={
            "stride_k": 1,
            "out_stride_k": 1,
            "FP8_MAX": native_format(arch).max,
            "EPS": EPS,
            "POWER_OF_TWO": True,
            "BLOCK_K": baseline.FUSED_BLOCK_K,
            "BLOCK_N": baseline.FUSED_BLOCK_N,
        },
        num_warps=baseline.FUSED_NUM_WARPS,
        num_stages=baseline.FUSED_NUM_STAGES,
    )


def test_two_passes_read_each_value_twice_and_store_it_once(arch: str) -> None:
    facts = two_pass(arch)
    tile_bytes = baseline.FUSED_BLOCK_K * baseline.FUSED_BLOCK_N
    wave_bytes = 64 * 16 * baseline.FUSED_NUM_WARPS
    assert facts.widths("load") == {"dwordx4"}
    assert facts.count("(global|buffer)_load_dwordx4") == 2 * (2 * tile_bytes // wave_bytes)
    assert facts.count("(global|buffer)_store_dwordx4") == tile_bytes // wave_bytes
    assert facts.spills == 0


def test_scales_of_the_chain_need_no_logarithm(arch: str) -> None:
    facts = compile_facts(
        baseline.round_kernel,
        arch=arch,
        signature={"scale_ptr": "*fp32", "inverse_ptr": "*fp32", "count": "i32"},
        constexprs={"POWER_OF_TWO": True, "BLOCK": baseline.BLOCK},
        num_warps=baseline.NUM_WARPS,
    )
    assert facts.count("v_(log|exp)_f32") == 0
    assert facts.widths("load") == facts.widths("store") == {"dwordx4"}
