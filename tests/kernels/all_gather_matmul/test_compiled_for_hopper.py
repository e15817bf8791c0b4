"""The kernel for sm_90, compiled without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hopper_code import compiled_for_hopper, tensor_descriptor

from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul

pytestmark = pytest.mark.compile


@pytest.mark.parametrize(
    ("element_bytes", "dtype", "instruction"),
    [(2, "bf16", "m64n256k16.f32.bf16.bf16"), (1, "fp8e4nv", "m64n256k32.f32.e4m3.e4m3")],
)
def test_the_producer_acquires_and_consumers_multiply_by_warp_groups(
    element_bytes: int, dtype: str, instruction: str
) -> None:
    """The signal is polled, acquired at system scope and fenced for the accelerator; nothing is in local memory."""
    pytest.importorskip("triton.backends.nvidia")
    from wavecast.kernels.all_gather_matmul.kernel_tma import all_gather_matmul_tma_kernel

    tma = plan_all_gather_matmul(
        shard_rows=4096, columns=8192, length=8192, ranks=2, element_bytes=element_bytes, arch="sm_90",
        tma_bytes=(2, 8192 * element_bytes),
    ).tma  # fmt: skip
    assert tma is not None
    constants: dict[str, Any] = {
        "FORM": (False, False, element_bytes == 1, 1, 1, element_bytes == 1),
        "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
        "OUT_STAGES": tma.out_stages,
        "LAST": True,
    }
    bits = 8 * element_bytes
    types = {
        "a_desc": tensor_descriptor(dtype, bits, tma.block_m, tma.block_k),
        "shard_desc": tensor_descriptor(dtype, bits, tma.block_m, tma.block_k),
        "b_desc": tensor_descriptor(dtype, bits, tma.block_n, tma.block_k),
        "out_desc": tensor_descriptor("bf16", 16, tma.block_m // 2, tma.block_n // 4),
        "out_ptr": "*bf16",
        **dict.fromkeys(("a_inverse_ptr", "b_inverse_ptr"), "*fp32"),
        **dict.fromkeys(("signals_ptr", "state_ptr", "failure_ptr"), "*i32"),
    }
    compiled = compiled_for_hopper(all_gather_matmul_tma_kernel, constants, types)
    ptx = compiled.asm["ptx"]
    assert ptx.count(f"wgmma.mma_async.sync.aligned.{instruction}") == 2 * tma.block_k * element_bytes // 32
    assert "ld.volatile.global" in ptx
    assert "fence.acq_rel.sys; fence.proxy.async;" in ptx
    assert "cp.async.bulk.tensor.2d.shared::" in ptx
    assert not re.search(r"^\s*(\.local|ld\.local|st\.local)", ptx, re.MULTILINE)
