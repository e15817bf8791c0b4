"""The parser: text of a real shape, with every syntax that compilers use."""

from __future__ import annotations

import pytest

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.assembly import parse_assembly
from wavecast.simulator.program.instruction import EXEC, VCC, Immediate, Register, RegisterFile, Symbol

TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
\t.file\t1 "/src" "kernel.py"
first:
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel first
\t\t.amdhsa_next_free_vgpr 1
\t.end_amdhsa_kernel
second:
.Lfunc_begin1:
\t.loc\t1 10 0 prologue_end             ; kernel.py:10:0
; %bb.0:
\ts_load_dwordx2 s[2:3], s[0:1], 0x8
\ts_waitcnt vmcnt(3) & lgkmcnt(0)
\tv_mov_b32_e32 v1, -16
.LBB1_1:                                ; =>This Inner Loop Header
\t.loc\t2 191 40                          ; standard.py:191:40 @[ kernel.py:12:5 ]
\tv_add_f32_e64 v2, -|v3|, 0.5 clamp
\tv_cndmask_b32_sdwa v4, sext(v5), v6, vcc dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 src1_sel:DWORD
\tglobal_load_dwordx4 v[8:11], v[12:13], off offset:-4096 sc0 nt
\tds_swizzle_b32 v1, v2 offset:swizzle(SWAP,16)
\tv_mov_b32_dpp v7, v8 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1
\ts_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
\tv_mfma_f32_4x4x4_16b_bf16 a[2:5], v[56:57], v[28:29], a[2:5] cbsz:4 abid:1
\tv_cmp_lt_u32_e32 vcc, 0x7f, v1
\ts_and_saveexec_b64 s[4:5], vcc
\ts_cbranch_execz .LBB1_1
; %bb.2:
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel second
\t\t.amdhsa_group_segment_fixed_size 128
\t\t.amdhsa_private_segment_fixed_size 64
\t\t.amdhsa_user_sgpr_count 4
\t\t.amdhsa_next_free_vgpr .L.symbol
\t\t.amdhsa_accum_offset 16
\t.end_amdhsa_kernel
\t.set .L.symbol, 20
; NumVgprs: 14
; NumAgprs: 4
; TotalNumSgprs: 12
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .kernarg_segment_size: 0
    .max_flat_workgroup_size: 64
    .name:           first
  - .agpr_count:     4
    .args:
      - .offset:         8
        .size:           4
        .value_kind:     by_value
        .name:           n
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         16
        .size:           4
        .value_kind:     hidden_block_count_x
    .kernarg_segment_size: 24
    .max_flat_workgroup_size: 256
    .name:           second
    .vgpr_spill_count: 3
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
...
\t.end_amdgpu_metadata
"""


@pytest.fixture(scope="module")
def kernel():
    return parse_assembly(TEXT, name="second", lds_bytes=1024)


def test_resources_and_arguments(kernel) -> None:
    resources = kernel.resources
    assert (kernel.arch, kernel.workgroup_size, kernel.kernarg_bytes) == ("gfx942", 256, 24)
    assert (resources.vgpr, resources.arch_vgpr, resources.agpr, resources.accum_offset) == (20, 14, 4, 16)
    assert (resources.sgpr, resources.lds_bytes, resources.scratch_bytes, resources.vgpr_spills) == (12, 1152, 64, 3)
    assert [(a.offset, a.size, a.name, a.is_hidden) for a in kernel.arguments] == [
        (0, 8, "", False),
        (8, 4, "n", False),
        (16, 4, "", True),
    ]


def test_only_the_named_function_is_read(kernel) -> None:
    assert [i.opcode for i in kernel.instructions] == [
        "s_load_dwordx2",
        "s_waitcnt",
        "v_mov_b32",
        "v_add_f32",
        "v_cndmask_b32",
        "global_load_dwordx4",
        "ds_swizzle_b32",
        "v_mov_b32",
        "s_setreg_imm32_b32",
        "v_mfma_f32_4x4x4_16b_bf16",
        "v_cmp_lt_u32",
        "s_and_saveexec_b64",
        "s_cbranch_execz",
        "s_endpgm",
    ]


def test_blocks_and_targets(kernel) -> None:
    assert kernel.blocks == (0, 3, 13)
    assert kernel.instructions[12].target == 3
    assert [i.block for i in kernel.instructions] == [0] * 3 + [1] * 10 + [2]


def test_source_lines_are_those_of_the_kernel_not_of_inlined_library_code(kernel) -> None:
    assert str(kernel.instructions[0].source) == "kernel.py:10"
    assert str(kernel.instructions[3].source) == "kernel.py:12"


def test_operands_and_modifiers(kernel) -> None:
    by_index = kernel.instructions
    assert by_index[0].operands[1].value == Register(RegisterFile.SCALAR, 0, 2)
    assert by_index[0].operands[2].value == Immediate(8, is_float=False)
    assert by_index[1].modifiers == {"vmcnt": 3, "lgkmcnt": 0}
    assert by_index[2].operands[1].value == Immediate(-16, is_float=False)
    add = by_index[3]
    assert (add.encoding, add.operands[1].negate, add.operands[1].absolute) == ("e64", True, True)
    assert add.operands[2].value == Immediate(0.5, is_float=True) and add.modifiers == {"clamp": 1}
    select = by_index[4]
    assert select.operands[1].sign_extend and select.operands[3].value == Register(RegisterFile.SCALAR, VCC, 2)
    assert select.modifiers["dst_sel"] == "WORD_1" and select.modifiers["src0_sel"] == "BYTE_2"
    load = by_index[5]
    assert load.operands[2].value == Symbol("off") and load.modifiers == {"offset": -4096, "sc0": 1, "nt": 1}
    assert by_index[6].modifiers == {"offset": "swizzle(SWAP,16)"}
    assert by_index[7].modifiers["quad_perm"] == (1, 0, 3, 2) and by_index[7].encoding == "dpp"
    assert by_index[8].operands[0].value == Symbol("hwreg(HW_REG_MODE, 23, 1)")
    assert by_index[9].operands[0].value == Register(RegisterFile.ACCUMULATION, 2, 4)
    assert by_index[11].operands[1].value == Register(RegisterFile.SCALAR, VCC, 2)
    assert EXEC == 126


def test_the_triple_of_newer_compilers() -> None:
    text = TEXT.replace("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "amdgpu9.42-amd-amdhsa-unknown-gfx942")
    assert parse_assembly(text, name="first").arch == "gfx942"


def test_several_kernels_need_a_name() -> None:
    with pytest.raises(AssemblyError, match="2 kernels: first, second"):
        parse_assembly(TEXT)
    with pytest.raises(AssemblyError, match="no kernel 'third'"):
        parse_assembly(TEXT, name="third")


def test_other_text_is_refused() -> None:
    with pytest.raises(AssemblyError, match="no .amdhsa_kernel"):
        parse_assembly(".version 8.5\n.target sm_90\n")


def test_a_line_that_is_not_understood_is_named() -> None:
    with pytest.raises(AssemblyError, match=r"line \d+: 'v_mov_b32_e32 v1, @x'"):
        parse_assembly(TEXT.replace("v_mov_b32_e32 v1, -16", "v_mov_b32_e32 v1, @x"), name="second")


def test_addresses_that_the_linker_computes_are_symbols() -> None:
    """Calls and branches over long distances parse; that they cannot be executed is said by the opcodes that jump."""
    texts = ["callee@rel32@lo+4", "callee@gotpcrel32@hi+12", "(.LBB0_9-.Lpost0)&4294967295", "(.LBB0_9-.Lpost0)>>32"]
    body = "".join(f"\ts_add_u32 s2, s2, {text}\n" for text in texts)
    kernel = parse_assembly(TEXT.replace("; %bb.2:\n", body), name="second")
    operands = [i.operands[2].value for i in kernel.instructions if i.opcode == "s_add_u32"]
    assert operands == [Symbol(text) for text in texts]


def test_a_branch_to_nowhere_is_named() -> None:
    with pytest.raises(AssemblyError, match="LBB1_7"):
        parse_assembly(TEXT.replace("execz .LBB1_1", "execz .LBB1_7"), name="second")
