"""Buffer loads and stores, their addressing and their range check, against plain numpy."""

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
    registers,
    stored,
    width_of_load,
    width_of_store,
    words_of,
)

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.layout import Context, Fault
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute

SPAN = 8192
RECORDS = 4096
FLAGS = 0x27000


class Memory:
    """One mapped array; the descriptors below start 64 bytes into it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.content = rng.integers(0, 256, SPAN, dtype=np.uint8)
        self.array = self.content.copy()
        self.space = AddressSpace()
        self.base = self.space.map_array(self.array, "array") + 64

    def descriptor(self, *, records: int = RECORDS, stride: int = 0) -> dict[int, int]:
        return {4: self.base & 0xFFFFFFFF, 5: self.base >> 32 | stride << 16, 6: records, 7: FLAGS}


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


@pytest.fixture(scope="module")
def memory(rng: np.random.Generator) -> Memory:
    return Memory(rng)


def element_mask(offsets: np.ndarray, width: int) -> np.ndarray:
    """(64, width): bytes whose word (or element, below a word) ends in range."""
    ends = offsets[:, None] + (np.arange(width) // 4 + 1) * min(width, 4)
    return ends <= RECORDS


def forms(rng: np.random.Generator, width: int) -> list[tuple[str, str, np.ndarray, np.ndarray, dict[int, np.ndarray]]]:
    """Operand text before and after the descriptor, checked offset, address from the base, vector registers."""
    dense = LANES * width
    cut = RECORDS - 16 - 6 * width + LANES * width
    masked = rng.integers(0, 2000, 64)
    masked[::3] = 0x80000000
    high = np.where(LANES % 2, 0xFFFFFFE8, 100)
    cases = []
    # One lane of which one, two or three words are in range.
    straddling = [np.where(LANES == 20, RECORDS - behind, dense) for behind in (4, 8, 12, 1, 2, 7)]
    for offsets in (dense, dense[::-1], cut, masked, high, *straddling):
        vector = {1: offsets.astype(np.uint32)}
        cases.append(("v1", "0 offen", offsets, offsets, vector))
        cases.append(("v1", "s12 offen offset:16", offsets + 16 + 256, offsets + 16 + 256, vector))
    uniform = np.full(64, 24)
    cases.append(("off", "0 offset:24", uniform, uniform, {}))
    cases.append(("off", "64", uniform * 0 + 64, uniform * 0 + 64, {}))
    # The first sum has 32 bits.
    wrapped = np.where(LANES % 2, 0xFFFFFFF0, 100)
    around = (wrapped + 16) % (1 << 32) + 256
    cases.append(("v1", "s12 offen offset:16", around, around, {1: wrapped.astype(np.uint32)}))
    return cases


def lanes(mask: np.ndarray) -> int:
    return sum(1 << int(lane) for lane in np.flatnonzero(mask))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", LOADS)
def test_loads(machine: Machine, rng: np.random.Generator, memory: Memory, suffix: str, mask: int) -> None:
    words, width = words_of(suffix), width_of_load(suffix)
    old = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    kept = {10 + row: old[row] for row in range(words)}
    scalar = memory.descriptor() | {12: 256}
    for vector_text, tail, checked, offsets, vector in forms(rng, width):
        text = f"buffer_load_{suffix} {registers('v', words)}, {vector_text}, s[4:7], {tail}"
        wave = machine.run(text, vector=vector | kept, scalar=scalar, exec_mask=mask, memory=memory.space)
        inside = element_mask(checked, width)
        places = np.where(inside, 64 + offsets[:, None] + np.arange(width), 0)
        data = np.where(inside, memory.content[places], 0)
        expected = np.where(bits(mask), loaded(suffix, data, old), old)
        assert wave.fault == Fault.NONE
        np.testing.assert_array_equal(wave.vector[10 : 10 + words], expected, err_msg=text)
        took_part = bits(mask) & inside[:, 0]
        assert wave.records["exec"].tolist() == ([lanes(took_part)] if took_part.any() else [])
        if took_part.any():
            addresses = (memory.base + offsets).astype(np.uint64)
            np.testing.assert_array_equal(wave.records["address"][0][took_part], addresses[took_part])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", STORES)
def test_stores(machine: Machine, rng: np.random.Generator, memory: Memory, suffix: str, mask: int) -> None:
    words, width = words_of(suffix), width_of_store(suffix)
    rows = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    data = stored(suffix, rows)
    content = {10 + row: rows[row] for row in range(words)}
    scalar = memory.descriptor() | {12: 256}
    for vector_text, tail, checked, offsets, vector in forms(rng, width):
        text = f"buffer_store_{suffix} {registers('v', words)}, {vector_text}, s[4:7], {tail}"
        memory.array[:] = memory.content
        machine.run(text, vector=vector | content, scalar=scalar, exec_mask=mask, memory=memory.space)
        expected = memory.content.copy()
        inside = element_mask(checked, width)
        for lane in np.flatnonzero(bits(mask)):
            for byte in np.flatnonzero(inside[lane]):
                expected[64 + offsets[lane] + byte] = data[lane, byte]
        np.testing.assert_array_equal(memory.array, expected, err_msg=text)
    memory.array[:] = memory.content


def test_indexed(machine: Machine, rng: np.random.Generator, memory: Memory) -> None:
    index = rng.integers(0, 40, 64)
    index[5] = 1 << 31
    offsets = rng.integers(0, 16, 64)
    scalar = memory.descriptor(records=32, stride=48)
    for text, extra in (
        ("buffer_load_dwordx2 v[10:11], v1, s[4:7], 0 idxen offset:8", offsets * 0),
        ("buffer_load_dwordx2 v[10:11], v[1:2], s[4:7], 0 idxen offen offset:8", offsets),
    ):
        vector = {1: index.astype(np.uint32), 2: offsets.astype(np.uint32)}
        wave = machine.run(text, vector=vector, scalar=scalar, memory=memory.space)
        for lane in range(64):
            start = 64 + index[lane] * 48 + extra[lane] + 8
            data = memory.content[start : start + 8] if index[lane] < 32 else np.zeros(8, dtype=np.uint8)
            assert wave.vector[10:12, lane].tobytes() == data.tobytes()


def test_a_stride_does_not_matter_without_an_index(machine: Machine, memory: Memory) -> None:
    """Triton's descriptors for cache swizzling carry a stride and the cache-swizzle bit (bit 14 of the upper half)."""
    offsets = LANES * 68
    scalar = memory.descriptor(stride=64 | 1 << 14)
    vector = {1: offsets.astype(np.uint32)}
    wave = machine.run("buffer_load_dword v10, v1, s[4:7], 0 offen", vector=vector, scalar=scalar, memory=memory.space)
    words = memory.content[64 + offsets[:, None] + np.arange(4)].view(np.uint32)[:, 0]
    np.testing.assert_array_equal(wave.vector[10], np.where(offsets < RECORDS, words, 0))


