"""A sample of the workgroups against the whole grid: how far it is off, and whether it says so."""

from __future__ import annotations

import numpy as np
import pytest

from wavecast.simulator.compile.code_object import CodeObject
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
