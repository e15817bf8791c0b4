"""Vector integer opcodes against Python integers, under several EXEC masks."""

from __future__ import annotations

import numpy as np
import pytest
from inputs import EXEC_MASKS, words
from machine import Machine, Wave
from semantics_integer import VECTOR, Opcode, lookup, permute_bytes, signed

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

_SOURCES = {16: ("v0", "v1", "v2"), 32: ("v0", "v1", "v2"), 64: ("v[4:5]", "v[6:7]", "v[8:9]")}
_MASK_SOURCE = "s[0:1]"
_FIRST_RESULT = 16
_FIRST_MASK = 10


def _lanes(wave_vector: np.ndarray, text: str, width: int) -> list[int]:
    """Values of a register operand, lane by lane."""
    number = int(text.strip("v[]").split(":")[0])
    low = wave_vector[number].astype(np.uint64)
    high = wave_vector[number + 1].astype(np.uint64) << np.uint64(32) if width == 64 else np.uint64(0)
    return [int(value) & (1 << width) - 1 for value in low | high]


class Batch:
    """Collects instructions with their expected results, runs them at once and compares."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)
        self.before = words(self.generator, (240, 64))
        self.mask = int(self.generator.integers(0, 1 << 63)) << 1 | 1
        self.lines: list[str] = []
        self.checks: list[tuple[str, Opcode, int, int, list[str]]] = []
        self.next_row, self.next_mask = _FIRST_RESULT, _FIRST_MASK

    def add(self, name: str, opcode: Opcode, modifiers: str = "") -> None:
        row, mask = self.next_row, self.next_mask
        results = []
        for width in opcode.results:
            if width == 1:
                results.append(f"s[{mask}:{mask + 1}]")
                self.next_mask += 2
            else:
                results.append(f"v[{row}:{row + 1}]" if width == 64 else f"v{row}")
                self.next_row += 2
        sources = [
            _MASK_SOURCE if width == 1 else _SOURCES[width][position] for position, width in enumerate(opcode.sources)
        ]
        self.lines.append(f"{name} {', '.join([*results, *sources])} {modifiers}")
        self.checks.append((name, opcode, row, mask, sources))

    def run(self, machine: Machine, exec_mask: int) -> None:
        scalars = {0: self.mask & 0xFFFFFFFF, 1: self.mask >> 32}
        vector = {number: self.before[number] for number in range(240)}
        arch = "gfx950" if any("bitop3" in line for line in self.lines) else "gfx942"
        wave = machine.run("\n".join(self.lines), arch=arch, vector=vector, scalar=scalars, exec_mask=exec_mask)
        for name, opcode, row, mask, sources in self.checks:
            self._check(wave, exec_mask, name, opcode, row, mask, sources)

    def _check(
        self, wave: Wave, exec_mask: int, name: str, opcode: Opcode, row: int, mask: int, sources: list[str]
    ) -> None:
        columns = [
            [self.mask >> lane & 1 for lane in range(64)] if width == 1 else _lanes(self.before, text, width)
            for text, width in zip(sources, opcode.sources, strict=True)
        ]
        width = opcode.results[0]
        old = _lanes(self.before, f"v{row}", max(width, 32))
        expected, carries = list(old), 0
        for lane in range(64):
            if not exec_mask >> lane & 1:
                continue
            outcome = opcode.compute(*(column[lane] for column in columns))
            value, *carry = outcome if isinstance(outcome, tuple) else (outcome,)
            expected[lane] = value & (1 << width) - 1
            if opcode.keeps_high:
                expected[lane] |= old[lane] & 0xFFFF0000
            carries |= (carry[0] if carry else 0) << lane
        assert _lanes(wave.vector, f"v{row}", max(width, 32)) == expected, name
        if len(opcode.results) == 2:
            assert int(wave.scalar[mask]) | int(wave.scalar[mask + 1]) << 32 == carries, name


@pytest.mark.parametrize("exec_mask", EXEC_MASKS, ids=hex)
@pytest.mark.parametrize("seed", range(3))
def test_every_opcode(machine: Machine, seed: int, exec_mask: int) -> None:
    batch = Batch(seed)
    for name, opcode in VECTOR.items():
        batch.add(name, opcode)
    batch.run(machine, exec_mask)


def _clamped(low: int, high: int) -> object:
    return lambda value: min(max(value, low), high)


def test_clamp_saturates(machine: Machine) -> None:
    unsigned, half = _clamped(0, 0xFFFFFFFF), _clamped(0, 0xFFFF)
    integer, short = _clamped(-(1 << 31), (1 << 31) - 1), _clamped(-(1 << 15), (1 << 15) - 1)
    batch = Batch(7)
    batch.add("v_sub_u32_e64", Opcode((32,), (32, 32), lambda a, b: unsigned(a - b)), "clamp")
    batch.add("v_subrev_u32_e64", Opcode((32,), (32, 32), lambda a, b: unsigned(b - a)), "clamp")
    batch.add("v_add_u32_e64", Opcode((32,), (32, 32), lambda a, b: unsigned(a + b)), "clamp")
    batch.add("v_add_u16_e64", Opcode((16,), (16, 16), lambda a, b: half(a + b)), "clamp")
    batch.add("v_sub_u16_e64", Opcode((16,), (16, 16), lambda a, b: half(a - b)), "clamp")
    batch.add("v_add_i32", Opcode((32,), (32, 32), lambda a, b: integer(signed(a) + signed(b))), "clamp")
    batch.add("v_sub_i32", Opcode((32,), (32, 32), lambda a, b: integer(signed(a) - signed(b))), "clamp")
    batch.add("v_add_i16", Opcode((16,), (16, 16), lambda a, b: short(signed(a, 16) + signed(b, 16)), True), "clamp")
    batch.run(machine, EXEC_MASKS[1])


def test_every_truth_table(machine: Machine) -> None:
    for first in (0, 80, 160):
        batch = Batch(first)
        for table in range(first, min(first + 80, 256)):
            batch.add("v_bitop3_b32", Opcode((32,), (32, 32, 32), lookup(table)), f"bitop3:{table:#x}")
        batch.run(machine, EXEC_MASKS[0])
    batch = Batch(3)
    for table in (0xF8, 0xC8, 0x1B, 0x96):
        batch.add("v_bitop3_b16", Opcode((16,), (16, 16, 16), lookup(table), True), f"bitop3:{table:#x}")
    batch.run(machine, EXEC_MASKS[1])


def test_op_sel_takes_and_fills_the_high_half(machine: Machine) -> None:
    values = words(np.random.default_rng(5), (4, 64))
    wave = machine.run(
        "v_mad_u16 v3, v0, v1, v2 op_sel:[1,0,1,1]\nv_mad_u32_u16 v4, v0, v1, v2 op_sel:[0,1,0,0]",
        vector=dict(enumerate(values)),
    )
    a, b, c, old = ([int(x) for x in row] for row in values)
    for lane in range(64):
        high = ((a[lane] >> 16) * (b[lane] & 0xFFFF) + (c[lane] >> 16)) & 0xFFFF
        assert wave.vector[3, lane] == high << 16 | old[lane] & 0xFFFF
        assert wave.vector[4, lane] == ((a[lane] & 0xFFFF) * (b[lane] >> 16) + c[lane]) & 0xFFFFFFFF


def test_op_sel_of_two_sources_ends_with_the_destination(machine: Machine) -> None:
    """As the assembler encodes ``v_add_i16 v5, v1, v2 op_sel:[1,1,1]``: bits 0, 1 and 3 of the field."""
    low, high = np.full(64, 0x0010_0001, np.uint32), np.full(64, 0x0020_0002, np.uint32)
    old = np.full(64, 0xAAAA_BBBB, np.uint32)
    lines = [f"v_add_i16 v{3 + i}, v0, v1 op_sel:{bits}" for i, bits in enumerate(("[0,0,1]", "[1,1,1]", "[1,0,0]"))]
    wave = machine.run("\n".join(lines), vector={0: low, 1: high, 3: old, 4: old, 5: old})
    assert [hex(wave.vector[row, 9]) for row in (3, 4, 5)] == ["0x3bbbb", "0x30bbbb", "0xaaaa0012"]


def test_every_selector_of_a_byte_permutation(machine: Machine) -> None:
    generator = np.random.default_rng(9)
    a, b = words(generator, (2, 64))
    selectors = [s | s + 1 << 8 | s + 2 << 16 | s + 3 << 24 for s in range(0, 16, 4)] + [0xFF100FFF, 0x80818C0C]
    selectors += [0x00000000, 0x07070707, 0x05010602, 0x03020706]
    plain, mixed = generator.integers(0, 8, (64, 4), dtype=np.uint8), generator.integers(0, 18, (64, 4), dtype=np.uint8)
    columns = [np.full(64, selector, dtype=np.uint32) for selector in selectors]
    columns += [plain.view(np.uint32)[:, 0], mixed.view(np.uint32)[:, 0]]
    body = [f"v_perm_b32 v{10 + i}, v0, v1, s{i}" for i in range(len(selectors))]
    body += [f"v_perm_b32 v{40 + i}, v0, v1, v{70 + i}" for i in range(len(columns))]
    vector = {0: a, 1: b, **{70 + i: column for i, column in enumerate(columns)}}
    wave = machine.run("\n".join(body), vector=vector, scalar=dict(enumerate(selectors)))
    for i, column in enumerate(columns):
        expected = [permute_bytes(int(x), int(y), int(s)) for x, y, s in zip(a, b, column, strict=True)]
        assert wave.vector[40 + i].tolist() == expected, i
        if i < len(selectors):
            assert wave.vector[10 + i].tolist() == expected, hex(selectors[i])


def test_scalar_and_constant_sources(machine: Machine) -> None:
    a = words(np.random.default_rng(2), 64)
    wave = machine.run(
        """v_add_u32_e32 v1, s0, v0
        v_sub_u32_e32 v2, -16, v0
        v_lshl_add_u64 v[4:5], s[0:1], 3, -2
        v_and_b32_e32 v3, 0x7fffffff, v0
        v_mad_u64_u32 v[6:7], s[4:5], v0, s1, -1
        v_mov_b64_e32 v[8:9], -3
        v_add_co_u32_e32 v10, vcc, 5, v0
        v_addc_co_u32_e32 v11, vcc, 0, v0, vcc
        v_min_i16_e32 v12, -1, v0
        v_lshlrev_b64 v[14:15], v0, 1""",
        vector={0: a},
        scalar={0: 0xFFFFFFF0, 1: 0x12345678},
    )
    values = [int(x) for x in a]
    assert wave.vector[1].tolist() == [(x + 0xFFFFFFF0) % (1 << 32) for x in values]
    assert wave.vector[2].tolist() == [(-16 - x) % (1 << 32) for x in values]
    total = ((0x12345678FFFFFFF0 << 3) - 2) % (1 << 64)
    assert set(_lanes(wave.vector, "v4", 64)) == {total}
    assert wave.vector[3].tolist() == [x & 0x7FFFFFFF for x in values]
    assert _lanes(wave.vector, "v6", 64) == [(x * 0x12345678 + (1 << 64) - 1) % (1 << 64) for x in values]
    assert set(_lanes(wave.vector, "v8", 64)) == {(1 << 64) - 3}
    assert wave.vector[10].tolist() == [(x + 5) % (1 << 32) for x in values]
    assert wave.vector[11].tolist() == [(x + (x + 5 >> 32)) % (1 << 32) for x in values]
    carried = sum((x + (x + 5 >> 32) >> 32) << lane for lane, x in enumerate(values))
    assert wave.vcc == carried
    assert wave.vector[12].tolist() == [min(-1, signed(x, 16)) & 0xFFFF for x in values]
    assert _lanes(wave.vector, "v14", 64) == [1 << x % 64 for x in values]


def test_accumulation_registers_and_overlap(machine: Machine) -> None:
    a, b = words(np.random.default_rng(4), (2, 64))
    wave = machine.run(
        """v_accvgpr_write_b32 a3, v0
        v_accvgpr_mov_b32 a4, a3
        v_accvgpr_read_b32 v2, a4
        v_accvgpr_write_b32 a5, 7
        v_lshlrev_b64 v[0:1], 4, v[0:1]
        v_swap_b32 v2, v3""",
        vector={0: a, 1: b},
        exec_mask=EXEC_MASKS[1],
    )
    active = np.array([EXEC_MASKS[1] >> lane & 1 for lane in range(64)], dtype=bool)
    assert np.array_equal(wave.vector[256 + 4], np.where(active, a, 0))
    assert np.array_equal(wave.vector[256 + 5], np.where(active, 7, 0))
    assert np.array_equal(wave.vector[3], np.where(active, a, 0))
    wide = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    moved = (wide << np.uint64(4)).view(np.uint32).reshape(64, 2)
    assert np.array_equal(wave.vector[0], np.where(active, moved[:, 0], a))
    assert np.array_equal(wave.vector[1], np.where(active, moved[:, 1], b))


@pytest.mark.parametrize(
    "line",
    [
        "v_add3_u32 v0, v1, v2, v3 clamp",
        "v_add_u32_e64 v0, v1, v2 mul:2",
        "v_add_u32_e64 v0, -v1, v2",
        "v_mul_lo_u32 v0, v1, v2 op_sel:[1,0,0]",
    ],
)
def test_modifier_without_meaning_is_refused(machine: Machine, line: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match=line.split()[0].removesuffix("_e64")):
        machine.run(line)