def test_in_range_of_the_descriptor_but_not_of_memory_is_a_fault(machine: Machine, memory: Memory) -> None:
    offsets = (LANES * 4).astype(np.uint32)
    offsets[9] = SPAN
    scalar = memory.descriptor(records=0x7FFFFFFE)
    for text in ("buffer_load_dword v10, v1, s[4:7], 0 offen", "buffer_store_dword v10, v1, s[4:7], 0 offen"):
        wave = machine.run(text, vector={1: offsets}, scalar=scalar, memory=memory.space)
        assert wave.fault == Fault.STRAY_ADDRESS
        assert wave.context[Context.FAULT_LANE] == 9
    memory.array[:] = memory.content


@pytest.mark.parametrize("word", [{5: 1 << 31}, {7: FLAGS | 1 << 23}])
def test_descriptors_that_are_not_modelled_stop_the_wave(
    machine: Machine, memory: Memory, word: dict[int, int]
) -> None:
    scalar = memory.descriptor() | word
    wave = machine.run("buffer_load_dword v10, off, s[4:7], 0", scalar=scalar, memory=memory.space)
    assert wave.fault == Fault.DESCRIPTOR


def test_an_index_without_a_stride_stops_the_wave(machine: Machine, memory: Memory) -> None:
    text = "buffer_load_dword v10, v1, s[4:7], 0 idxen"
    assert machine.run(text, scalar=memory.descriptor(), memory=memory.space).fault == Fault.DESCRIPTOR


def test_unknown_modifiers_are_refused(machine: Machine) -> None:
    for text in ("buffer_load_dword v10, v1, s[4:7], 0", "buffer_load_dword v10, off, s[4:7], 0 tfe"):
        with pytest.raises(UnsupportedInstructionError, match="buffer_load_dword"):
            machine.run(text)


def test_accumulation_registers(machine: Machine, memory: Memory) -> None:
    wave = machine.run(
        "buffer_load_dwordx4 a[8:11], v1, s[4:7], 0 offen",
        vector={1: (LANES * 16).astype(np.uint32)},
        scalar=memory.descriptor(),
        memory=memory.space,
        exec_mask=FULL,
    )
    np.testing.assert_array_equal(wave.vector[264:268], memory.content[64 : 64 + 1024].view(np.uint32).reshape(64, 4).T)
