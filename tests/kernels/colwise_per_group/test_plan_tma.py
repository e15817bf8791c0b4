"""The kernel for sm_90: what it cannot take, and what it compiles to, without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hopper_code import compiled_for_hopper, tensor_descriptor

from wavecast.kernels.colwise_per_group.api import allocate_colwise
from wavecast.kernels.colwise_per_group.launch_tma import LARGER_KEY, ZERO_KEYS, choose_tma
from wavecast.kernels.colwise_per_group.plan_tma import PART, STAGES, plan_tma, tma_obstacle
from wavecast.kernels.formats import E4M3FN, E5M2
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.reference_ops import EPS

SHARED_MEMORY = 227 << 10
FITS: dict[str, Any] = {
    "arch": "sm_90", "rows": 32768, "columns": 2048, "groups": 8, "row_stride": 2048, "element_bytes": 2,
    "stacked": False, "saturates": True, "aligned": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("differs", "obstacle"),
    [
        ({"arch": "gfx942"}, "gfx942 is not sm_90"),
        ({"element_bytes": 4}, "pairs of 16 bits"),
        ({"saturates": False}, "another format or maximum"),
        ({"rows": 0}, "nothing to quantize"),
        ({"rows": 32760}, "multiples of 16 bytes"),
        ({"row_stride": 2049}, "multiples of 16 bytes"),
        ({"aligned": False}, "multiples of 16 bytes"),
        ({"stacked": True, "columns": 2056}, "in the next matrix"),
        ({"rows": 1 << 18}, "would not all be running"),
        ({"groups": 1 << 20}, "exceed 32 bits"),
    ],
)
def test_what_it_cannot_take(differs: dict[str, Any], obstacle: str) -> None:
    assert tma_obstacle(**FITS) is None
    found = tma_obstacle(**FITS | differs)
    assert found is not None
    assert obstacle in found


def test_the_parts_of_the_longest_group_are_all_running() -> None:
    """They wait for each other, and each is held whole: one program a part, a piece more for a start within 16 rows."""
    plan = plan_tma()
    pieces = -(-(plan.most_rows + 15) // plan.rows)
    assert -(-pieces // plan.part) <= plan.programs
    assert PART < STAGES


def test_tensors_are_looked_at() -> None:
    x, offs = torch.zeros(64, 40, dtype=torch.bfloat16), torch.tensor([64])
    values = allocate_colwise(x, offs, E4M3FN.dtype).values.t()
    native = Conversion(E4M3FN, E4M3FN.max, False, "sm_90")
    assert choose_tma(x, values, 1, native) == plan_tma()
    assert choose_tma(x, values, 1, Conversion(E5M2, E5M2.max, False, "sm_90")) is None
    assert choose_tma(x, values, 1, Conversion(E4M3FN, 240.0, False, "sm_90")) is None
    assert choose_tma(x[:, :39], values, 1, native) == plan_tma()
    assert choose_tma(torch.zeros(64, 41, dtype=torch.bfloat16), values, 1, native) is None
    assert choose_tma(x.float(), values, 1, native) is None


@pytest.mark.compile
@pytest.mark.parametrize("stacked", [False, True])
def test_it_compiles_to_loads_and_stores_by_the_accelerator_without_spills(stacked: bool) -> None:
    pytest.importorskip("triton.backends.nvidia")
    from wavecast.kernels.colwise_per_group.kernel_tma import colwise_tma_kernel

    plan = plan_tma()
    zero_key = ZERO_KEYS[torch.bfloat16]
    larger = LARGER_KEY.format(unit=zero_key * 0x10001)
    constants: dict[str, Any] = {
        "TILE": plan.tile,
        "NUMERICS": (zero_key, larger, E4M3FN.max, EPS, True, stacked),
        "REGISTERS": plan.registers,
    }
    types = {
        "x_desc": tensor_descriptor("bf16", 16, plan.rows, plan.columns),
        "out_desc": tensor_descriptor("fp8e4nv", 8, plan.columns, plan.rows),
        "out_ptr": "*fp8e4nv",
        **dict.fromkeys(("scale_ptr", "inverse_ptr"), "*fp32"),
        **dict.fromkeys(("keys_ptr", "counts_ptr", "offs_ptr"), "*i32"),
    }
    compiled = compiled_for_hopper(colwise_tma_kernel, constants, types)
    ptx = compiled.asm["ptx"]
    assert "cp.async.bulk.tensor.2d.shared::" in ptx
    assert "cp.async.bulk.tensor.2d.global.shared::" in ptx
    assert "max.s16x2" in ptx
    assert "cvt.rn.satfinite.e4m3x2.f32" in ptx
    assert not re.search(r"^\s*(\.local|ld\.local|st\.local)", ptx, re.MULTILINE)
    assert compiled.metadata.shared <= SHARED_MEMORY
