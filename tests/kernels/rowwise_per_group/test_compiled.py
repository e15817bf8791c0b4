"""Facts of the compiled kernel."""

from __future__ import annotations

import pytest
import torch
from quantizers import Facts, compile_facts

from wavecast.kernels.device import native_format
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.rowwise_per_group.api import rowwise_per_group_launch
from wavecast.kernels.rowwise_per_group.kernel import rowwise_per_group_kernel
from wavecast.kernels.rowwise_per_group.plan import RowwisePerGroupPlan, plan_rowwise_per_group

pytestmark = [pytest.mark.compile, pytest.mark.parametrize("arch", ["gfx942", "gfx950"])]
FP8 = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
POINTERS = ("offs_ptr", "values_ptr", "scale_ptr", "inverse_ptr")
SIZES = ("m", "k_units", "row_stride_units", "groups")


def compiled(arch: str, k: int, groups: int, *, dtype: str = "bf16") -> tuple[Facts, RowwisePerGroupPlan]:
    x = torch.empty((2048, k), dtype=DTYPES[dtype], device="meta")
    plan = plan_rowwise_per_group(2048, k, groups, dtype=x.dtype, arch=arch)
    fmt = native_format(arch)
    _, _, constants = rowwise_per_group_launch(x, groups, Conversion(fmt, fmt.max, True, arch), plan)
    signature = {"x_ptr": f"*{dtype}"} | dict(zip(POINTERS, ("*i32", FP8[arch], "*fp32", "*fp32"), strict=True))
    facts = compile_facts(
        rowwise_per_group_kernel,
        arch=arch,
        signature=signature | dict.fromkeys(SIZES, "i32"),
        constexprs={name: value for name, value in constants.items() if name != "num_warps"},
        num_warps=plan.num_warps,
        unspecialised=SIZES,
    )
    return facts, plan


@pytest.mark.parametrize(("k", "groups", "dtype"), [(32768, 32, "bf16"), (65536, 1, "bf16"), (32768, 32, "fp32")])
def test_whole_vectors_are_wide_and_cut_ones_are_bytes(arch: str, k: int, groups: int, dtype: str) -> None:
    """The held block and the two loops of longer groups load in 16 bytes and store 8 (of fp32: 4); the vectors that the
    two bounds of a group cut, and the two of the zeroed columns, are stored byte by byte."""
    facts, plan = compiled(arch, k, groups, dtype=dtype)
    vectors = plan.block_m * plan.block_k // (plan.num_warps * 64 * plan.vector)
    assert facts.count("(global|buffer)_load_dwordx4") >= 3 * vectors
    narrow = "dwordx2" if dtype != "fp32" else "dword"
    assert facts.count(f"(global|buffer)_store_{narrow}") >= 3 * vectors
    lanes = plan.num_warps * 64
    of_zeros = 2 * max(plan.block_m * plan.vector // lanes, 1)
    assert facts.count("(global|buffer)_store_byte") == max(plan.block_m * 2 * plan.vector // lanes, 1) + of_zeros
    assert facts.widths("store") <= {"byte", "dword", "dwordx2"}
    assert facts.spills == 0
    assert facts.vgpr <= 128


def test_odd_sizes_do_not_spill(arch: str) -> None:
    facts, _ = compiled(arch, 32767, 32)
    assert facts.spills == 0
    assert facts.vgpr <= 128
