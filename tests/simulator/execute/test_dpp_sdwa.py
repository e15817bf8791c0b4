"""Sources from other lanes (DPP) and from parts of a register (SDWA), by the rules spelled out lane by lane."""

from __future__ import annotations

import numpy as np
import pytest
from inputs import EXEC_MASKS, words
from machine import Machine
from semantics_lanes import DPP_CONTROLS, dpp_lanes

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

FULL = (1 << 64) - 1
PARTIAL = EXEC_MASKS[1]


_MASKS = ["row_mask:0xf bank_mask:0xf", "row_mask:0xa bank_mask:0xf", "row_mask:0xf bank_mask:0x5"]
_MASKS += ["row_mask:0xc bank_mask:0x3"]


@pytest.mark.parametrize("exec_mask", [FULL, PARTIAL], ids=hex)
@pytest.mark.parametrize("bound", ["", " bound_ctrl:1", " bound_ctrl:0"])
def test_dpp_controls(machine: Machine, bound: str, exec_mask: int) -> None:
    a, b, old = words(np.random.default_rng(1), (3, 64))
    cases = [(control, masks) for control in DPP_CONTROLS for masks in _MASKS]
    lines = []
    for index, (control, masks) in enumerate(cases):
        lines.append(f"v_mov_b32_dpp v{10 + 2 * index}, v0 {control} {masks}{bound}")
        lines.append(f"v_sub_u32_dpp v{11 + 2 * index}, v0, v1 {control} {masks}{bound}")
    vector = {0: a, 1: b, **{10 + n: old for n in range(2 * len(cases))}}
    wave = machine.run("\n".join(lines), vector=vector, exec_mask=exec_mask)
    for index, (control, masks) in enumerate(cases):
        lanes = dpp_lanes(control, masks, bound, a, exec_mask)
        moved = [value if written else int(old[lane]) for lane, (written, value) in enumerate(lanes)]
        assert wave.vector[10 + 2 * index].tolist() == moved, (control, masks)
        rest = [(value - int(b[lane])) % (1 << 32) if on else int(old[lane]) for lane, (on, value) in enumerate(lanes)]
        assert wave.vector[11 + 2 * index].tolist() == rest, (control, masks)


def test_dpp_moves_the_first_source_of_every_form(machine: Machine) -> None:
    a, b = words(np.random.default_rng(2), (2, 64))
    rest = "row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1"
    wave = machine.run(
        f"""v_addc_co_u32_dpp v2, vcc, v0, v1, vcc {rest}
        v_cndmask_b32_dpp v3, v0, v1, vcc {rest}
        v_add_co_u32_dpp v4, vcc, v0, v1 {rest}
        v_xor_b32_dpp v0, v0, v0 {rest}""",
        vector={0: a, 1: b},
        vcc=0x5555_5555_5555_5555,
    )
    moved = [int(a[lane - 1]) if lane % 16 else 0 for lane in range(64)]
    sums = [x + int(y) + (1 - lane % 2) for lane, (x, y) in enumerate(zip(moved, b, strict=True))]
    assert wave.vector[2].tolist() == [x % (1 << 32) for x in sums]
    carries = [x >> 32 for x in sums]
    assert wave.vector[3].tolist() == [int(b[i]) if carries[i] else moved[i] for i in range(64)]
    plain = [x + int(y) for x, y in zip(moved, b, strict=True)]
    assert wave.vector[4].tolist() == [x % (1 << 32) for x in plain]
    assert wave.vcc == sum((x >> 32) << lane for lane, x in enumerate(plain))
    assert wave.vector[0].tolist() == [x ^ int(y) for x, y in zip(moved, a, strict=True)]


