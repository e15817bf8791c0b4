from __future__ import annotations

import pytest

from wavecast.cli.facts import Group, count_instructions, group_of, lane_bytes


@pytest.mark.parametrize(
    ("opcode", "group", "width"),
    [
        ("global_load_dwordx4", Group.GLOBAL_LOAD, 16),
        ("buffer_load_dwordx2", Group.GLOBAL_LOAD, 8),
        ("buffer_load_ushort", Group.GLOBAL_LOAD, 2),
        ("global_load_short_d16_hi", Group.GLOBAL_LOAD, 2),
        ("global_load_ubyte", Group.GLOBAL_LOAD, 1),
        ("global_load_sbyte_d16", Group.GLOBAL_LOAD, 1),
        ("global_store_byte", Group.GLOBAL_STORE, 1),
        ("buffer_store_byte_d16_hi", Group.GLOBAL_STORE, 1),
        ("global_store_dword", Group.GLOBAL_STORE, 4),
        ("global_atomic_smin", Group.GLOBAL_ATOMIC, 4),
        ("global_atomic_add_x2", Group.GLOBAL_ATOMIC, 8),
        ("global_atomic_pk_add_bf16", Group.GLOBAL_ATOMIC, 4),
        ("global_atomic_add_f32", Group.GLOBAL_ATOMIC, 4),
        ("ds_read_b128", Group.LDS, 16),
        ("ds_write_b8", Group.LDS, 1),
        ("ds_write_b16_d16_hi", Group.LDS, 2),
        ("ds_read2st64_b32", Group.LDS, 8),
        ("ds_write2_b64", Group.LDS, 16),
        ("ds_read_b64_tr_b8", Group.LDS, 8),
        ("ds_bpermute_b32", Group.LDS, 4),
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
def test_group_and_width(opcode: str, group: Group, width: int | None) -> None:
    assert group_of(opcode) is group
    assert lane_bytes(opcode) == width


def test_unknown_opcode_is_an_error() -> None:
    with pytest.raises(ValueError, match="'frobnicate'"):
        group_of("frobnicate")


def test_counts_are_by_opcode_in_the_order_of_the_groups() -> None:
    counts = count_instructions(["v_add_f32", "global_store_byte", "v_add_f32", "global_load_dword"])
    assert [(item.opcode, item.count, item.lane_bytes) for item in counts] == [
        ("global_load_dword", 1, 4),
        ("global_store_byte", 1, 1),
        ("v_add_f32", 2, None),
    ]
