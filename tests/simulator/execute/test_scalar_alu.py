"""Scalar opcodes against Python integers: result and SCC of each, and the opcodes that change EXEC and MODE."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from inputs import words
from machine import Machine
from semantics_integer import LOGIC, SCALAR, ScalarOpcode, signed

from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.execute.layout import Fault
from wavecast.simulator.program.instruction import EXEC, MODE

pytestmark = pytest.mark.execute

FULL = (1 << 64) - 1
_SOURCES = {32: ("s0", "s2"), 64: ("s[0:1]", "s[2:3]")}
_MODE = 0x3F0


def _wide(scalar: np.ndarray, first: int) -> int:
    return int(scalar[first]) | int(scalar[first + 1]) << 32


def _expected(opcode: ScalarOpcode, sources: list[int], scc: int) -> tuple[int, int]:
    arguments = [*sources, scc] if opcode.reads_scc else sources
    result = opcode.compute(*arguments) & (1 << opcode.result) - 1
    if opcode.scc is None:
        return result, scc
    if callable(opcode.scc):
        return result, int(opcode.scc(*arguments))
    return result, int(result != 0)


# Each instruction is followed by one that keeps SCC and one that restores it.
_BATCH = 20


@pytest.mark.parametrize("scc", [0, 1])
@pytest.mark.parametrize("first", range(0, len(SCALAR), _BATCH))
def test_every_opcode(machine: Machine, first: int, scc: int) -> None:
    chosen = list(SCALAR.items())[first : first + _BATCH]
    lines = []
    for index, (name, opcode) in enumerate(chosen):
        row = 10 + 4 * index
        target = f"s[{row}:{row + 1}]" if opcode.result == 64 else f"s{row}"
        sources = [_SOURCES[width][position] for position, width in enumerate(opcode.sources)]
        lines += [f"{name} {target}, {', '.join(sources)}", f"s_cselect_b32 s{row + 2}, 1, 0", "s_cmp_lg_u32 s8, 0"]
    generator = np.random.default_rng(first)
    inputs = [*words(generator, (40, 4)).tolist(), [5, 0, 5, 0], [0, 0, 0, 0], [0xFFFFFFFF] * 4]
    # Fields of every size for the bit field opcodes, whose second source holds offset and size.
    inputs += [
        [0x89ABCDEF, 0x81234567, size << 16 | offset, 0] for size in (0, 1, 7, 31, 32, 63, 64) for offset in (0, 9)
    ]
    for a, b, c, d in inputs:
        wave = machine.run("\n".join(lines), scalar={0: a, 1: b, 2: c, 3: d, 8: scc}, scc=scc)
        for index, (name, opcode) in enumerate(chosen):
            row = 10 + 4 * index
            values = [(a | b << 32, c | d << 32)[i] & (1 << width) - 1 for i, width in enumerate(opcode.sources)]
            got = _wide(wave.scalar, row) if opcode.result == 64 else int(wave.scalar[row])
            assert (got, int(wave.scalar[row + 2])) == _expected(opcode, values, scc), (name, values)


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}


def test_comparisons(machine: Machine) -> None:
    cases: list[tuple[str, Callable[[int, int], bool]]] = []
    for name, relation in _RELATIONS.items():
        cases.append((f"s_cmp_{name}_i32 s0, s2", lambda a, b, r=relation: r(signed(a), signed(b))))
        cases.append((f"s_cmp_{name}_u32 s0, s2", lambda a, b, r=relation: r(a % (1 << 32), b % (1 << 32))))
        cases.append((f"s_cmpk_{name}_i32 s0, 0xff80", lambda a, b, r=relation: r(signed(a), -128)))
        cases.append((f"s_cmpk_{name}_u32 s0, 0xff80", lambda a, b, r=relation: r(a % (1 << 32), 0xFF80)))
    cases.append(("s_cmp_eq_u64 s[0:1], s[2:3]", operator.eq))
    cases.append(("s_cmp_lg_u64 s[0:1], s[2:3]", operator.ne))
    cases.append(("s_bitcmp0_b32 s0, s2", lambda a, b: not a >> b % 32 & 1))
    cases.append(("s_bitcmp1_b32 s0, s2", lambda a, b: bool(a >> b % 32 & 1)))
    cases.append(("s_bitcmp0_b64 s[0:1], s2", lambda a, b: not a >> b % 64 & 1))
    cases.append(("s_bitcmp1_b64 s[0:1], s2", lambda a, b: bool(a >> b % 64 & 1)))
    lines = [f"{text}\ns_cselect_b32 s{10 + index}, 1, 0" for index, (text, _) in enumerate(cases)]
    pairs = words(np.random.default_rng(1), (40, 4)).tolist()
    pairs += [[0xFFFFFF80, 1, 0xFFFFFF80, 1], [0xFF80, 0, 0xFF80, 0], [7, 1, 7, 2]]
    for a, b, c, d in pairs:
        wave = machine.run("\n".join(lines), scalar={0: a, 1: b, 2: c, 3: d})
        for index, (text, relation) in enumerate(cases):
            assert wave.scalar[10 + index] == relation(a | b << 32, c | d << 32), (text, a, b, c, d)


def test_constants_of_16_bits(machine: Machine) -> None:
    wave = machine.run(
        """s_movk_i32 s10, 0xffc0
        s_movk_i32 s11, 0x7fff
        s_addk_i32 s12, 0xfffe
        s_cselect_b32 s13, 1, 0
        s_addk_i32 s14, 0x7fff
        s_cselect_b32 s15, 1, 0
        s_mulk_i32 s16, 0xfffd
        s_cmp_eq_u32 s0, 0
        s_cmovk_i32 s17, 0x8000
        s_cmov_b32 s18, s1
        s_cmov_b64 s[20:21], s[0:1]
        s_cmp_eq_u32 s0, 1
        s_cmovk_i32 s19, 0x8000
        s_cmov_b32 s22, s1""",
        scalar={0: 0, 1: 9, 12: 1, 14: 0x7FFFFFFF, 16: 7, 17: 1, 18: 2, 19: 3, 20: 4, 21: 5, 22: 6},
    )
    got = [signed(int(x)) for x in wave.scalar[10:23]]
    assert got == [-64, 0x7FFF, -1, 0, signed(0x80007FFE), 1, -21, -32768, 9, 3, 0, 9, 6]


def test_single_bits(machine: Machine) -> None:
    wave = machine.run(
        """s_bitset1_b32 s10, s0
        s_bitset0_b32 s11, 31
        s_bitset1_b64 s[12:13], s0
        s_bitset0_b64 s[14:15], s0""",
        scalar={0: 33, 10: 0, 11: 0xFFFFFFFF, 12: 0, 13: 0, 14: 0xFFFFFFFF, 15: 0xFFFFFFFF},
    )
    assert [int(x) for x in wave.scalar[10:16]] == [2, 0x7FFFFFFF, 0, 2, 0xFFFFFFFF, 0xFFFFFFFD]


@pytest.mark.parametrize("operand", [0, FULL, 0x00FF_0000_FFFF_0001])
def test_exec_is_saved_and_changed(machine: Machine, operand: int) -> None:
    lanes = 0x0F0F_0000_FFFF_8001
    rules = {f"s_{name}_saveexec_b64": compute for name, compute in LOGIC.items()}
    rules["s_andn1_saveexec_b64"] = lambda a, b: ~a & b
    rules["s_orn1_saveexec_b64"] = lambda a, b: ~a | b
    for name, compute in rules.items():
        wave = machine.run(
            f"{name} s[10:11], s[0:1]", scalar={0: operand & 0xFFFFFFFF, 1: operand >> 32}, exec_mask=lanes, scc=1
        )
        expected = compute(operand, lanes) & FULL
        assert (_wide(wave.scalar, 10), _wide(wave.scalar, EXEC), wave.scc) == (lanes, expected, expected != 0), name
    for name, compute in {"andn1": lambda a, b: ~a & b, "andn2": lambda a, b: a & ~b}.items():
        wave = machine.run(
            f"s_{name}_wrexec_b64 s[10:11], s[0:1]",
            scalar={0: operand & 0xFFFFFFFF, 1: operand >> 32},
            exec_mask=lanes,
        )
        expected = compute(operand, lanes) & FULL
        assert (_wide(wave.scalar, 10), _wide(wave.scalar, EXEC), wave.scc) == (expected, expected, expected != 0), name


def test_exec_and_vcc_are_operands_like_any_other(machine: Machine) -> None:
    wave = machine.run(
        """s_mov_b64 exec, s[0:1]
        v_mov_b32_e32 v1, 1
        s_or_b64 exec, exec, s[2:3]
        v_mov_b32_e32 v2, 2
        s_sub_u32 s6, vcc_lo, 1
        s_subb_u32 s7, vcc_hi, 0
        s_mov_b32 m0, 5
        s_add_u32 s8, m0, m0
        s_xor_b64 s[10:11], exec, -1""",
        scalar={0: 0xF, 1: 0, 2: 0, 3: 0x80000000},
        vcc=1 << 32,
    )
    assert wave.vector[1].tolist() == [1] * 4 + [0] * 60
    assert wave.vector[2].tolist() == [2] * 4 + [0] * 59 + [2]
    assert [int(x) for x in wave.scalar[6:9]] == [0xFFFFFFFF, 0, 10]
    assert _wide(wave.scalar, 10) == FULL ^ 0xF ^ 1 << 63


def test_mode_fields(machine: Machine) -> None:
    wave = machine.run(
        """s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
        s_getreg_b32 s10, hwreg(HW_REG_MODE)
        s_getreg_b32 s11, hwreg(HW_REG_MODE, 23, 1)
        s_getreg_b32 s12, hwreg(HW_REG_MODE, 4, 4)
        s_setreg_b32 hwreg(HW_REG_MODE, 23, 1), s0
        s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3""",
        scalar={0: 0},
        mode=_MODE,
    )
    assert [int(x) for x in wave.scalar[10:13]] == [_MODE | 1 << 23, 1, 15]
    assert wave.scalar[MODE] == _MODE


@pytest.mark.parametrize(
    "line",
    [
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 3",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1",
        "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s0",
        "s_setreg_b32 hwreg(HW_REG_MODE), s0",
        "s_getreg_b32 s0, hwreg(HW_REG_HW_ID)",
        "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 0, 1), 1",
    ],
)
def test_other_hardware_registers_and_modes_are_refused(machine: Machine, line: str) -> None:
    with pytest.raises(UnsupportedInstructionError, match="MODE"):
        machine.run(line)


def test_trap_stops_the_wave(machine: Machine) -> None:
    wave = machine.run("s_mov_b32 s0, 1\ns_trap 2\ns_mov_b32 s0, 2", scalar={0: 0})
    assert wave.fault == Fault.TRAP
    assert wave.scalar[0] == 1
