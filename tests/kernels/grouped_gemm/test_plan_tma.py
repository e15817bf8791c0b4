"""Plans of the GEMMs' kernel for sm_90, and its compilation, without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hopper_code import compiled_for_hopper, tensor_descriptor

from wavecast.kernels.grouped_gemm.launch_tma import plan_tma_2d2d, plan_tma_2d3d, plan_tma_scaled
from wavecast.kernels.grouped_gemm.plan_tma import STAGES, plan_tma_grouped, tma_obstacle

SHARED_MEMORY = 227 * 1024
"""Bytes a program can have on sm_90 (CUDA programming guide, compute capabilities)."""

POSSIBLE: dict[str, Any] = {
    "arch": "sm_90",
    "rows": 300,
    "columns": 96,
    "summed": 64,
    "groups": 4,
    "sum_form": False,
    "strides": (64, 64, 96 * 64),
    "out_stride": 96,
    "element_bytes": 1,
    "out_bytes": 2,
    "aligned": True,
}


def test_nothing_is_in_the_way_of_ordinary_operands() -> None:
    assert tma_obstacle(**POSSIBLE) is None
    assert tma_obstacle(**(POSSIBLE | {"sum_form": True, "strides": (64, 64, 0)})) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arch": "gfx942"}, "gfx942 is not sm_90"),
        ({"arch": "sm_100"}, "sm_100 is not sm_90"),
        ({"arch": None}, "None is not sm_90"),
        ({"rows": 0}, "nothing"),
        ({"summed": 0}, "nothing"),
        ({"aligned": False}, "multiples of 16 bytes"),
        ({"strides": (72, 64, 96 * 64)}, "multiples of 16 bytes"),
        ({"strides": (64, 72, 96 * 72)}, "multiples of 16 bytes"),
        ({"out_stride": 97}, "rows of the result"),
        ({"strides": (64, 64, 100 * 64)}, "without gaps"),
        ({"rows": 2**31 - 1}, "exceed 32 bits"),
        ({"groups": 2**26, "strides": (64, 64, 96 * 64)}, "exceed 32 bits"),
    ],
    ids=str,
)
def test_what_is_in_the_way_is_said(change: dict[str, Any], reason: str) -> None:
    obstacle = tma_obstacle(**(POSSIBLE | change))
    assert obstacle is not None
    assert reason in obstacle


@pytest.mark.parametrize("element_bytes", [1, 2])
@pytest.mark.parametrize("out_bytes", [2, 4])
def test_every_plan_fits_in_shared_memory(element_bytes: int, out_bytes: int) -> None:
    plan = plan_tma_grouped(element_bytes=element_bytes, out_bytes=out_bytes)
    ring = plan.stages * (plan.block_m + plan.block_n) * plan.block_k * element_bytes
    out = 2 * plan.out_stages * (plan.block_m // 2) * (plan.block_n // 4) * out_bytes
    scales, barriers = 2 * plan.block_n * 4, 3 * STAGES * 8
    assert ring + out + scales + barriers <= SHARED_MEMORY
    assert plan.block_k * element_bytes == 128
    assert str(plan.block_n) in plan.reason


def test_plans_are_asked_for_with_tensors() -> None:
    a, b = torch.zeros(32, 64), torch.zeros(48, 64).t()
    weights = torch.zeros(2, 48, 64).transpose(1, 2)
    assert plan_tma_scaled(a, b, torch.zeros(32, 48), "sm_90") is not None
    assert plan_tma_2d2d(a, b, torch.zeros(3, 32, 48), "sm_90") is not None
    assert plan_tma_2d3d(a, weights, torch.zeros(32, 48), "sm_90") is not None
    assert plan_tma_2d3d(a, weights, torch.zeros(32, 48), "gfx950") is None
    gaps = torch.zeros(2, 50, 64)[:, :48].transpose(1, 2)
    assert plan_tma_2d3d(a, gaps, torch.zeros(32, 48), "sm_90") is None


def test_it_compiles_for_the_tensor_memory_accelerator_without_spills() -> None:
    """The form with all four kinds of warps: products of warp groups from shared memory, nothing of it by way of it."""
    pytest.importorskip("triton.backends.nvidia")
    from wavecast.kernels.grouped_gemm.kernel_tma import gemm_tma_kernel

    plan = plan_tma_grouped(element_bytes=1, out_bytes=2)
    constants: dict[str, Any] = {
        "FORM": (True, True, True, 1, 1, False),
        "TILE": (plan.block_m, plan.block_n, plan.block_k, plan.stages, plan.band, plan.k_alignment),
        "OUT_STAGES": plan.out_stages,
    }
    types = {
        "a_desc": tensor_descriptor("fp8e4nv", 8, plan.block_m, plan.block_k),
        "b_desc": tensor_descriptor("fp8e4nv", 8, plan.block_n, plan.block_k),
        "out_desc": tensor_descriptor("bf16", 16, plan.block_m // 2, plan.block_n // 4),
        "out_ptr": "*bf16",
        "a_inverse_ptr": "*fp32",
        "b_inverse_ptr": "*fp32",
        "offs_ptr": "*i32",
    }
    compiled = compiled_for_hopper(gemm_tma_kernel, constants, types)
    ptx = compiled.asm["ptx"]
    assert "cp.async.bulk.tensor.2d.shared::" in ptx
    assert "cp.async.bulk.tensor.2d.global.shared::" in ptx
    consumers, instructions = 2, plan.block_k // 32
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3") == consumers * instructions
    # As an instruction or a directive: the text also holds paths, and packages may lie under ~/.local.
    assert not re.search(r"^\s*(\.local|ld\.local|st\.local)", ptx, re.MULTILINE)
    assert compiled.metadata.shared <= SHARED_MEMORY
    assert compiled.metadata.global_scratch_size == 0
