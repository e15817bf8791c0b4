"""A sample of the workgroups against the whole grid: how far it is off, and whether it says so."""

from __future__ import annotations

import importlib.util
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.devices import load_device
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.launch import LaunchResult, simulate_launch

WORKGROUPS = 4096
# Loads and stores its own 256 bytes, (workgroup x multiplier) >> 28 times and once more: what the multiplier is decides
# how the work is spread over the grid.
LOOP = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
loop:
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\ts_load_dword s10, s[0:1], 0x8
\tv_lshlrev_b32_e32 v2, 2, v0
\ts_lshl_b32 s11, s2, 8
\tv_add_u32_e32 v2, s11, v2
\ts_waitcnt lgkmcnt(0)
\ts_mul_i32 s12, s2, s10
\ts_lshr_b32 s12, s12, 28
.LBB0_1:
\tglobal_load_dword v3, v2, s[8:9]
\ts_waitcnt vmcnt(0)
\tv_add_u32_e32 v3, 1, v3
\tglobal_store_dword v2, v3, s[8:9]
\ts_waitcnt vmcnt(0)
\ts_sub_i32 s12, s12, 1
\ts_cmp_ge_i32 s12, 0
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel loop
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_next_free_vgpr 16
\t.end_amdhsa_kernel
; NumVgprs: 16
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset: 0
        .size: 8
        .value_kind: global_buffer
        .name: out
      - .offset: 8
        .size: 4
        .value_kind: by_value
        .name: n
    .name:           loop
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 64
...
\t.end_amdgpu_metadata
"""


def launch(multiplier: int, workgroups: str) -> tuple[LaunchResult, np.ndarray]:
    out = np.zeros(64 * WORKGROUPS, dtype=np.uint32)
    memory = AddressSpace()
    result = simulate_launch(
        CodeObject("loop", "gfx942", LOOP, "by hand", 1, 0),
        grid=(WORKGROUPS, 1, 1),
        arguments=[memory.map_array(out, "out"), multiplier],
        memory=memory,
        device=load_device("mi300x"),
        workgroups=workgroups,  # type: ignore[arg-type]
    )
    return result, out


@pytest.mark.parametrize(
    ("multiplier", "spread"),
    [
        (1, "equal"),  # nobody goes round again
        (1 << 20, "growing"),  # 1 to 16 times along the grid
        (0x9E3779B1, "scattered"),
        (0x70000000, "repeating"),  # a pattern of 16 workgroups
    ],
)
def test_a_sample_is_as_far_off_as_it_says(multiplier: int, spread: str) -> None:
    (whole, out), (sample, _) = launch(multiplier, "all"), launch(multiplier, "sample")
    trips = 1 + ((np.arange(WORKGROUPS) * multiplier % 2**32) >> 28)
    assert (out.reshape(WORKGROUPS, 64) == trips[:, None]).all()
    assert whole.traffic.executed_workgroups == WORKGROUPS
    assert whole.traffic.bytes_asked == 512 * trips.sum()
    assert whole.traffic.sampling_error == 0.0
    assert sample.traffic.executed_workgroups < WORKGROUPS // 4
    error = sample.traffic.sampling_error
    # Every cluster has the whole pattern of 16.
    assert (error == 0.0) is (spread in ("equal", "repeating"))
    assert error < 0.15
    # Three standard errors, and one per cent for what rounding does.
    for name in ("bytes_asked", "l2_read_requests", "l2_write_requests"):
        ratio = getattr(sample.traffic, name) / getattr(whole.traffic, name)
        assert abs(ratio - 1) <= 3 * error + 0.01, name
    # Distinct lines do not depend on how often they are touched.
    for name in ("minimum_read_bytes", "hbm_read_bytes", "hbm_write_bytes", "footprint_bytes"):
        assert getattr(sample.traffic, name) == pytest.approx(getattr(whole.traffic, name), rel=0.01), name
    # The interval of the sample's time holds that of the whole grid's.
    assert sample.time.low_us <= whole.time.predicted_us <= sample.time.high_us


HAS_COMPILER = shutil.which("hipcc") is not None or importlib.util.find_spec("ziglang") is not None
ENDS = np.array([5, 9, 27, 30, 54, 55, 71, 96, 101, 103, 120, 128], dtype=np.int32)
Grid = tuple[int, int, int]
# Kernel, grid, block, and arguments: an array of so many floats, an array, or a number.
Argument = tuple[int] | np.ndarray | int
K, M = 1 << 10, 1 << 20
CASES: dict[str, tuple[str, Grid, Grid, list[Argument]]] = {
    "cube": ("stencil", (16, 16, 16), (8, 8, 8), [(2 * M,), (2 * M,), 128, 128, 128, 1]),
    "plane": ("stencil", (64, 64, 1), (16, 16, 1), [(M,), (M,), K, K, 1, 0]),
    "plane whose rows change the XCD": (
        *("stencil", (61, 67, 1), (16, 16, 1)),
        [(61 * 67 * 256,), (61 * 67 * 256,), 976, 1072, 1, 0],
    ),
    "stream": ("triad", (4096, 1, 1), (256, 1, 1), [(M,), (M,), (M,)]),
    "transpose": ("transpose", (64, 64, 1), (32, 8, 1), [(4 * M,), (4 * M,), 2048]),
    "product by rows": ("panels", (4864, 1, 1), (64, 1, 1), [(M,), (76 * 16 * K,), (19 * M,), 64, 76, 1, 64]),
    "product in groups": ("panels", (4096, 1, 1), (64, 1, 1), [(2 * M,), (512 * K,), (16 * M,), 128, 32, 4, 64]),
    "ragged groups": ("ragged", (3072, 1, 1), (64, 1, 1), [(2 * M,), (4608 * K,), (12 * M,), ENDS, 12, 24, 64]),
    # A row that all share in the buffer whose other lines each workgroup has for itself.
    "corner": ("corner", (128, 128, 1), (16, 16, 1), [(4 * M,), 2048, 300]),
    # Each line is read by two workgroups far apart, which are unequal, and most often on different XCDs.
    "rows and columns": ("both", (96, 43, 1), (64, 1, 1), [(2752 * K,), (2752 * K,), (2752 * K,), 256, 32]),
    "parts of buffers": ("ragged", (3072, 1, 1), (64, 1, 1), [(4 * M,), (9216 * K,), (24 * M,), ENDS, 12, 24, 64]),
}


@cache
def _codes() -> dict[str, CodeObject]:
    return {code.name: code for code in compile_hip(Path(__file__).with_name("grids.hip"), arch="gfx942")}


def launch_case(case: str, workgroups: str) -> LaunchResult:
    kernel, grid, block, arguments = CASES[case]
    memory = AddressSpace()
    values = [np.zeros(entry[0], np.float32) if isinstance(entry, tuple) else entry for entry in arguments]
    return simulate_launch(
        _codes()[kernel],
        grid=grid,
        block=block,
        arguments=[
            memory.map_array(value, str(number)) if isinstance(value, np.ndarray) else value
            for number, value in enumerate(values)
        ],
        memory=memory,
        device=load_device("mi300x"),
        workgroups=workgroups,  # type: ignore[arg-type]
    )


@pytest.mark.compile
@pytest.mark.execute
@pytest.mark.skipif(not HAS_COMPILER, reason="neither hipcc nor ziglang is installed")
@pytest.mark.parametrize("case", CASES)
def test_a_sample_moves_what_the_grid_moves(case: str) -> None:
    """Workgroups that do not run share lines with those that do, along every axis."""
    whole, sample = launch_case(case, "all").traffic, launch_case(case, "sample").traffic
    assert sample.executed_workgroups <= whole.workgroups / 3
    assert sample.sampling_error < 0.25
    # Of panels in a part of a buffer it is not known how many there are.
    bound = 0.25 if case == "parts of buffers" else 0.1
    for name in ("fabric_read_bytes", "hbm_read_bytes", "footprint_bytes"):
        ratio = getattr(sample, name) / getattr(whole, name)
        # No more than three standard errors, and what workgroups at the rims of the grid lack.
        assert abs(ratio - 1) <= min(bound, 0.05 + 3 * sample.sampling_error), (name, ratio)
    for name in ("bytes_asked", "l2_read_requests", "fabric_write_bytes", "hbm_write_bytes"):
        ratio = getattr(sample, name) / getattr(whole, name)
        # Unequal workgroups make the counts, too, a matter of chance.
        assert abs(ratio - 1) <= (0.1 if case in ("corner", "rows and columns") else 0.02), (name, ratio)
