"""Units and rates of opcodes, and facts from code alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing import executed_operations, kernel_facts
from wavecast.simulator.timing.facts import Group
from wavecast.simulator.timing.opcodes import matrix_clk, matrix_flop, unit_of
from wavecast.simulator.timing.units import Unit
from wavecast.simulator.traffic import Limiter


def instruction(opcode: str, *, target: int | None = None, **modifiers: int) -> Instruction:
    return Instruction(5, opcode, "", (), modifiers, opcode, None, target)


@pytest.mark.parametrize(
    ("opcode", "unit"),
    [
        ("v_add_f32", Unit.VALU),
        ("v_mfma_f32_32x32x8_bf16_1k", Unit.MATRIX),
        ("v_smfmac_f32_16x16x32_bf16", Unit.MATRIX),
        ("v_accvgpr_read_b32", Unit.VALU),
        ("s_add_u32", Unit.SCALAR),
        ("s_waitcnt", Unit.SCALAR),
        ("s_branch", Unit.BRANCH),
        ("s_cbranch_scc0", Unit.BRANCH),
        ("s_load_dwordx2", Unit.SCALAR_MEMORY),
        ("ds_read_b128", Unit.LDS),
        ("ds_bpermute_b32", Unit.LDS),
        ("global_store_byte", Unit.VECTOR_MEMORY),
        ("buffer_wbl2", Unit.VECTOR_MEMORY),
        ("scratch_load_dword", Unit.VECTOR_MEMORY),
    ],
)
def test_units(opcode: str, unit: Unit) -> None:
    assert unit_of(instruction(opcode)) is unit


@pytest.mark.parametrize(
    ("device", "opcode", "published_clk"),
    [
        ("mi300x", "v_mfma_f32_32x32x8_bf16_1k", 32),
        ("mi300x", "v_mfma_f32_32x32x8_bf16", 32),
        ("mi300x", "v_mfma_f32_16x16x16_f16", 16),
        ("mi300x", "v_mfma_f32_32x32x16_fp8_fp8", 32),
        ("mi300x", "v_mfma_f32_16x16x32_bf8_fp8", 16),
        ("mi300x", "v_mfma_f32_16x16x8_xf32", 16),
        ("mi300x", "v_mfma_f32_16x16x4_f32", 32),
        ("mi300x", "v_mfma_f64_16x16x4_f64", 32),
        ("mi355x", "v_mfma_f32_16x16x32_bf16", 16),
        ("mi355x", "v_mfma_f32_32x32x16_f16", 32),
        ("mi355x", "v_mfma_f32_32x32x16_fp8_fp8", 32),
        ("mi355x", "v_mfma_f32_16x16x128_f8f6f4", 32),
        ("mi355x", "v_mfma_scale_f32_32x32x64_f8f6f4", 64),
        ("mi355x", "v_mfma_f64_16x16x4_f64", 64),
    ],
)
def test_matrix_cycles_agree_with_published_tables(device: str, opcode: str, published_clk: int) -> None:
    assert matrix_clk(instruction(opcode), load_device(device)) == published_clk


def test_small_formats_take_half_the_cycles() -> None:
    device = load_device("mi355x")
    assert matrix_clk(instruction("v_mfma_scale_f32_32x32x64_f8f6f4", cbsz=4, blgp=4), device) == 32
    # One operand in FP8 keeps the long count.
    assert matrix_clk(instruction("v_mfma_scale_f32_32x32x64_f8f6f4", cbsz=4), device) == 64


def test_a_matrix_type_the_device_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedInstructionError, match="mi355x.*no matrix rate for 'xf32'"):
        matrix_clk(instruction("v_mfma_f32_16x16x8_xf32"), load_device("mi355x"))
    with pytest.raises(UnsupportedInstructionError, match="mi300x"):
        matrix_clk(instruction("v_mfma_f32_32x32x64_f8f6f4"), load_device("mi300x"))


@pytest.mark.parametrize(
    ("opcode", "flop"),
    [
        ("v_mfma_f32_32x32x8_f16", 2 * 32 * 32 * 8),
        ("v_mfma_f32_4x4x4_16b_f16", 2 * 4 * 4 * 4 * 16),
        ("v_smfmac_f32_16x16x32_f16", 2 * 16 * 16 * 32 // 2),
    ],
)
def test_operations_of_a_matrix_instruction(opcode: str, flop: int) -> None:
    assert matrix_flop(instruction(opcode)) == flop
    with pytest.raises(UnsupportedInstructionError, match="no matrix instruction"):
        matrix_flop(instruction("v_add_f32"))


def test_operations_of_the_grid_are_those_of_the_workgroups_that_ran_scaled(
    kernel_of: Callable[..., Kernel], execution_of: Callable[..., Execution]
) -> None:
    kernel = kernel_of(["v_add_f32", "s_add_u32", "v_mfma_f32_32x32x8_bf16", "s_endpgm"])
    execution = execution_of(kernel, 8)
    execution = replace(execution, workgroups=execution.workgroups[:2], executed=np.array([12, 99, 4, 2]))
    found = executed_operations(execution)
    scale = execution.total_workgroups / 2
    assert (found.vector_ops, found.matrix_flop) == (12 * 64 * scale, 4 * 16384 * scale)
    assert found.instructions == 16 * scale


def test_facts_from_code_alone(kernel_of: Callable[..., Kernel], device: Device) -> None:
    kernel = kernel_of(
        [
            "global_load_dwordx4 v0",
            "global_load_ushort v4",
            "buffer_load_ushort v5",
            "buffer_wbl2 sc1",
            "global_atomic_smin v0",
            "buffer_inv sc1",
            "ds_write_b16 v0",
            "ds_read2_b32 v0",
            "v_mfma_f32_32x32x8_bf16",
            "global_store_byte v0",
            "global_store_byte v0",
            "global_store_dwordx4 v0",
            "s_endpgm",
        ],
        vgpr=78,
    )
    facts = kernel_facts(kernel, device)
    assert facts.widths(Group.GLOBAL_LOAD) == {2: 2, 16: 1}
    assert facts.widths(Group.GLOBAL_STORE) == {1: 2, 16: 1}
    assert facts.widths(Group.LDS) == {2: 1, 8: 1}
    for group in (Group.GLOBAL_ATOMIC, Group.FENCE_RELEASE, Group.FENCE_ACQUIRE, Group.MATRIX, Group.BRANCH):
        assert facts.total(group) == 1
    assert facts.residency is not None
    assert (facts.residency.waves_per_simd, facts.residency.limiter) == (6, Limiter.VGPR)
    assert kernel_facts(kernel).residency is None


@pytest.mark.parametrize(
    ("opcode", "group", "width"),
    [
        ("global_load_dwordx4", Group.GLOBAL_LOAD, 16),
        ("buffer_load_dwordx2", Group.GLOBAL_LOAD, 8),
        ("buffer_load_ushort", Group.GLOBAL_LOAD, 2),
        ("global_load_short_d16_hi", Group.GLOBAL_LOAD, 2),
        ("global_load_ubyte", Group.GLOBAL_LOAD, 1),
        ("global_load_sbyte_d16", Group.GLOBAL_LOAD, 1),
        ("global_load_lds_dwordx4", Group.GLOBAL_LOAD, 16),
        ("global_store_byte", Group.GLOBAL_STORE, 1),
        ("buffer_store_byte_d16_hi", Group.GLOBAL_STORE, 1),
        ("global_store_dword", Group.GLOBAL_STORE, 4),
        ("global_atomic_smin", Group.GLOBAL_ATOMIC, 4),
        ("global_atomic_add_x2", Group.GLOBAL_ATOMIC, 8),
        ("global_atomic_pk_add_bf16", Group.GLOBAL_ATOMIC, 4),
        ("scratch_load_dwordx4", Group.SCRATCH, 16),
        ("ds_read_b128", Group.LDS, 16),
        ("ds_write_b8", Group.LDS, 1),
        ("ds_write_b16_d16_hi", Group.LDS, 2),
        ("ds_read2st64_b32", Group.LDS, 8),
        ("ds_write2_b64", Group.LDS, 16),
        ("ds_read_b64_tr_b8", Group.LDS, 8),
        ("ds_bpermute_b32", Group.LDS, None),
        ("s_load_dwordx16", Group.SCALAR_LOAD, 64),
        ("buffer_wbl2", Group.FENCE_RELEASE, None),
        ("buffer_inv", Group.FENCE_ACQUIRE, None),
        ("v_mfma_f32_32x32x16_fp8_fp8", Group.MATRIX, None),
        ("v_cvt_pk_fp8_f32", Group.VECTOR, None),
        ("s_waitcnt", Group.WAIT, None),
        ("s_cbranch_scc1", Group.BRANCH, None),
        ("s_barrier", Group.BARRIER, None),
        ("s_add_u32", Group.SCALAR, None),
    ],
)
def test_group_and_width(kernel_of: Callable[..., Kernel], opcode: str, group: Group, width: int | None) -> None:
    (found,) = kernel_facts(kernel_of([opcode, opcode])).instructions
    assert (found.group, found.count, found.lane_bytes) == (group, 2, width)


def test_unknown_opcode_is_an_error(kernel_of: Callable[..., Kernel]) -> None:
    with pytest.raises(UnsupportedInstructionError, match="'frobnicate'"):
        kernel_facts(kernel_of(["frobnicate"]))


def test_counts_are_by_opcode_in_the_order_of_the_groups(kernel_of: Callable[..., Kernel]) -> None:
    facts = kernel_facts(kernel_of(["v_add_f32", "global_store_byte", "v_add_f32", "global_load_dword"]))
    assert [(item.opcode, item.count, item.lane_bytes) for item in facts.instructions] == [
        ("global_load_dword", 1, 4),
        ("global_store_byte", 1, 1),
        ("v_add_f32", 2, None),
    ]
