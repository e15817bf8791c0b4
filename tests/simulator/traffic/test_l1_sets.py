"""Which set of an L1 a line goes to."""

from __future__ import annotations

import numpy as np
import pytest

from wavecast.simulator.traffic.l1 import l1_set_of


@pytest.mark.parametrize("sets", [1, 2, 4, 32, 64])
@pytest.mark.parametrize("stride", [2**power for power in range(16)])
def test_with_a_hash_no_power_of_two_crowds_into_some_of_the_sets(sets: int, stride: int) -> None:
    found = [int(l1_set_of(np.uint64(number * stride), sets, True)) for number in range(sets * 16)]
    assert np.bincount(found, minlength=sets).tolist() == [16] * sets


def test_a_hashed_set_is_the_parity_of_groups_of_bits() -> None:
    assert l1_set_of(np.uint64(0b10110_01101_11111), 32, True) == 0b10110 ^ 0b01101 ^ 0b11111
    assert l1_set_of(np.uint64(0b11_01_10_11), 4, True) == 0b11 ^ 0b01 ^ 0b10 ^ 0b11


def test_without_a_hash_the_lowest_bits_pick_the_set() -> None:
    assert l1_set_of(np.uint64(0b10110_01101_11111), 32, False) == 0b11111
    assert l1_set_of(np.uint64(0b11_01_10_11), 4, False) == 0b11
