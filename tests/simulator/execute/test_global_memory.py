"""Global and flat loads and stores against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from semantics_memory import (
    FULL,
    LANES,
    LOADS,
    MASKS,
    STORES,
    bits,
    loaded,
    patterns,
    read,
    registers,
    split,
    stored,
    width_of_load,
    width_of_store,
    words_of,
    write,
)

from wavecast.simulator.execute.layout import Context, Fault
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute

SPAN = 4096


class Memory:
    """One mapped array of random bytes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.content = rng.integers(0, 256, SPAN, dtype=np.uint8)
        self.array = self.content.copy()
        self.space = AddressSpace()
        self.base = self.space.map_array(self.array, "array")

    def reset(self) -> None:
        self.array[:] = self.content


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture(scope="module")
def memory(rng: np.random.Generator) -> Memory:
    return Memory(rng)


def forms(memory: Memory, offsets: np.ndarray) -> list[tuple[str, str, int, dict[int, np.ndarray], dict[int, int]]]:
    """Ways to say the same addresses: address operands, trailing text, offset, vector and scalar registers."""
    base = {4: memory.base & 0xFFFFFFFF, 5: memory.base >> 32}
    narrow = {1: (offsets + 8).astype(np.uint32)}
    return [
        ("v[1:2]", ", off", 0, split(memory.base + offsets, 1), {}),
        ("v[1:2]", ", off offset:-16", -16, split(memory.base + offsets + 16, 1), {}),
        ("v1", ", s[4:5] offset:-8", -8, narrow, base),
    ]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", LOADS)
def test_loads(machine: Machine, rng: np.random.Generator, memory: Memory, suffix: str, mask: int) -> None:
    words, width = words_of(suffix), width_of_load(suffix)
    old = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    kept = {10 + row: old[row] for row in range(words)}
    for offsets in patterns(rng, width, SPAN):
        expected = np.where(bits(mask), loaded(suffix, read(memory.content, offsets, width, bits(mask)), old), old)
        for address, tail, _, vector, scalar in forms(memory, offsets):
            text = f"global_load_{suffix} {registers('v', words)}, {address}{tail}"
            wave = machine.run(text, vector=vector | kept, scalar=scalar, exec_mask=mask, memory=memory.space)
            np.testing.assert_array_equal(wave.vector[10 : 10 + words], expected, err_msg=text)
            assert len(wave.records) == (mask != 0)
            if mask:
                assert wave.records["exec"][0] == mask
                np.testing.assert_array_equal(
                    wave.records["address"][0][bits(mask)], (memory.base + offsets)[bits(mask)].astype(np.uint64)
                )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", STORES)
def test_stores(machine: Machine, rng: np.random.Generator, memory: Memory, suffix: str, mask: int) -> None:
    words, width = words_of(suffix), width_of_store(suffix)
    data = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    content = {10 + row: data[row] for row in range(words)}
    for offsets in patterns(rng, width, SPAN):
        expected = write(memory.content, offsets, stored(suffix, data), bits(mask))
        for address, tail, _, vector, scalar in forms(memory, offsets):
            memory.reset()
            text = f"global_store_{suffix} {address}, {registers('v', words)}{tail}"
            machine.run(text, vector=vector | content, scalar=scalar, exec_mask=mask, memory=memory.space)
            np.testing.assert_array_equal(memory.array, expected, err_msg=text)
    memory.reset()


def test_flat_and_accumulation_registers(machine: Machine, rng: np.random.Generator, memory: Memory) -> None:
    offsets = rng.permutation(64) * 16
    vector = split(memory.base + offsets, 1)
    wave = machine.run(
        "flat_load_dwordx4 a[8:11], v[1:2]\nflat_store_byte v[1:2], a8 offset:1024", vector=vector, memory=memory.space
    )
    expected = read(memory.content, offsets, 16, bits(FULL))
    np.testing.assert_array_equal(wave.vector[264:268], expected.view(np.uint32).T)
    np.testing.assert_array_equal(memory.array, write(memory.content, offsets + 1024, expected[:, :1], bits(FULL)))
    memory.reset()


def test_a_load_reads_its_address_before_it_overwrites_it(machine: Machine, memory: Memory) -> None:
    offsets = LANES[::-1] * 20
    wave = machine.run(
        "global_load_dwordx4 v[0:3], v[1:2], off", vector=split(memory.base + offsets, 1), memory=memory.space
    )
    np.testing.assert_array_equal(wave.vector[0:4], read(memory.content, offsets, 16, bits(FULL)).view(np.uint32).T)


def test_lanes_in_several_buffers(machine: Machine, rng: np.random.Generator) -> None:
    space = AddressSpace()
    arrays = [rng.integers(0, 256, 1024, dtype=np.uint8) for _ in range(5)]
    bases = np.array([space.map_array(array, f"array {n}") for n, array in enumerate(arrays)])
    which, offsets = rng.integers(0, 5, 64), rng.integers(0, 1016, 64)
    # The second load finds the buffers of the first in its memory of the last one, which is another instruction's.
    text = "global_load_dwordx2 v[10:11], v[1:2], off\nglobal_store_dwordx2 v[1:2], v[10:11], off\n"
    wave = machine.run(text * 2, vector=split(bases[which] + offsets, 1), memory=space)
    expected = np.stack([arrays[n][o : o + 8] for n, o in zip(which, offsets, strict=True)])
    np.testing.assert_array_equal(wave.vector[10:12], expected.view(np.uint32).T)
    assert wave.fault == Fault.NONE


@pytest.mark.parametrize(
    "instruction", ["global_load_dwordx2 v[10:11], v[1:2], off", "global_store_dwordx2 v[1:2], v[10:11], off"]
)
@pytest.mark.parametrize("stray", [SPAN - 7, SPAN, -1, 1 << 45])
def test_a_stray_lane_faults(machine: Machine, memory: Memory, instruction: str, stray: int) -> None:
    offsets = LANES * 8
    offsets[[40, 50]] = stray
    vector = split(memory.base + offsets, 1)
    wave = machine.run(instruction, vector=vector, memory=memory.space)
    assert wave.fault == Fault.STRAY_ADDRESS
    assert wave.context[Context.FAULT_LANE] == 40
    assert wave.context[Context.FAULT_ADDRESS] == memory.base + stray
    assert wave.context[Context.FAULT_BYTES] == 8
    np.testing.assert_array_equal(memory.array, memory.content)
    np.testing.assert_array_equal(wave.vector[10], 0)
    # A lane that EXEC disables may hold anything.
    wave = machine.run(instruction, vector=vector, memory=memory.space, exec_mask=FULL & ~(1 << 40) & ~(1 << 50))
    assert wave.fault == Fault.NONE
    memory.reset()


def test_the_last_bytes_of_a_buffer_are_reachable(machine: Machine, memory: Memory) -> None:
    offsets = np.full(64, SPAN - 16)
    wave = machine.run(
        "global_load_dwordx4 v[10:13], v[1:2], off", vector=split(memory.base + offsets, 1), memory=memory.space
    )
    assert wave.fault == Fault.NONE
    np.testing.assert_array_equal(wave.vector[10:14, 5], memory.content[-16:].view(np.uint32))
