"""Facts of the compiled weight transposes."""

from __future__ import annotations

import pytest
import torch
import triton.language as tl
from quantizers import Facts, compile_facts

from wavecast.kernels.device import native_format
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.weight_transpose import baseline
from wavecast.kernels.weight_transpose.kernel import transpose_strip_kernel
from wavecast.kernels.weight_transpose.plan import plan_weight_transpose

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
TILE = {"BLOCK_K": baseline.BLOCK_K, "BLOCK_N": baseline.BLOCK_N}


def strips(arch: str, n: int, *, dtype: str = "bf16") -> Facts:
    fmt = native_format(arch)
    plan = plan_weight_transpose(32, 2048, n, dtype=DTYPES[dtype], arch=arch)
    packed = plan.pack == 4
    signature = {"w_ptr": f"*{dtype}", "words_ptr": "*i32" if packed else "*u8", "scale_ptr": "*fp32"}
    signature |= {"inverse_ptr": "*fp32", "k": "i32", "n": "i32", "programs": "i32"}
    constexprs = {"FP8": fmt.triton_dtype, "FP8_MAX": fmt.max, "EPS": EPS, "POWER_OF_TWO": True}
    constexprs |= {"WORD": tl.int32 if packed else tl.uint8, "KEY": tl.int32 if dtype == "fp32" else tl.int16}
    constexprs |= {"BLOCK_N": plan.block_n, "BLOCK_K": plan.block_k, "RESIDENT_BLOCKS": plan.resident_blocks}
    constexprs |= {"STREAMED": plan.streamed, "PACK": plan.pack, "SHARERS": plan.sharers, "XCDS": plan.xcds}
    return compile_facts(
        transpose_strip_kernel,
        arch=arch,
        signature=signature,
        constexprs=constexprs,
        num_warps=plan.num_warps,
        num_stages=1,
    )


def tile_scale(arch: str, semantics: str) -> Facts:
    signature = {"w_ptr": "*bf16", "stride_e": "i64", "stride_n": "i32", "scale_ptr": "*fp32", "k": "i32", "n": "i32"}
    constexprs = {"stride_k": 1, "FP8_MAX": native_format(arch).max, "EPS": EPS, "POWER_OF_TWO": True}
    return compile_facts(
        baseline.tile_scale_kernel,
        arch=arch,
        signature=signature,
        constexprs=constexprs | {"SEMANTICS": semantics} | TILE,
        num_warps=baseline.NUM_WARPS,
        num_stages=baseline.NUM_STAGES,
    )


@pytest.mark.parametrize(("semantics", "fences"), [("acq_rel", 2), ("relaxed", 0)])
def test_fences_round_the_atomic_minimum(arch: str, semantics: str, fences: int) -> None:
    """A float minimum is a signed minimum and an unsigned maximum, each with its own fences."""
    facts = tile_scale(arch, semantics)
    assert facts.count("buffer_wbl2") == fences
    assert facts.count("buffer_inv") == fences
    assert facts.count("(global|buffer)_atomic_smin") == 1
    assert facts.count("(global|buffer)_atomic_umax") == 1
    assert facts.count("(global|buffer)_load_dwordx4") == baseline.BLOCK_K * baseline.BLOCK_N // (4 * 64 * 8)
    assert facts.spills == 0


def test_the_cast_kernel_transposes_two_bytes_at_a_time(arch: str) -> None:
    signature = {"w_ptr": "*bf16", "stride_e": "i64", "stride_n": "i32", "values_ptr": FP8[arch], "out_stride_e": "i64"}
    signature |= {"out_stride_k": "i32", "scale_ptr": "*fp32", "inverse_ptr": "*fp32", "k": "i32", "n": "i32"}
    facts = compile_facts(
        baseline.tile_cast_kernel,
        arch=arch,
        signature=signature,
        constexprs={"stride_k": 1, "out_stride_n": 1, "FP8_MAX": native_format(arch).max} | TILE,
        num_warps=baseline.NUM_WARPS,
        num_stages=baseline.NUM_STAGES,
    )
    assert facts.lds_bytes == baseline.BLOCK_K * baseline.BLOCK_N * 2
    assert facts.count("ds_write_b16(_d16_hi)?") == 64
    assert facts.count("ds_read2(st64)?_b32") == 16
    assert facts.count("(global|buffer)_load_dwordx4") == 8
    assert facts.count("(global|buffer)_store_dwordx4") == 4
    assert facts.spills == 0


@pytest.mark.parametrize(
    ("n", "dtype"), [(1408, "bf16"), (5120, "bf16"), (7168, "bf16"), (7168, "fp16"), (7168, "fp32")]
)
def test_strips_are_wide_both_ways_and_do_not_spill(arch: str, n: int, dtype: str) -> None:
    facts = strips(arch, n, dtype=dtype)
    plan = plan_weight_transpose(32, 2048, n, dtype=DTYPES[dtype], arch=arch)
    assert facts.widths("load") == {"dwordx4"}
    assert facts.count("(global|buffer)_load_dwordx4") == plan.pack * (plan.resident_blocks + 2 * plan.streamed)
    assert facts.widths("store") == {"dwordx4", "dword"}
    assert facts.count("(global|buffer)_store_dword") == 2  # scale and inverse
    # Whole words through LDS; Triton 3.6 reads the key of a lane's k in its own width.
    assert facts.count("ds_(read|write)_(b|u|i)8.*") == facts.count("ds_write_b16.*") == 0
    assert facts.count("ds_read_(b|u|i)16.*") <= 1
    assert facts.count(".*atomic.*") == 0
    assert facts.count("buffer_(wbl2|inv)") == 0
    assert facts.spills == 0
    assert facts.lds_bytes <= 32 << 10


def test_odd_widths_still_load_wide_and_do_not_spill(arch: str) -> None:
    facts = strips(arch, 5501)
    assert facts.widths("load") == {"dwordx4"}
    assert facts.spills == 0
