"""Scratch loads and stores against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from machine import SCRATCH_BYTES, Machine
from semantics_memory import (
    LANES,
    LOADS,
    MASKS,
    STORES,
    bits,
    loaded,
    read,
    registers,
    stored,
    width_of_load,
    width_of_store,
    words_of,
    write,
)

from wavecast.simulator.execute.layout import Context, Fault

pytestmark = pytest.mark.execute


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def forms(rng: np.random.Generator, width: int) -> list[tuple[str, str, np.ndarray, dict[int, np.ndarray]]]:
    """Address operands, trailing text, byte offset of each lane, vector registers; s4 holds 40."""
    varied = rng.integers(0, SCRATCH_BYTES - 48 - width, 64)
    vector = {1: varied.astype(np.uint32)}
    return [
        ("off", "off offset:20", np.full(64, 20), {}),
        ("off", "s4 offset:4", np.full(64, 44), {}),
        ("v1", "off offset:8", varied + 8, vector),
        ("v1", "s4 offset:-2", varied + 38, vector),
    ]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", LOADS)
def test_loads(machine: Machine, rng: np.random.Generator, suffix: str, mask: int) -> None:
    scratch = rng.integers(0, 256, (64, SCRATCH_BYTES), dtype=np.uint8)
    words, width = words_of(suffix), width_of_load(suffix)
    old = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    for vector_text, tail, offsets, vector in forms(rng, width):
        text = f"scratch_load_{suffix} {registers('v', words)}, {vector_text}, {tail}"
        kept = {10 + row: old[row] for row in range(words)}
        wave = machine.run(text, vector=vector | kept, scalar={4: 40}, scratch=scratch, exec_mask=mask)
        data = read(scratch.reshape(-1), LANES * SCRATCH_BYTES + offsets, width, bits(mask))
        expected = np.where(bits(mask), loaded(suffix, data, old), old)
        np.testing.assert_array_equal(wave.vector[10 : 10 + words], expected, err_msg=text)
        assert not wave.records.size


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("suffix", STORES)
def test_stores(machine: Machine, rng: np.random.Generator, suffix: str, mask: int) -> None:
    scratch = rng.integers(0, 256, (64, SCRATCH_BYTES), dtype=np.uint8)
    words, width = words_of(suffix), width_of_store(suffix)
    data = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    content = {10 + row: data[row] for row in range(words)}
    for vector_text, tail, offsets, vector in forms(rng, width):
        text = f"scratch_store_{suffix} {vector_text}, {registers('v', words)}, {tail}"
        wave = machine.run(text, vector=vector | content, scalar={4: 40}, scratch=scratch, exec_mask=mask)
        places = LANES * SCRATCH_BYTES + offsets
        expected = write(scratch.reshape(-1), places, stored(suffix, data), bits(mask))
        np.testing.assert_array_equal(wave.scratch.reshape(-1), expected, err_msg=text)


@pytest.mark.parametrize("text", ["scratch_load_dwordx2 v[10:11], v1, off", "scratch_store_dwordx2 v1, v[10:11], off"])
@pytest.mark.parametrize("stray", [SCRATCH_BYTES - 7, -4, 1 << 20])
def test_a_stray_lane_faults(machine: Machine, text: str, stray: int) -> None:
    offsets = np.zeros(64, dtype=np.int32)
    offsets[[20, 30]] = stray
    wave = machine.run(text, vector={1: offsets})
    assert wave.fault == Fault.STRAY_SCRATCH
    assert wave.context[Context.FAULT_LANE] == 20
    assert wave.context[Context.FAULT_ADDRESS] == stray
    assert machine.run(text, vector={1: offsets}, exec_mask=0xFFFFF).fault == Fault.NONE
