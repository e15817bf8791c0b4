"""Small hand-written kernels with one pointer and one integer as arguments, and how tests launch them."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavecast.simulator.execute.abi import Grid
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.kernel import Kernel


def build(
    body: str,
    *,
    waves: int = 1,
    arguments: str = "",
    kernarg: int = 16,
    lds: int = 1024,
    extra: str = "",
    end: str = "\ts_endpgm",
    arch: str = "gfx942",
) -> Kernel:
    """A kernel whose s[0:1] is the argument segment and s2, s3, s4 the workgroup id; the arguments are one pointer and
    one int unless given."""
    arguments = arguments or (
        "      - .offset: 0\n        .size: 8\n        .value_kind: global_buffer\n        .name: out\n"
        "      - .offset: 8\n        .size: 4\n        .value_kind: by_value\n        .name: n\n"
    )
    return parse_assembly(
        f"""
\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
test:
{body}
{end}
.Lfunc_end0:
\t.amdhsa_kernel test
\t\t.amdhsa_user_sgpr_count 2
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_system_sgpr_workgroup_id_y 1
\t\t.amdhsa_system_sgpr_workgroup_id_z 1
\t\t.amdhsa_next_free_vgpr 16
{extra}
\t.end_amdhsa_kernel
; NumVgprs: 16
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
{arguments}
    .name:           test
    .kernarg_segment_size: {kernarg}
    .max_flat_workgroup_size: {64 * waves}
...
\t.end_amdgpu_metadata
""",
        lds_bytes=lds,
    )


# Stores (workgroup x + 100 y + 10000 z) at out[(linear workgroup) * lanes + lane].
STORE_ID = """
\t.loc 1 7 0 ; store.py:7:0
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\ts_load_dword s10, s[0:1], 0x8
\ts_mul_i32 s11, s3, 100
\ts_add_u32 s11, s11, s2
\ts_mul_i32 s12, s4, 10000
\ts_add_u32 s11, s11, s12
\tv_mov_b32_e32 v1, s11
\ts_mul_i32 s13, s4, 2
\ts_add_u32 s13, s13, s3
\ts_mul_i32 s13, s13, 3
\ts_add_u32 s13, s13, s2
\ts_mul_i32 s13, s13, s10
\tv_add_u32_e32 v2, s13, v0
\tv_lshlrev_b32_e32 v2, 2, v2
\t.loc 1 9 0 ; store.py:9:0
\tglobal_store_dword v2, v1, s[8:9]
"""


# Wave 0 waits in a loop for a value that wave 1 stores.
SPIN = """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\tv_mov_b32_e32 v1, 0
\tv_mov_b32_e32 v4, 1
\tv_readfirstlane_b32 s12, v0
\ts_waitcnt lgkmcnt(0)
\ts_cmp_lg_u32 s12, 0
\ts_cbranch_scc1 .LBB0_2
.LBB0_1:
\tglobal_load_dword v2, v1, s[8:9] sc1
\ts_waitcnt vmcnt(0)
\tv_readfirstlane_b32 s13, v2
\ts_cmp_eq_u32 s13, 0
\ts_cbranch_scc1 .LBB0_1
\ts_branch .LBB0_3
.LBB0_2:
\tglobal_store_dword v1, v4, s[8:9]
.LBB0_3:
"""


def run(
    engine: Engine, kernel: Kernel, out: np.ndarray, n: int, *, grid: Grid = (1, 1, 1), **options: Any
) -> Execution:
    """Launch a kernel of ``build`` on ``out`` and ``n``."""
    memory = AddressSpace()
    return engine.execute(kernel, grid=grid, arguments=[memory.map_array(out, "out"), n], memory=memory, **options)
