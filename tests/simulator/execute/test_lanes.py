"""Opcodes that move data between lanes, or between a lane and a scalar register."""

from __future__ import annotations

import numpy as np
import pytest
from inputs import EXEC_MASKS, words
from machine import Machine

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

FULL = (1 << 64) - 1


@pytest.mark.parametrize(("exec_mask", "lane"), [(FULL, 0), (1 << 63, 63), (0b1011000, 3), (0, 0)])
def test_first_active_lane(machine: Machine, exec_mask: int, lane: int) -> None:
    values = words(np.random.default_rng(0), (1, 64))
    wave = machine.run("v_readfirstlane_b32 s5, v1", vector={1: values[0]}, exec_mask=exec_mask)
    assert wave.scalar[5] == values[0, lane]


@pytest.mark.parametrize("exec_mask", EXEC_MASKS, ids=hex)
def test_read_and_write_of_a_lane_ignore_exec(machine: Machine, exec_mask: int) -> None:
    values = words(np.random.default_rng(1), (3, 64))
    wave = machine.run(
        """v_readlane_b32 s10, v0, 63
        v_readlane_b32 s11, v0, s1
        v_readlane_b32 s12, a0, m0
        v_writelane_b32 v1, s0, 7
        v_writelane_b32 v1, -5, s1
        v_writelane_b32 a1, s0, 0""",
        vector={0: values[0], 1: values[1], 256: values[2]},
        scalar={0: 0x12345678, 1: 64 + 9, 124: 17},
        exec_mask=exec_mask,
    )
    assert [int(x) for x in wave.scalar[10:13]] == [values[0, 63], values[0, 9], values[2, 17]]
    expected = values[1].copy()
    expected[7], expected[9] = 0x12345678, 0xFFFFFFFB
    assert np.array_equal(wave.vector[1], expected)
    assert wave.vector[257].tolist() == [0x12345678] + [0] * 63


def _swapped(first: np.ndarray, second: np.ndarray, lanes: int, exec_mask: int) -> tuple[np.ndarray, np.ndarray]:
    """Lane by lane: upper groups of the first register against lower groups of the second, both lanes active."""
    first, second = first.copy(), second.copy()
    for base in range(0, 64, 2 * lanes):
        for low in range(base, base + lanes):
            high = low + lanes
            if exec_mask >> low & 1 and exec_mask >> high & 1:
                second[low], first[high] = first[high], second[low]
    return first, second


@pytest.mark.parametrize("exec_mask", EXEC_MASKS, ids=hex)
@pytest.mark.parametrize(("name", "lanes"), [("v_permlane16_swap_b32", 16), ("v_permlane32_swap_b32", 32)])
def test_swaps_between_two_registers(machine: Machine, name: str, lanes: int, exec_mask: int) -> None:
    a, b, c = words(np.random.default_rng(2), (3, 64))
    wave = machine.run(
        f"{name}_e32 v0, v1\n{name}_e32 v2, v2", arch="gfx950", vector={0: a, 1: b, 2: c}, exec_mask=exec_mask
    )
    first, second = _swapped(a, b, lanes, exec_mask)
    assert np.array_equal(wave.vector[0], first)
    assert np.array_equal(wave.vector[1], second)
    mirrored = np.array([c[lane ^ lanes] for lane in range(64)])
    both = np.array([exec_mask >> lane & exec_mask >> (lane ^ lanes) & 1 for lane in range(64)], dtype=bool)
    assert np.array_equal(wave.vector[2], np.where(both, mirrored, c))


def test_swap_that_reads_inactive_lanes_is_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="fi"):
        machine.run("v_permlane32_swap_b32_e64 v0, v1 fi:1", arch="gfx950")


@pytest.mark.parametrize("exec_mask", EXEC_MASKS, ids=hex)
def test_count_of_the_lanes_below(machine: Machine, exec_mask: int) -> None:
    low, high = 0xF0F01235, 0x8000FFF1
    wave = machine.run(
        """v_mbcnt_lo_u32_b32 v1, s0, 0
        v_mbcnt_hi_u32_b32 v1, s1, v1
        v_mbcnt_lo_u32_b32 v2, -1, 3
        v_mbcnt_hi_u32_b32 v2, -1, v2
        v_mbcnt_lo_u32_b32 v3, v0, 0""",
        vector={0: np.full(64, low, dtype=np.uint32)},
        scalar={0: low, 1: high},
        exec_mask=exec_mask,
    )
    mask = low | high << 32
    for lane in range(64):
        active = exec_mask >> lane & 1
        below = mask & (1 << lane) - 1
        assert wave.vector[1, lane] == active * below.bit_count()
        assert wave.vector[2, lane] == active * (lane + 3)
        assert wave.vector[3, lane] == active * (below & 0xFFFFFFFF).bit_count()
