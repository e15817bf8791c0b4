"""Facts of the kernels as they are launched on DeepSeek-V3's shapes: instructions, widths, registers, LDS."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from gemm_code import DEVICES, MATRIX, Compiled, compiled, loads

from wavecast.kernels.device import native_format
from wavecast.kernels.grouped_gemm import grouped_gemm
from wavecast.kernels.grouped_gemm.plan import GemmPlan, Tile, candidates, plan_gemm

pytestmark = pytest.mark.compile
GROUPS, TOKENS, K, N = 32, 32768, 7168, 4096


@cache
def rows_form(arch: str, fp8: bool = True) -> tuple[Compiled, GemmPlan]:
    dtype = native_format(arch).dtype if fp8 else torch.bfloat16
    a, b = torch.empty(TOKENS, K, dtype=dtype), torch.empty(GROUPS, N, K, dtype=dtype).transpose(1, 2)
    scales = (torch.empty(TOKENS), torch.empty(GROUPS, N)) if fp8 else (None, None)
    plan = plan_gemm(TOKENS, N, K, GROUPS, jagged=True, element_bytes=a.element_size(), arch=arch)
    return compiled(arch, lambda: grouped_gemm(a, b, torch.empty(GROUPS, dtype=torch.int32), *scales)), plan


@cache
def sum_form(arch: str) -> tuple[Compiled, GemmPlan]:
    dtype = native_format(arch).dtype
    a, b = torch.empty(N, TOKENS, dtype=dtype), torch.empty(K, TOKENS, dtype=dtype).t()
    scales = torch.empty(GROUPS, N), torch.empty(GROUPS, K)
    plan = plan_gemm(N, K, TOKENS // GROUPS, GROUPS, element_bytes=1, arch=arch)
    return compiled(arch, lambda: grouped_gemm(a, b, torch.empty(GROUPS, dtype=torch.int32), *scales)), plan


EVERY = pytest.mark.parametrize(
    ("form", "arch"),
    [(rows_form, "gfx942"), (rows_form, "gfx950"), (sum_form, "gfx942"), (sum_form, "gfx950")],
    ids=["rows-gfx942", "rows-gfx950", "sum-gfx942", "sum-gfx950"],
)


@EVERY
def test_the_loop_loads_16_bytes_a_lane_and_multiplies_in_fp8(form: Callable, arch: str) -> None:
    """As many loads and matrix instructions as the tile needs, LDS in 16 bytes, no register spilled."""
    kernel, plan = form(arch)
    opcode, count = kernel.matrix_instructions()
    waves = plan.num_warps
    assert opcode.endswith("fp8_fp8" if arch == "gfx942" else "f8f6f4")
    assert count * MATRIX[opcode] * waves == plan.block_m * plan.block_n * plan.block_k
    assert kernel.widths(r"(?:buffer|global)_load_(\w+)", loop=True) == {"dwordx4"}
    assert loads(kernel.loop) * waves * 64 * 16 == (plan.block_m + plan.block_n) * plan.block_k
    assert kernel.widths(r"ds_(?:read|write)_(\w+)", loop=True) == {"b128"}
    assert not kernel.widths(r"(scratch_.*)", loop=True)


@EVERY
def test_stores_take_16_bytes_a_lane(form: Callable, arch: str) -> None:
    kernel, _ = form(arch)
    assert kernel.widths(r"(?:buffer|global)_store_(\w+)", loop=False) == {"dwordx4"}


@EVERY
def test_registers_and_lds(form: Callable, arch: str) -> None:
    """Two waves a SIMD, and two workgroups' LDS where the plan wants two; nothing spilled."""
    kernel, plan = form(arch)
    assert kernel.vgpr <= 256
    assert kernel.spills == 0
    assert kernel.lds_bytes <= 65536 // (1 if plan.num_warps == 8 else 2)


@pytest.mark.parametrize(
    ("arch", "tile"),
    [pytest.param(arch, tile, id=f"{arch}-{tile.m}x{tile.n}") for arch in DEVICES for tile in candidates(arch, 1)],
)
def test_no_candidate_spills(arch: str, tile: Tile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms; K, which is no multiple of a block, has the rows cut their last one, as sums always do."""
    monkeypatch.setattr(f"wavecast.kernels.grouped_gemm.plan._{arch.upper()}", (tile,))
    dtype, ends, cut = native_format(arch).dtype, torch.empty(GROUPS, dtype=torch.int32), K + 16
    a, b = torch.empty(TOKENS, cut, dtype=dtype), torch.empty(GROUPS, N, cut, dtype=dtype).transpose(1, 2)
    left, right = torch.empty(N, TOKENS, dtype=dtype), torch.empty(K, TOKENS, dtype=dtype).t()
    plan_gemm.cache_clear()
    rows = compiled(arch, lambda: grouped_gemm(a, b, ends, torch.empty(TOKENS), torch.empty(GROUPS, N)))
    sums = compiled(arch, lambda: grouped_gemm(left, right, ends, torch.empty(GROUPS, N), torch.empty(GROUPS, K)))
    plan_gemm.cache_clear()
    assert (rows.spills, sums.spills) == (0, 0)


def test_bf16_takes_the_same_kernel() -> None:
    kernel, plan = rows_form("gfx942", fp8=False)
    opcode, count = kernel.matrix_instructions()
    assert count * MATRIX[opcode] * plan.num_warps == plan.block_m * plan.block_n * plan.block_k
    assert kernel.widths(r"(?:buffer|global)_load_(\w+)", loop=True) == {"dwordx4"}
    assert kernel.spills == 0
