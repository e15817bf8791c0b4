"""Atomics on global, buffer and LDS memory against plain Python, lane by lane."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from machine import Machine
from semantics_atomics import GLOBAL, Meaning, lds_opcodes, simulate
from semantics_memory import FULL, LANES, bits, split

from wavecast.simulator.execute.layout import Context, Fault
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute

MASKS = (FULL, 0x123456789ABCDEF0, 0)
SPAN = 2048


def data_of(rng: np.random.Generator, name: str, width: int) -> tuple[np.ndarray, list[int]]:
    """Memory content and 64 values that suit the opcode: random bits, floats with special values, small counters."""
    if "f32" in name or "f64" in name:
        kind = np.float32 if width == 32 else np.float64
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(kind).tiny / 8, 1e30, -1e30], dtype=kind)
        values = np.concatenate([rng.normal(size=56).astype(kind), special])
        memory = rng.choice(values, SPAN // kind().itemsize).view(np.uint8)
        raw = rng.permutation(values)
        return memory, [int.from_bytes(value.tobytes(), "little") for value in raw]
    if "f16" in name:
        halves = rng.normal(size=SPAN // 2) * 10
        kind16 = ml_dtypes.bfloat16 if "bf16" in name else np.float16
        memory = halves.astype(kind16).view(np.uint8)
        return memory, [int(value) for value in (rng.normal(size=128) * 3).astype(kind16).view(np.uint32)]
    if "inc" in name or "dec" in name:
        return np.zeros(SPAN, dtype=np.uint8), [int(value) for value in rng.integers(0, 12, 64)]
    memory = rng.integers(0, 256, SPAN, dtype=np.uint8)
    return memory, [int.from_bytes(rng.bytes(width // 8), "little") for _ in range(64)]


def offsets_of(rng: np.random.Generator, width: int) -> list[np.ndarray]:
    """All lanes apart, few places for many lanes, one place for all."""
    size = width // 8
    return [rng.permutation(64) * size, rng.integers(0, 6, 64) * size, np.full(64, 40)]


def same(actual: np.ndarray, expected: np.ndarray, name: str, width: int) -> None:
    """Equal bytes; NaN equals NaN, since its payload is not specified."""
    if "f32" in name or "f64" in name:
        kind = np.float32 if width == 32 else np.float64
        a, b = actual.view(kind), expected.view(kind)
        both = np.isnan(a) & np.isnan(b)
        actual, expected = a[~both].view(np.uint8), b[~both].view(np.uint8)
    np.testing.assert_array_equal(actual, expected, err_msg=name)


def operand(first: int, words: int) -> str:
    return f"v{first}" if words == 1 else f"v[{first}:{first + words - 1}]"


def place_data(values: list[int], width: int, first: int) -> dict[int, np.ndarray]:
    if width == 32:
        return {first: np.array(values, dtype=np.uint32)}
    return split(np.array(values, dtype=np.uint64), first)


def returned(vector: np.ndarray, words: int, first: int = 20) -> list[int]:
    return [sum(int(vector[first + word, lane]) << 32 * word for word in range(words)) for lane in range(64)]


@pytest.mark.parametrize(("name", "meaning", "width"), GLOBAL, ids=[entry[0] for entry in GLOBAL])
def test_global_and_buffer(machine: Machine, name: str, meaning: Meaning, width: int) -> None:
    rng = np.random.default_rng(len(name) * 100 + width)
    words = width // 32
    content, values = data_of(rng, name, width)
    array = content.copy()
    space = AddressSpace()
    base = space.map_array(array, "array")
    descriptor = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: SPAN, 7: 0x27000}
    data = operand(10, words)
    target = operand(20, words)
    for mask in MASKS:
        for offsets in offsets_of(rng, width):
            expected, olds = simulate(
                content, offsets + 8, bits(mask), width, lambda old, lane: meaning(old, values[lane], width)
            )
            vector = split(base + offsets, 1) | {3: offsets.astype(np.uint32)} | place_data(values, width, 10)
            vector |= place_data(values, width, 20)
            for text, result in (
                (f"global_atomic_{name} v[1:2], {data}, off offset:8", False),
                (f"global_atomic_{name} {target}, v3, {data}, s[4:5] offset:8 sc0", True),
                (f"flat_atomic_{name} {target}, v[1:2], {data} offset:8 sc0", True),
                (f"buffer_atomic_{name} {data}, v3, s[4:7], 0 offen offset:8", False),
                (f"buffer_atomic_{name} {target}, v3, s[4:7], 0 offen offset:8 sc0", True),
            ):
                array[:] = content
                wave = machine.run(text, vector=vector, scalar=descriptor, exec_mask=mask, memory=space)
                same(array, expected, name, width)
                assert len(wave.records) == (mask != 0)
                if result:
                    wanted = [old if mask >> lane & 1 else values[lane] for lane, old in enumerate(olds)]
                    actual = np.array(returned(wave.vector, words), dtype=np.uint64)
                    dtype = np.uint32 if words == 1 else np.uint64
                    kept = np.array(wanted, dtype=np.uint64)
                    same(actual.astype(dtype).view(np.uint8), kept.astype(dtype).view(np.uint8), name, width)


@pytest.mark.parametrize("width", [32, 64])
def test_compare_and_swap(machine: Machine, width: int) -> None:
    rng = np.random.default_rng(width)
    words = width // 32
    content = rng.integers(0, 2, SPAN, dtype=np.uint8)
    array = content.copy()
    space = AddressSpace()
    base = space.map_array(array, "array")
    offsets = rng.integers(0, 12, 64) * 8
    current = [int.from_bytes(content[o : o + width // 8].tobytes(), "little") for o in offsets]
    expected_value = [value if lane % 3 else 5 for lane, value in enumerate(current)]
    new = [int(value) for value in rng.integers(0, 1 << 31, 64)]
    mask = 0xFFFF0FFFFFFFFFFF
    memory, olds = simulate(
        content, offsets, bits(mask), width, lambda old, lane: new[lane] if old == expected_value[lane] else old
    )
    vector = split(base + offsets, 1) | {3: offsets.astype(np.uint32)}
    vector |= place_data(new, width, 10) | place_data(expected_value, width, 10 + words)
    tail = "_x2" if width == 64 else ""
    target, pair = operand(20, words), f"v[10:{9 + 2 * words}]"
    swapped = {10: "v10", 11: "v11"} if words == 1 else {10: "v[10:11]", 12: "v[12:13]"}
    first, second = swapped.values()
    descriptor = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: SPAN, 7: 0x27000}
    for text in (
        f"global_atomic_cmpswap{tail} {target}, v[1:2], {pair}, off sc0",
        f"global_atomic_cmpswap{tail} v[1:2], {pair}, off",
        f"buffer_atomic_cmpswap{tail} {pair}, v3, s[4:7], 0 offen",
    ):
        array[:] = content
        wave = machine.run(text, vector=vector, scalar=descriptor, exec_mask=mask, memory=space)
        np.testing.assert_array_equal(array, memory, err_msg=text)
        if "sc0" in text:
            assert returned(wave.vector, words) == olds
    wave = machine.run(
        f"ds_cmpst_rtn_b{width} {target}, v3, {second}, {first}", vector=vector, exec_mask=mask, lds=content
    )
    np.testing.assert_array_equal(wave.lds[:SPAN], memory)
    assert returned(wave.vector, words) == olds


@pytest.mark.parametrize(("name", "meaning", "width"), lds_opcodes(), ids=[entry[0] for entry in lds_opcodes()])
def test_lds(machine: Machine, name: str, meaning: Meaning, width: int) -> None:
    rng = np.random.default_rng(len(name) * 7 + width)
    words = width // 32
    content, values = data_of(rng, name, width)
    for mask in MASKS:
        for offsets in offsets_of(rng, width):
            offsets = offsets.copy()
            expected, olds = simulate(
                content, offsets + 8, bits(mask), width, lambda old, lane: meaning(old, values[lane], width)
            )
            vector = {1: offsets.astype(np.uint32)} | place_data(values, width, 10) | place_data(values, width, 20)
            plain = f"ds_{name.format('')} v1, {operand(10, words)} offset:8"
            with_result = f"ds_{name.format('_rtn')} {operand(20, words)}, v1, {operand(10, words)} offset:8"
            for text in (plain, with_result):
                wave = machine.run(text, vector=vector, exec_mask=mask, lds=content)
                same(wave.lds[:SPAN], expected, name, width)
                assert wave.records["exec"].tolist() == ([mask] if mask else [])
            wanted = [old if mask >> lane & 1 else values[lane] for lane, old in enumerate(olds)]
            dtype = np.uint32 if words == 1 else np.uint64
            actual = np.array(returned(wave.vector, words), dtype=np.uint64).astype(dtype)
            same(actual.view(np.uint8), np.array(wanted, dtype=np.uint64).astype(dtype).view(np.uint8), name, width)


def test_lds_exchange_and_masked_or(machine: Machine) -> None:
    content = np.arange(256, dtype=np.uint8)
    vector = {
        1: (LANES * 4).astype(np.uint32),
        2: (LANES + 7).astype(np.uint32),
        3: np.full(64, 0xFF00, dtype=np.uint32),
    }
    before = content.view(np.uint32)
    wave = machine.run("ds_wrxchg_rtn_b32 v9, v1, v2", vector=vector, lds=content)
    np.testing.assert_array_equal(wave.vector[9], before)
    np.testing.assert_array_equal(wave.lds[:256].view(np.uint32), LANES + 7)
    wave = machine.run("ds_mskor_b32 v1, v3, v2", vector=vector, lds=content)
    np.testing.assert_array_equal(wave.lds[:256].view(np.uint32), before & ~np.uint32(0xFF00) | vector[2])
    floats = np.array([0.0, -0.0, 1.0, np.nan] * 16, dtype=np.float32)
    vector = {1: vector[1], 2: np.zeros(64, dtype=np.float32), 3: np.full(64, 9.0, dtype=np.float32)}
    wave = machine.run("ds_cmpst_f32 v1, v2, v3", vector=vector, lds=floats)
    np.testing.assert_array_equal(wave.lds[:256].view(np.float32), np.array([9.0, 9.0, 1.0, np.nan] * 16))


def test_lanes_out_of_range_do_nothing_and_return_zero(machine: Machine) -> None:
    array = np.zeros(64, dtype=np.uint32)
    space = AddressSpace()
    base = space.map_array(array, "array")
    descriptor = {4: base & 0xFFFFFFFF, 5: base >> 32, 6: 128, 7: 0x27000}
    vector = {1: (LANES * 4).astype(np.uint32), 2: np.full(64, 3, dtype=np.uint32)}
    wave = machine.run("buffer_atomic_add v2, v1, s[4:7], 0 offen sc0", vector=vector, scalar=descriptor, memory=space)
    np.testing.assert_array_equal(array, np.where(LANES < 32, 3, 0))
    np.testing.assert_array_equal(wave.vector[2], 0)
    assert wave.records["exec"][0] == 0xFFFFFFFF
    # Eight bytes of which only four are in range: an atomic takes part as a whole or not at all.
    vector = {1: np.full(64, 124, dtype=np.uint32), 2: np.ones(64, dtype=np.uint32), 3: np.ones(64, dtype=np.uint32)}
    machine.run("buffer_atomic_add_x2 v[2:3], v1, s[4:7], 0 offen", vector=vector, scalar=descriptor, memory=space)
    assert array[31:33].tolist() == [3, 0]
    vector[1] = np.full(64, (1 << 16) - 3, dtype=np.uint32)
    wave = machine.run("ds_add_rtn_u32 v3, v1, v2", vector=vector)
    assert wave.context[Context.LDS_STRAY] == 64
    np.testing.assert_array_equal(wave.vector[3], 0)
    assert not wave.lds.any()


def test_a_stray_atomic_faults(machine: Machine) -> None:
    array = np.zeros(64, dtype=np.uint32)
    space = AddressSpace()
    base = space.map_array(array, "array")
    vector = split(base + LANES * 4 + 4, 1)
    wave = machine.run("global_atomic_add v[1:2], v1, off", vector=vector, memory=space)
    assert wave.fault == Fault.STRAY_ADDRESS
    assert wave.context[Context.FAULT_LANE] == 63
    assert not array.any()
