"""The address space: reproducible addresses, guards, messages."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.memory import AddressSpace


def test_addresses_do_not_depend_on_the_host() -> None:
    first, second = AddressSpace(), AddressSpace()
    assert first.map(0x1000, 100, "a") == second.map(0x777000, 100, "b")
    assert first.map(0x9000, 5, "c") == second.map(0x8000, 5, "d")


def test_the_same_range_keeps_its_address_and_buffers_have_space_between() -> None:
    memory = AddressSpace()
    a = memory.map(0x1000, 4096, "a")
    b = memory.map(0x2000, 4096, "b")
    assert memory.map(0x1000, 4096, "again") == a
    assert b - (a + 4096) >= 1 << 20
    assert memory.device_pointer(0x1000 + 17) == a + 17


def test_a_pointer_outside_is_refused() -> None:
    memory = AddressSpace()
    memory.map(0x1000, 16, "a")
    with pytest.raises(LaunchError, match="in no mapped buffer"):
        memory.device_pointer(0x1010)


def test_only_contiguous_arrays() -> None:
    with pytest.raises(LaunchError, match="not contiguous"):
        AddressSpace().map_array(np.zeros((4, 4))[:, 1], "column")


def test_describe() -> None:
    memory = AddressSpace()
    base = memory.map(0x1000, 64, "x")
    assert memory.describe(base + 63) == "63 bytes into 'x' (64 bytes)"
    assert memory.describe(base + 64) == "0 bytes past the end of 'x' (64 bytes)"
    assert memory.describe(base - 1) == "1 bytes before 'x' (64 bytes)"


def test_an_array_is_released_when_it_is_unmapped() -> None:
    space, array = AddressSpace(), np.zeros(8, np.float32)
    alive = weakref.ref(array)
    space.map_array(array, "x")
    place = array.ctypes.data, array.nbytes
    del array
    assert alive() is not None
    space.unmap(*place)
    assert alive() is None and space.buffers == []
