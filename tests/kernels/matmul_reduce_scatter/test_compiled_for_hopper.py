"""The kernel for sm_90, compiled without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hopper_code import compiled_for_hopper, tensor_descriptor

from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter

pytestmark = pytest.mark.compile
SHARED_MEMORY = 227 * 1024


@pytest.mark.parametrize(
    ("element_bytes", "dtype", "instruction"),
    [(2, "bf16", "m64n256k16.f32.bf16.bf16"), (1, "fp8e4nv", "m64n256k32.f32.e4m3.e4m3")],
)
def test_sums_are_written_in_lines_and_nothing_is_in_local_memory(
    element_bytes: int, dtype: str, instruction: str
) -> None:
    pytest.importorskip("triton.backends.nvidia")
    from wavecast.kernels.matmul_reduce_scatter.kernel_tma import matmul_reduce_scatter_tma_kernel

    tma = plan_matmul_reduce_scatter(
        rows=4096, columns=8192, length=8192, ranks=2, element_bytes=element_bytes, arch="sm_90",
        tma_stride_bytes=8192 * element_bytes,
    ).tma  # fmt: skip
    assert tma is not None
    constants: dict[str, Any] = {
        "FORM": (element_bytes == 1, 1, 1),
        "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
    }
    types = {
        "a_desc": tensor_descriptor(dtype, 8 * element_bytes, tma.block_m, tma.block_k),
        "b_desc": tensor_descriptor(dtype, 8 * element_bytes, tma.block_n, tma.block_k),
        "out_ptr": "*bf16",
        "factor": "fp32",
        **dict.fromkeys(("a_inverse_ptr", "b_inverse_ptr", "window_ptr"), "*fp32"),
        **dict.fromkeys(("signals_ptr", "state_ptr", "failure_ptr"), "*i32"),
        **dict.fromkeys(("windows_ptr", "pads_ptr"), "*i64"),
    }
    divisible = ("out_ptr", "window_ptr", "n", "a_inverse_ptr", "b_inverse_ptr")
    compiled = compiled_for_hopper(matmul_reduce_scatter_tma_kernel, constants, types, divisible=divisible)
    ptx = compiled.asm["ptx"]
    assert ptx.count(f"wgmma.mma_async.sync.aligned.{instruction}") == 2 * tma.block_k * element_bytes // 32
    assert re.search(r"st\.global\.v4\.b32", ptx)
    assert "fence.acq_rel.sys" in ptx
    assert re.search(r"atom\.global\.sys\.acq_rel\.add", ptx)
    assert not re.search(r"^\s*(\.local|ld\.local|st\.local)", ptx, re.MULTILINE)
    assert compiled.metadata.shared <= SHARED_MEMORY
