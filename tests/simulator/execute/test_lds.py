"""LDS loads, stores and lane exchanges against plain numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Machine

from wavecast.simulator.execute.layout import Context
from wavecast.simulator.execute.ops.lds_lanes import swizzle_lanes, swizzle_pattern

pytestmark = pytest.mark.execute

LANES = np.arange(64)
FULL = (1 << 64) - 1
MASKS = (FULL, 0x123456789ABCDEF0, 1 << 63, 0)
LDS_BYTES = 1 << 16


def bits(mask: int) -> np.ndarray:
    return np.array([mask >> lane & 1 for lane in range(64)], dtype=bool)


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="module")
def lds(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 256, LDS_BYTES, dtype=np.uint8)


def some_addresses(rng: np.random.Generator, width: int) -> list[np.ndarray]:
    """Consecutive, reversed, unaligned, all the same, and partly outside the allocation."""
    stray = rng.integers(0, 4096, 64)
    stray[::5] = LDS_BYTES - width + 1
    stray[1::7] = 0xFFFFFFF0
    stray[2::9] = LDS_BYTES - width
    patterns = (256 + LANES * width, 8192 - LANES * width, rng.integers(0, 4096, 64), np.full(64, 128), stray)
    return [pattern.astype(np.uint32) for pattern in patterns]


def bytes_at(lds: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
    """(64, width) bytes; zero for an access that leaves the allocation."""
    result = np.zeros((64, width), dtype=np.uint8)
    for lane, address in enumerate(addresses.tolist()):
        if address + width <= LDS_BYTES:
            result[lane] = lds[address : address + width]
    return result


def after_write(lds: np.ndarray, addresses: np.ndarray, data: np.ndarray, active: np.ndarray) -> np.ndarray:
    result = lds.copy()
    width = data.shape[1]
    for lane in np.flatnonzero(active):
        if int(addresses[lane]) + width <= LDS_BYTES:
            result[addresses[lane] : int(addresses[lane]) + width] = data[lane]
    return result


def words_of(registers: np.ndarray) -> np.ndarray:
    """(rows, 64) registers as (64, 4 * rows) bytes."""
    return np.ascontiguousarray(registers.T.astype(np.uint32)).view(np.uint8)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("name", "words"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_reads(machine: Machine, rng: np.random.Generator, lds: np.ndarray, name: str, words: int, mask: int) -> None:
    old = rng.integers(0, 1 << 32, (4, 64), dtype=np.uint32)
    for addresses in some_addresses(rng, 4 * words):
        registers = {1: addresses, **{10 + row: old[row] for row in range(4)}}
        destination = "v10" if words == 1 else f"v[10:{9 + words}]"
        for offset in (0, 1, 4096):
            wave = machine.run(
                f"ds_read_{name} {destination}, v1" + (f" offset:{offset}" if offset else ""),
                vector=registers,
                lds=lds,
                exec_mask=mask,
            )
            effective = addresses + np.uint32(offset)
            expected = bytes_at(lds, effective, 4 * words).view(np.uint32).T
            for row in range(words):
                np.testing.assert_array_equal(wave.vector[10 + row], np.where(bits(mask), expected[row], old[row]))


def test_read_over_its_address_register(machine: Machine, lds: np.ndarray) -> None:
    addresses = (LANES[::-1] * 24).astype(np.uint32)
    for text, width in (("ds_read_b128 v[0:3], v2", 16), ("ds_read2_b64 v[0:3], v3 offset1:1", 16)):
        wave = machine.run(text, vector={2: addresses, 3: addresses}, lds=lds)
        np.testing.assert_array_equal(wave.vector[0:4], bytes_at(lds, addresses, width).view(np.uint32).T)


@pytest.mark.parametrize("mask", MASKS)
def test_small_reads(machine: Machine, rng: np.random.Generator, lds: np.ndarray, mask: int) -> None:
    old = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    cases = {
        "u8": (np.uint8, None),
        "i8": (np.int8, None),
        "u16": (np.uint16, None),
        "i16": (np.int16, None),
        "u8_d16": (np.uint8, 0),
        "u8_d16_hi": (np.uint8, 1),
        "i8_d16": (np.int8, 0),
        "i8_d16_hi": (np.int8, 1),
        "u16_d16": (np.uint16, 0),
        "u16_d16_hi": (np.uint16, 1),
    }
    for name, (dtype, half) in cases.items():
        width = np.dtype(dtype).itemsize
        for addresses in some_addresses(rng, width):
            wave = machine.run(
                f"ds_read_{name} v10, v1 offset:2", vector={1: addresses, 10: old}, lds=lds, exec_mask=mask
            )
            data = bytes_at(lds, addresses + np.uint32(2), width).view(dtype)[:, 0]
            if half is None:
                expected = data.astype(np.int64).astype(np.uint32)
            else:
                halves = old.view(np.uint16).reshape(64, 2).copy()
                halves[:, half] = data.astype(np.int64).astype(np.uint16)
                expected = halves.view(np.uint32)[:, 0]
            np.testing.assert_array_equal(wave.vector[10], np.where(bits(mask), expected, old), err_msg=name)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("name", "words"), [("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)])
def test_writes(machine: Machine, rng: np.random.Generator, lds: np.ndarray, name: str, words: int, mask: int) -> None:
    data = rng.integers(0, 1 << 32, (words, 64), dtype=np.uint32)
    source = "v10" if words == 1 else f"v[10:{9 + words}]"
    for addresses in some_addresses(rng, 4 * words):
        registers = {1: addresses, **{10 + row: data[row] for row in range(words)}}
        wave = machine.run(f"ds_write_{name} v1, {source} offset:12", vector=registers, lds=lds, exec_mask=mask)
        expected = after_write(lds, addresses + np.uint32(12), words_of(data), bits(mask))
        np.testing.assert_array_equal(wave.lds, expected)


@pytest.mark.parametrize("mask", MASKS)
def test_small_writes(machine: Machine, rng: np.random.Generator, lds: np.ndarray, mask: int) -> None:
    data = rng.integers(0, 1 << 32, (1, 64), dtype=np.uint32)
    raw = words_of(data)
    cases = {"b8": raw[:, :1], "b8_d16_hi": raw[:, 2:3], "b16": raw[:, :2], "b16_d16_hi": raw[:, 2:]}
    for name, content in cases.items():
        for addresses in some_addresses(rng, content.shape[1]):
            wave = machine.run(f"ds_write_{name} v1, v10", vector={1: addresses, 10: data[0]}, lds=lds, exec_mask=mask)
            np.testing.assert_array_equal(wave.lds, after_write(lds, addresses, content, bits(mask)), err_msg=name)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("name", "words", "step"), [("2", 1, 4), ("2st64", 1, 256), ("2", 2, 8), ("2st64", 2, 512)])
def test_two_address_forms(
    machine: Machine, rng: np.random.Generator, lds: np.ndarray, name: str, words: int, step: int, mask: int
) -> None:
    data = rng.integers(0, 1 << 32, (2 * words, 64), dtype=np.uint32)
    destination = f"v[10:{9 + 2 * words}]"
    sources = "v10, v11" if words == 1 else "v[10:11], v[12:13]"
    registers = {10 + row: data[row] for row in range(2 * words)}
    # Reversed addresses far enough apart that the two stores of different lanes do not meet.
    for addresses in ((LANES[::-1] * 8).astype(np.uint32), (LANES * 4 * words).astype(np.uint32)):
        for offsets in ("", " offset1:70", " offset0:3 offset1:90"):
            first, second = (
                int(offsets.split(f"offset{k}:")[1].split()[0]) if f"offset{k}:" in offsets else 0 for k in (0, 1)
            )
            places = [addresses + np.uint32(first * step), addresses + np.uint32(second * step)]
            width = f"b{32 * words}"
            given = {1: addresses, **registers}
            wave = machine.run(
                f"ds_read{name}_{width} {destination}, v1{offsets}", vector=given, lds=lds, exec_mask=mask
            )
            expected = np.concatenate([bytes_at(lds, place, 4 * words).view(np.uint32).T for place in places])
            np.testing.assert_array_equal(wave.vector[10 : 10 + 2 * words], np.where(bits(mask), expected, data))
            wave = machine.run(f"ds_write{name}_{width} v1, {sources}{offsets}", vector=given, lds=lds, exec_mask=mask)
            memory = after_write(lds, places[0], words_of(data[:words]), bits(mask))
            memory = after_write(memory, places[1], words_of(data[words:]), bits(mask))
            np.testing.assert_array_equal(wave.lds, memory)


def permute_backward(numbers: np.ndarray, data: np.ndarray, active: np.ndarray, old: np.ndarray) -> np.ndarray:
    lanes = numbers // 4 % 64
    return np.where(active, np.where(active[lanes], data[lanes], 0), old).astype(np.uint32)


def permute_forward(numbers: np.ndarray, data: np.ndarray, active: np.ndarray, old: np.ndarray) -> np.ndarray:
    result = np.zeros(64, dtype=np.uint32)
    for lane in range(64):
        if active[lane]:
            result[numbers[lane] // 4 % 64] = data[lane]
    return np.where(active, result, old).astype(np.uint32)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("opcode", "meaning"), [("ds_bpermute_b32", permute_backward), ("ds_permute_b32", permute_forward)]
)
def test_permutes(
    machine: Machine, rng: np.random.Generator, opcode: str, meaning: Callable[..., np.ndarray], mask: int
) -> None:
    data, old = rng.integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    for numbers in (rng.integers(0, 256, 64), rng.integers(0, 1 << 32, 64), rng.permutation(64) * 4, np.full(64, 4)):
        numbers = numbers.astype(np.uint32)
        for offset in (0, 6, 128):
            text = f"{opcode} v10, v1, v2" + (f" offset:{offset}" if offset else "")
            wave = machine.run(text, vector={1: numbers, 2: data, 10: old}, exec_mask=mask)
            np.testing.assert_array_equal(wave.vector[10], meaning(numbers + np.uint32(offset), data, bits(mask), old))
    # Source and destination may be the same register.
    wave = machine.run(f"{opcode} v2, v1, v2", vector={1: numbers, 2: data}, exec_mask=mask)
    np.testing.assert_array_equal(wave.vector[2], meaning(numbers, data, bits(mask), data))


SWIZZLES: dict[str, Callable[[int], int]] = {
    "swizzle(SWAP,16)": lambda lane: lane ^ 16,
    "swizzle(SWAP,1)": lambda lane: lane ^ 1,
    "swizzle(REVERSE,8)": lambda lane: lane ^ 7,
    "swizzle(BROADCAST,4,2)": lambda lane: lane // 4 * 4 + 2,
    "swizzle(BROADCAST,32,31)": lambda lane: lane // 32 * 32 + 31,
    "swizzle(QUAD_PERM,3,1,0,2)": lambda lane: lane // 4 * 4 + (3, 1, 0, 2)[lane % 4],
    'swizzle(BITMASK_PERM,"pi01p")': lambda lane: lane & 0b110001 | ~lane & 0b01000 | 0b00010,
    "swizzle(FFT,31)": lambda lane: lane,
    "swizzle(FFT,0)": lambda lane: lane & 32 | int(f"{lane & 31:05b}"[::-1], 2),
    "swizzle(ROTATE,0,3)": lambda lane: lane & 32 | (lane + 3) % 32,
    "swizzle(ROTATE,1,3)": lambda lane: lane & 32 | (lane - 3) % 32,
    "0x401f": lambda lane: lane ^ 16,
    "0xc062": lambda lane: lane & 32 | lane & 2 | (lane + 3) & 0b11101,
}


@pytest.mark.parametrize("mask", MASKS)
def test_swizzle(machine: Machine, rng: np.random.Generator, mask: int) -> None:
    data, old = rng.integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    for pattern, source in SWIZZLES.items():
        wave = machine.run(f"ds_swizzle_b32 v10, v1 offset:{pattern}", vector={1: data, 10: old}, exec_mask=mask)
        lanes = np.array([source(lane) for lane in range(64)])
        expected = np.where(bits(mask)[lanes], data[lanes], 0)
        np.testing.assert_array_equal(wave.vector[10], np.where(bits(mask), expected, old), err_msg=pattern)


def test_swizzle_refuses_an_unknown_mode() -> None:
    with pytest.raises(NotImplementedError, match="WHIRL"):
        swizzle_pattern("swizzle(WHIRL,3)")
    assert swizzle_lanes(0x1F) == list(range(64))


def test_trace_records_hold_lds_offsets(machine: Machine, lds: np.ndarray) -> None:
    addresses = (LANES * 8).astype(np.uint32)
    text = "ds_read_b64 v[2:3], v1 offset:16\nds_read2_b32 v[2:3], v1 offset0:3 offset1:5\nds_write_b8 v1, v2 offset:7"
    wave = machine.run(text, vector={1: addresses}, lds=lds, exec_mask=0xFF00)
    assert wave.records["instruction"].tolist() == [0, 1, 2]
    assert wave.records["exec"].tolist() == [0xFF00] * 3
    for record, offset in zip(wave.records, (16, 0, 7), strict=True):
        np.testing.assert_array_equal(record["address"], addresses + offset)
    assert not machine.run(text, vector={1: addresses}, lds=lds, exec_mask=0).records.size


def test_stray_accesses_are_counted(machine: Machine, lds: np.ndarray) -> None:
    addresses = (LANES * 4).astype(np.uint32)
    addresses[:3] = LDS_BYTES - 3
    text = "ds_read_b32 v2, v1\nds_write_b32 v1, v2\nds_read_u8 v2, v1 offset:2\nds_read_u8 v2, v1 offset:3"
    wave = machine.run(text, vector={1: addresses}, lds=lds, exec_mask=FULL & ~1)
    assert wave.context[Context.LDS_STRAY] == 2 + 2 + 0 + 2
