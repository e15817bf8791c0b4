"""The digest of a code object names the code, not the machine it was compiled on."""

from __future__ import annotations

from dataclasses import replace

from wavecast.simulator.compile.code_object import CodeObject

ASSEMBLY = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
\t.file\t1 "/home/someone/project" "kernel.py"
kernel:
.Lfunc_begin0:
\t.loc\t1 7 0                          ; kernel.py:7:0
.LBB0_1:
\ts_add_u32 s0, s0, 1
\ts_cbranch_scc0 .LBB0_1
.Ltmp0:
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel kernel
\t\t.amdhsa_next_free_vgpr 5
\t.end_amdhsa_kernel
\t.section\t.debug_str,"MS",@progbits,1
\t.asciz\t"/home/someone/project"       ; string offset=20
\t.amdgpu_metadata
---
    .vgpr_count:     5
\t.end_amdgpu_metadata
"""
CODE = CodeObject("kernel", "gfx942", ASSEMBLY, "triton 3.7.1", 4, 0)


def changed(old: str, new: str) -> str:
    assert old in ASSEMBLY
    return replace(CODE, assembly=ASSEMBLY.replace(old, new)).digest


def test_where_the_source_lies_does_not_count() -> None:
    assert changed("/home/someone", "/elsewhere") == CODE.digest
    assert changed("1 7 0 ", "1 9 2 ") == CODE.digest
    assert changed("; kernel.py:7:0", "; other.py:1:1") == CODE.digest
    assert changed(".Ltmp0", ".Ltmp17") == CODE.digest


def test_what_runs_counts() -> None:
    assert changed("s0, s0, 1", "s0, s0, 2") != CODE.digest
    assert changed("next_free_vgpr 5", "next_free_vgpr 6") != CODE.digest
    assert changed(".vgpr_count:     5", ".vgpr_count:     6") != CODE.digest
    assert changed("s_cbranch_scc0 .LBB0_1", "s_cbranch_scc0 .LBB0_2") != CODE.digest
