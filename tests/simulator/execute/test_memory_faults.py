"""What the engine says about memory faults that are not stray global addresses."""

from __future__ import annotations

import pytest
from machine import SCRATCH_BYTES, Machine, kernel_of

from wavecast.simulator.errors import ExecutionError, MemoryFaultError
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute


def run(machine: Machine, body: str) -> None:
    Engine(machine.helpers).execute(kernel_of(body), grid=(1, 1, 1), arguments=[], memory=AddressSpace())


def test_stray_scratch_names_offset_and_size(machine: Machine) -> None:
    with pytest.raises(MemoryFaultError) as caught:
        run(machine, f"scratch_store_dwordx4 off, v[0:3], off offset:{SCRATCH_BYTES - 12}")
    message = str(caught.value)
    assert "lane 0: 16 bytes at scratch offset 244, and a lane has 256" in message
    assert "scratch_store_dwordx4" in message


def test_a_descriptor_that_is_not_modelled_is_named(machine: Machine) -> None:
    body = "s_mov_b32 s5, 0x80000000\nbuffer_load_dword v1, off, s[4:7], 0"
    with pytest.raises(ExecutionError, match="swizzles, adds the thread id"):
        run(machine, body)
