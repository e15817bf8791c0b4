"""Flat instructions: each lane's address may lie in global memory, in LDS or in its own scratch."""

from __future__ import annotations

import numpy as np
import pytest
from machine import SCRATCH_BYTES, Machine

from wavecast.simulator.execute.layout import PRIVATE_BASE, SHARED_BASE, Context, Fault
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute

EXEC = 0xF7FF_1234_9001_FFFE
ACTIVE = np.array([EXEC >> lane & 1 for lane in range(64)], dtype=bool)


class Windows:
    """Random bytes in all three places, and random addresses in them."""

    def __init__(self, seed: int, width: int, only: int | None = None) -> None:
        rng = np.random.default_rng(seed)
        self.buffer = rng.integers(0, 256, 4096, dtype=np.uint8)
        self.lds = rng.integers(0, 256, 1 << 16, dtype=np.uint8)
        self.scratch = rng.integers(0, 256, (64, SCRATCH_BYTES), dtype=np.uint8)
        self.memory = AddressSpace()
        base = self.memory.map_array(self.buffer, "buffer")
        self.where = rng.integers(0, 3, 64) if only is None else np.full(64, only)
        # No two lanes touch the same bytes, and an offset of 8 stays inside.
        self.offset = (
            np.where(self.where == 2, rng.integers(0, (SCRATCH_BYTES - 32) // 16, 64), rng.permutation(64)) * 16
        )
        start = np.array([base, SHARED_BASE, PRIVATE_BASE], dtype=np.uint64)[self.where]
        self.address = start + self.offset.astype(np.uint64)
        self.width = width

    @property
    def vector(self) -> dict[int, np.ndarray]:
        return {2: self.address.astype(np.uint32), 3: (self.address >> np.uint64(32)).astype(np.uint32)}

    def places(self, buffer: np.ndarray, lds: np.ndarray, scratch: np.ndarray) -> list[np.ndarray]:
        """The bytes of each lane, 8 behind its address."""
        arrays = [buffer, lds, scratch]
        return [
            (arrays[kind][lane] if kind == 2 else arrays[kind])[offset + 8 : offset + 8 + self.width]
            for lane, (kind, offset) in enumerate(zip(self.where, self.offset, strict=True))
        ]


@pytest.mark.parametrize("only", [None, 0, 1, 2])
@pytest.mark.parametrize(("suffix", "width"), [("ubyte", 1), ("dword", 4), ("dwordx3", 12)])
def test_loads(machine: Machine, suffix: str, width: int, only: int | None) -> None:
    windows = Windows(width, width, only)
    before = np.arange(64, dtype=np.uint32) + 77
    registers = dict.fromkeys((8, 9, 10), before)
    group = "v8" if width <= 4 else "v[8:10]"
    wave = machine.run(
        f"\tflat_load_{suffix} {group}, v[2:3] offset:8",
        vector=windows.vector | registers,
        lds=windows.lds,
        scratch=windows.scratch,
        memory=windows.memory,
        exec_mask=EXEC,
    )
    assert not wave.fault
    expected = np.stack(
        [np.pad(b, (0, -width % 4)) for b in windows.places(windows.buffer, windows.lds, windows.scratch)]
    )
    words = np.ascontiguousarray(expected).view(np.uint32)
    for number in range(words.shape[1]):
        np.testing.assert_array_equal(wave.vector[8 + number], np.where(ACTIVE, words[:, number], before))


@pytest.mark.parametrize("only", [None, 2])
@pytest.mark.parametrize(("suffix", "width"), [("short", 2), ("dwordx2", 8)])
def test_stores(machine: Machine, suffix: str, width: int, only: int | None) -> None:
    windows = Windows(width + 40, width, only)
    data = np.random.default_rng(3).integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    expected = windows.buffer.copy(), windows.lds.copy(), windows.scratch.copy()
    for lane, place in enumerate(windows.places(*expected)):
        if ACTIVE[lane]:
            place[:] = np.ascontiguousarray(data[:, lane]).view(np.uint8)[:width]
    wave = machine.run(
        f"\tflat_store_{suffix} v[2:3], {'v8' if width <= 4 else 'v[8:9]'} offset:8",
        vector=windows.vector | {8: data[0], 9: data[1]},
        lds=windows.lds,
        scratch=windows.scratch,
        memory=windows.memory,
        exec_mask=EXEC,
    )
    for got, want in zip((windows.buffer, wave.lds, wave.scratch), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_atomics_and_the_trace(machine: Machine) -> None:
    """The value from before comes back; only lanes that go to global memory are recorded."""
    windows = Windows(5, 4)
    expected = windows.buffer.copy(), windows.lds.copy(), windows.scratch.copy()
    old = np.stack(windows.places(*expected)).view(np.uint32)[:, 0].copy()
    for lane, place in enumerate(windows.places(*expected)):
        if ACTIVE[lane]:
            place[:] = np.array([old[lane] + np.uint32(9)], np.uint32).view(np.uint8)
    wave = machine.run(
        "\tflat_atomic_add v9, v[2:3], v8 offset:8 sc0",
        vector=windows.vector | {8: np.full(64, 9, np.uint32)},
        lds=windows.lds,
        scratch=windows.scratch,
        memory=windows.memory,
        exec_mask=EXEC,
    )
    np.testing.assert_array_equal(wave.vector[9][ACTIVE], old[ACTIVE])
    for got, want in zip((windows.buffer, wave.lds, wave.scratch), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    lanes = sum(1 << lane for lane in range(64) if ACTIVE[lane] and windows.where[lane] == 0)
    assert wave.records["exec"].tolist() == [lanes]


@pytest.mark.parametrize("address", [SHARED_BASE + 65533, PRIVATE_BASE + SCRATCH_BYTES - 3, 3 << 48])
def test_an_address_outside_is_a_fault(machine: Machine, address: int) -> None:
    windows = Windows(6, 4)
    lane = 9
    windows.address[lane] = address
    wave = machine.run("\tflat_load_dword v8, v[2:3]", vector=windows.vector, lds=windows.lds, memory=windows.memory)
    assert wave.fault == Fault.STRAY_ADDRESS
    assert (wave.context[Context.FAULT_LANE], wave.context[Context.FAULT_ADDRESS]) == (lane, address)
    place = "buffer" if address >> 48 == 3 else "LDS" if address < PRIVATE_BASE else "scratch"
    assert place in windows.memory.describe(address)


def test_the_bounds_of_the_windows_are_operands(machine: Machine) -> None:
    wave = machine.run("\ts_mov_b64 s[4:5], src_shared_base\n\ts_mov_b64 s[6:7], src_private_limit")
    assert wave.scalar[4:8].tolist() == [0, SHARED_BASE >> 32, 0xFFFFFFFF, PRIVATE_BASE >> 32]
