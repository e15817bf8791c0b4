"""Moves between registers whose number the wave computes."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

EXEC = 0xF0F0_1234_8001_FFFE
LANES = np.array([EXEC >> lane & 1 for lane in range(64)], dtype=bool)


def registers(count: int) -> dict[int, np.ndarray]:
    return {number: np.arange(64, dtype=np.uint32) + 1000 * number for number in range(count)}


@pytest.mark.parametrize("index", [0, 1, 5, 251])
def test_an_indexed_destination(machine: Machine, index: int) -> None:
    body = """
\ts_set_gpr_idx_on s5, gpr_idx(DST)
\tv_mov_b32_e32 v4, v1
\ts_add_i32 s6, s6, 1
\tv_mov_b32_e32 v2, 7
\ts_set_gpr_idx_off
\tv_mov_b32_e32 v3, v1
"""
    # Only the low byte of the register counts.
    wave = machine.run(body, vector=registers(4), scalar={5: index | 0xABCD00, 6: 1}, exec_mask=EXEC)
    expected = np.zeros((256, 64), np.uint32)
    for number, values in registers(4).items():
        expected[number] = values
    expected[4 + index, LANES] = registers(4)[1][LANES]
    expected[2 + index, LANES] = 7
    expected[3, LANES] = expected[1, LANES]
    np.testing.assert_array_equal(wave.vector[:256], expected)
    assert wave.scalar[6] == 2
    assert wave.scalar[124] == index | 8 << 12


@pytest.mark.parametrize("index", [0, 3, 254])
def test_an_indexed_source(machine: Machine, index: int) -> None:
    values = registers(256)
    body = "\ts_set_gpr_idx_on s5, gpr_idx(SRC0)\n\tv_mov_b32_e32 v9, v1\n\ts_set_gpr_idx_off"
    wave = machine.run(body, vector=values, scalar={5: index}, exec_mask=EXEC)
    np.testing.assert_array_equal(wave.vector[9], np.where(LANES, values[1 + index], values[9]))
    np.testing.assert_array_equal(wave.vector[10], values[10])


def test_registers_beyond_the_last_one(machine: Machine) -> None:
    """A store is dropped, so that no accumulation register changes; a load gives v0."""
    body = """
\ts_set_gpr_idx_on s5, gpr_idx(DST)
\tv_mov_b32_e32 v250, v1
\ts_set_gpr_idx_off
\ts_set_gpr_idx_on s5, gpr_idx(SRC0)
\tv_mov_b32_e32 v2, v250
\ts_set_gpr_idx_off
"""
    values = registers(4)
    wave = machine.run(body, vector=values, scalar={5: 6})
    np.testing.assert_array_equal(wave.vector[2], values[0])
    assert not wave.vector[4:].any()


def test_the_index_alone_can_change(machine: Machine) -> None:
    body = """
\ts_set_gpr_idx_on s5, gpr_idx(DST)
\ts_set_gpr_idx_idx s6
\tv_mov_b32_e32 v4, v1
\ts_set_gpr_idx_off
"""
    wave = machine.run(body, vector=registers(4), scalar={5: 1, 6: 3})
    np.testing.assert_array_equal(wave.vector[7], registers(4)[1])
    assert not wave.vector[5].any()


@pytest.mark.parametrize(
    "body",
    [
        "\ts_set_gpr_idx_on s5, gpr_idx(DST)\n\tv_add_u32_e32 v4, v1, v2\n\ts_set_gpr_idx_off",
        "\ts_set_gpr_idx_on s5, gpr_idx(SRC0,DST)\n\tv_mov_b32_e32 v4, v1\n\ts_set_gpr_idx_off",
        "\ts_set_gpr_idx_on s5, gpr_idx(SRC0)\n\tv_mov_b32_e32 v4, s1\n\ts_set_gpr_idx_off",
        "\ts_set_gpr_idx_on s5, gpr_idx(DST)\n\ts_branch .LBB0_1\n.LBB0_1:\n\tv_mov_b32_e32 v4, v1",
    ],
)
def test_what_is_not_a_plain_indexed_move_is_refused(machine: Machine, body: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="index"):
        machine.run(body)


def test_the_names_of_indexed_moves_are_no_instructions(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="s_set_gpr_idx_on"):
        machine.run("v_movrels_b32_e32 v1, v2")