def test_dpp_with_float_modifiers(machine: Machine) -> None:
    values = np.arange(64, dtype=np.float32) - 20
    wave = machine.run(
        "v_add_f32_dpp v1, -v0, |v0| row_ror:8 row_mask:0xf bank_mask:0xf bound_ctrl:1", vector={0: values}
    )
    expected = [-values[lane // 16 * 16 + (lane - 8) % 16] + abs(values[lane]) for lane in range(64)]
    assert wave.vector[1].view(np.float32).tolist() == expected


@pytest.mark.parametrize(
    "line",
    [
        "v_add_co_u32_dpp v2, vcc, v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v2, v0 row_xmask:1 row_mask:0xf bank_mask:0xf",
        "v_mov_b32_dpp v2, v0 row_shr:1 row_mask:0xf bank_mask:0xf fi:1",
    ],
)
def test_dpp_without_known_meaning_is_refused(machine: Machine, line: str) -> None:
    with pytest.raises(UnsupportedInstructionError):
        machine.run(line)


_PARTS = {
    "BYTE_0": (0, 8),
    "BYTE_1": (8, 8),
    "BYTE_2": (16, 8),
    "BYTE_3": (24, 8),
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}


def _part(value: int, name: str, *, extend: bool = False) -> int:
    first, bits = _PARTS[name]
    field = value >> first & (1 << bits) - 1
    return (field - (1 << bits) if extend and field >> (bits - 1) else field) & 0xFFFFFFFF


def _placed(result: int, old: int, name: str, unused: str) -> int:
    first, bits = _PARTS[name]
    field, ones = result & (1 << bits) - 1, (1 << bits) - 1
    if unused == "UNUSED_PRESERVE":
        return old & ~(ones << first) | field << first
    if unused == "UNUSED_SEXT" and field >> (bits - 1):
        return (field - (1 << bits) << first) & 0xFFFFFFFF
    return field << first


@pytest.mark.parametrize("exec_mask", [FULL, PARTIAL], ids=hex)
def test_sdwa_selections(machine: Machine, exec_mask: int) -> None:
    a, b, old = words(np.random.default_rng(3), (3, 64))
    names = list(_PARTS)
    cases = [
        (target, unused, names[(i + 3 * j) % 7], names[(2 * i + j + 1) % 7], bool(i % 2), bool(j % 2))
        for i, target in enumerate(names)
        for j, unused in enumerate(["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"])
    ]
    cases += [("DWORD", "UNUSED_PAD", name, other, True, False) for name in names for other in names]
    lines = []
    for index, (target, unused, first, second, extend_first, extend_second) in enumerate(cases):
        x, y = "sext(v0)" if extend_first else "v0", "sext(v1)" if extend_second else "v1"
        lines.append(
            f"v_add_u32_sdwa v{10 + index}, {x}, {y} "
            f"dst_sel:{target} dst_unused:{unused} src0_sel:{first} src1_sel:{second}"
        )
    vector = {0: a, 1: b, **{10 + n: old for n in range(len(cases))}}
    wave = machine.run("\n".join(lines), vector=vector, exec_mask=exec_mask)
    for index, (target, unused, first, second, extend_first, extend_second) in enumerate(cases):
        expected = []
        for lane in range(64):
            x = _part(int(a[lane]), first, extend=extend_first)
            y = _part(int(b[lane]), second, extend=extend_second)
            new = _placed(x + y & 0xFFFFFFFF, int(old[lane]), target, unused)
            expected.append(new if exec_mask >> lane & 1 else int(old[lane]))
        assert wave.vector[10 + index].tolist() == expected, cases[index]


def test_sdwa_forms(machine: Machine) -> None:
    a, b = words(np.random.default_rng(4), (2, 64))
    pad = "dst_sel:DWORD dst_unused:UNUSED_PAD"
    wave = machine.run(
        f"""v_cndmask_b32_sdwa v2, v0, v1, vcc {pad} src0_sel:DWORD src1_sel:WORD_1
        v_cmp_ne_u16_sdwa s[10:11], v0, s0 src0_sel:BYTE_0 src1_sel:DWORD
        v_cmp_lt_i16_sdwa s[12:13], sext(v0), sext(v1) src0_sel:BYTE_0 src1_sel:BYTE_3
        v_lshrrev_b16_sdwa v3, v0, sext(v1) {pad} src0_sel:DWORD src1_sel:BYTE_0
        v_and_b32_sdwa v4, v0, s1 {pad} src0_sel:DWORD src1_sel:WORD_1
        v_add_co_u32_sdwa v5, vcc, v0, v1 {pad} src0_sel:WORD_1 src1_sel:DWORD
        v_addc_co_u32_sdwa v6, vcc, v0, v1, vcc {pad} src0_sel:DWORD src1_sel:BYTE_2
        v_cmp_gt_u32_sdwa vcc, v0, v1 src0_sel:BYTE_1 src1_sel:DWORD
        v_or_b32_sdwa v7, v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD
        v_add_u16_sdwa v8, v0, v1 {pad} src0_sel:DWORD src1_sel:WORD_1
        v_max_i16_sdwa v9, sext(v0), sext(v1) {pad} src0_sel:BYTE_0 src1_sel:BYTE_0
        v_lshlrev_b16_sdwa v10, v0, v1 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:BYTE_3""",
        vector={0: a, 1: b, 10: b},
        scalar={0: 0x80, 1: 0x12345678},
        vcc=0x3333_3333_3333_3333,
        exec_mask=FULL,
    )
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    vcc = [1, 1, 0, 0] * 16

    def mask(bits: list[bool]) -> int:
        return sum(int(bit) << lane for lane, bit in enumerate(bits))

    def at(first: int) -> int:
        return int(wave.scalar[first]) | int(wave.scalar[first + 1]) << 32

    def byte(value: int, shift: int = 0) -> int:
        field = value >> shift & 0xFF
        return field - 256 if field > 127 else field

    assert wave.vector[2].tolist() == [y >> 16 if vcc[i] else x for i, (x, y) in enumerate(pairs)]
    assert at(10) == mask([x & 0xFF != 0x80 for x, _ in pairs])
    assert at(12) == mask([byte(x) < byte(y, 24) for x, y in pairs])
    assert wave.vector[3].tolist() == [(byte(y) & 0xFFFF) >> x % 16 for x, y in pairs]
    assert wave.vector[4].tolist() == [x & 0x1234 for x, _ in pairs]
    sums = [(x >> 16) + y for x, y in pairs]
    assert wave.vector[5].tolist() == [total % (1 << 32) for total in sums]
    carried = [x + (y >> 16 & 0xFF) + (total >> 32) for (x, y), total in zip(pairs, sums, strict=True)]
    assert wave.vector[6].tolist() == [total % (1 << 32) for total in carried]
    assert wave.vcc == mask([(x >> 8 & 0xFF) > y for x, y in pairs])
    assert wave.vector[7].tolist() == [(x & 0xFF | y) << 16 & 0xFFFFFFFF for x, y in pairs]
    assert wave.vector[8].tolist() == [(x + (y >> 16)) & 0xFFFF for x, y in pairs]
    assert wave.vector[9].tolist() == [max(byte(x), byte(y)) & 0xFFFF for x, y in pairs]
    expected = [y & 0xFFFF00FF | ((y >> 24) << x % 16 & 0xFF) << 8 for x, y in pairs]
    assert wave.vector[10].tolist() == expected
