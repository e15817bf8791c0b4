"""Opcode names to memory accesses."""

from __future__ import annotations

import pytest

from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.traffic import AccessKind, MemoryAccess, classify


def access(opcode: str, **modifiers: int) -> MemoryAccess | None:
    return classify(Instruction(0, opcode, "", (), modifiers))


@pytest.mark.parametrize(
    ("opcode", "kind", "width"),
    [
        ("global_load_ubyte", "load", 1),
        ("global_load_ubyte_d16_hi", "load", 1),
        ("global_load_ushort", "load", 2),
        ("global_load_short_d16", "load", 2),
        ("global_load_short_d16_hi", "load", 2),
        ("global_load_dword", "load", 4),
        ("global_load_dwordx3", "load", 12),
        ("global_load_dwordx4", "load", 16),
        ("buffer_load_dwordx2", "load", 8),
        ("flat_load_dword", "load", 4),
        ("global_store_byte", "store", 1),
        ("global_store_byte_d16_hi", "store", 1),
        ("global_store_short", "store", 2),
        ("global_store_dwordx4", "store", 16),
        ("buffer_store_byte", "store", 1),
        ("global_atomic_add_f32", "atomic", 4),
        ("global_atomic_smin", "atomic", 4),
        ("global_atomic_cmpswap", "atomic", 4),
        ("global_atomic_cmpswap_x2", "atomic", 8),
        ("global_atomic_add_f64", "atomic", 8),
        ("global_atomic_pk_add_bf16", "atomic", 4),
        ("buffer_atomic_umax", "atomic", 4),
        ("global_load_lds_dword", "lds_direct", 4),
        ("global_load_lds_dwordx4", "lds_direct", 16),
        ("scratch_load_dwordx4", "scratch_load", 16),
        ("scratch_store_dword", "scratch_store", 4),
        ("s_load_dwordx4", "scalar_load", 16),
        ("s_load_dword", "scalar_load", 4),
        ("s_buffer_load_dwordx8", "scalar_load", 32),
        ("ds_read_b128", "lds_read", 16),
        ("ds_read_u8", "lds_read", 1),
        ("ds_read_u16_d16_hi", "lds_read", 2),
        ("ds_read_i8", "lds_read", 1),
        ("ds_read_b64_tr_b16", "lds_read", 8),
        ("ds_write_b8_d16_hi", "lds_write", 1),
        ("ds_write_b16", "lds_write", 2),
        ("ds_write_b96", "lds_write", 12),
        ("ds_add_u32", "lds_atomic", 4),
        ("ds_add_rtn_f32", "lds_atomic", 4),
        ("ds_max_u64", "lds_atomic", 8),
    ],
)
def test_kind_and_width(opcode: str, kind: str, width: int) -> None:
    found = access(opcode)
    assert found == MemoryAccess(AccessKind(kind), width)


@pytest.mark.parametrize(
    ("opcode", "piece", "offsets"),
    [
        ("ds_read2_b32", 4, (12, 20)),
        ("ds_read2_b64", 8, (24, 40)),
        ("ds_read2st64_b32", 4, (768, 1280)),
        ("ds_write2st64_b64", 8, (1536, 2560)),
    ],
)
def test_two_address_forms_take_their_offsets_from_the_modifiers(
    opcode: str, piece: int, offsets: tuple[int, int]
) -> None:
    found = access(opcode, offset0=3, offset1=5)
    assert found is not None
    assert (found.piece_bytes, found.offsets, found.bytes_per_lane) == (piece, offsets, 2 * piece)


def test_a_single_address_form_already_holds_its_offset() -> None:
    found = access("ds_read_b32", offset=256)
    assert found is not None
    assert found.offsets == (0,)


def test_buffer_load_with_the_lds_flag_goes_to_lds() -> None:
    assert access("buffer_load_dword", lds=1) == MemoryAccess(AccessKind.LDS_DIRECT, 4)


@pytest.mark.parametrize(
    "opcode",
    [
        "v_add_f32",
        "s_waitcnt",
        "buffer_wbl2",
        "buffer_inv",
        "ds_bpermute_b32",
        "ds_swizzle_b32",
        "s_barrier",
        "s_endpgm",
    ],
)
def test_what_has_no_addresses_gives_none(opcode: str) -> None:
    assert access(opcode) is None
