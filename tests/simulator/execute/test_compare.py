"""Vector comparisons, class tests and the selection by a mask, against Python's own comparisons."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from inputs import EXEC_MASKS, words
from machine import Machine

from wavecast.simulator.program.instruction import EXEC

pytestmark = pytest.mark.execute

FULL = (1 << 64) - 1
_PLAIN = {"eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
Relation = Callable[[float, float], bool]


def _unordered(a: float, b: float) -> bool:
    return math.isnan(a) or math.isnan(b)


def _integer_relations() -> Iterator[tuple[str, Relation]]:
    yield from _PLAIN.items()
    yield "ne", operator.ne
    yield "f", lambda a, b: False
    yield "t", lambda a, b: True


def _float_relations() -> Iterator[tuple[str, Relation]]:
    yield from _PLAIN.items()
    yield "lg", lambda a, b: a < b or a > b
    yield "o", lambda a, b: not _unordered(a, b)
    yield "u", _unordered
    for name, relation in _PLAIN.items():
        yield f"n{name}", lambda a, b, r=relation: not r(a, b)
    yield "nlg", lambda a, b: not (a < b or a > b)
    yield "f", lambda a, b: False
    yield "tru", lambda a, b: True


_FLOAT_EDGES = [0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan, 6e-8, -6e-8, 5e-324, 1e-40, 65504.0, 3e38]


def _float_columns(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of 64 values that meet many pairs of edge values."""
    generator = np.random.default_rng(3)
    with np.errstate(over="ignore", under="ignore"):
        edges = np.array(_FLOAT_EDGES, dtype=np.float64).astype(dtype)
    a, b = edges[generator.integers(0, len(edges), (2, 64))]
    b[::5] = a[::5]
    return a, b


def _registers(values: np.ndarray, first: int) -> dict[int, np.ndarray]:
    """Register contents that hold values of 16, 32 or 64 bits; the unused half of a 16-bit register is not zero."""
    if values.dtype.itemsize == 2:
        return {first: values.view(np.uint16).astype(np.uint32) | 0xABCD0000}
    if values.dtype.itemsize == 4:
        return {first: values.view(np.uint32)}
    pairs = values.view(np.uint32).reshape(64, 2)
    return {first: pairs[:, 0].copy(), first + 1: pairs[:, 1].copy()}


def _mask(scalar: np.ndarray, first: int) -> int:
    return int(scalar[first]) | int(scalar[first + 1]) << 32


def _expected(relation: Relation, a: np.ndarray, b: np.ndarray, exec_mask: int) -> int:
    bits = (int(relation(x.item(), y.item())) << lane for lane, (x, y) in enumerate(zip(a, b, strict=True)))
    return sum(bits) & exec_mask


def _compare(
    machine: Machine, type_name: str, relations: list[tuple[str, Relation]], a: np.ndarray, b: np.ndarray, mask: int
) -> None:
    wide = type_name.endswith("64")
    sources = "v[0:1], v[2:3]" if wide else "v0, v2"
    vector = {**_registers(a, 0), **_registers(b, 2)}
    lines = [f"v_cmp_{name}_{type_name}_e64 s[{2 * i}:{2 * i + 1}], {sources}" for i, (name, _) in enumerate(relations)]
    lines.append(f"v_cmp_{relations[0][0]}_{type_name}_e32 vcc, {sources}")
    wave = machine.run("\n".join(lines), vector=vector, scalar=dict.fromkeys(range(60), 0xFFFFFFFF), exec_mask=mask)
    for i, (name, relation) in enumerate(relations):
        assert _mask(wave.scalar, 2 * i) == _expected(relation, a, b, mask), name
    assert wave.vcc == _expected(relations[0][1], a, b, mask)


@pytest.mark.parametrize("exec_mask", EXEC_MASKS[:2], ids=hex)
@pytest.mark.parametrize("type_name", ["i16", "u16", "i32", "u32", "i64", "u64"])
def test_integers(machine: Machine, type_name: str, exec_mask: int) -> None:
    generator = np.random.default_rng(5)
    width = int(type_name[1:])
    a, b = (words(generator, (64, 2)).view(np.uint64)[:, 0] for _ in range(2))
    b[::4] = a[::4]
    kind = np.dtype(f"{'u' if type_name[0] == 'u' else ''}int{width}")
    narrow = np.dtype(f"uint{width}")
    _compare(
        machine,
        type_name,
        list(_integer_relations()),
        a.astype(narrow).view(kind),
        b.astype(narrow).view(kind),
        exec_mask,
    )


@pytest.mark.parametrize("exec_mask", EXEC_MASKS[:2], ids=hex)
@pytest.mark.parametrize(("type_name", "dtype"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)])
def test_floats(machine: Machine, type_name: str, dtype: type, exec_mask: int) -> None:
    _compare(machine, type_name, list(_float_relations()), *_float_columns(dtype), exec_mask)


def test_float_sources_with_modifiers(machine: Machine) -> None:
    a, b = _float_columns(np.float32)
    wave = machine.run(
        """v_cmp_lt_f32_e64 s[10:11], |v0|, v2
        v_cmp_lt_f32_e64 s[12:13], -v0, v2
        v_cmp_nlt_f32_e64 s[14:15], -|v0|, 1.0
        v_cmp_eq_f32_e64 vcc, s0, v0
        v_cmp_gt_f32_e32 vcc, 0, v2""",
        vector={**_registers(a, 0), **_registers(b, 2)},
        scalar={0: 0x3F800000},
    )
    assert _mask(wave.scalar, 10) == _expected(lambda x, y: abs(x) < y, a, b, FULL)
    assert _mask(wave.scalar, 12) == _expected(lambda x, y: -x < y, a, b, FULL)
    assert _mask(wave.scalar, 14) == _expected(lambda x, y: not -abs(x) < 1.0, a, b, FULL)
    assert wave.vcc == _expected(lambda x, y: y < 0, a, b, FULL)


@pytest.mark.parametrize("exec_mask", EXEC_MASKS, ids=hex)
def test_cmpx_narrows_exec(machine: Machine, exec_mask: int) -> None:
    a, b = words(np.random.default_rng(6), (2, 64))
    wave = machine.run(
        "v_cmpx_lt_i32_e64 s[10:11], v0, v2\nv_mov_b32_e32 v3, 1", vector={0: a, 2: b}, exec_mask=exec_mask
    )
    expected = _expected(operator.lt, a.view(np.int32), b.view(np.int32), exec_mask)
    assert _mask(wave.scalar, 10) == _mask(wave.scalar, EXEC) == expected
    assert wave.vector[3].tolist() == [expected >> lane & 1 for lane in range(64)]


# Bit of the class set for (bits of the value) of each width: sign, exponent and fraction spelled out.
_LAYOUT = {"f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}


def _classes(type_name: str) -> list[tuple[int, int]]:
    """Examples of every class as (bits, number of the class)."""
    exponent_bits, fraction_bits = _LAYOUT[type_name]
    sign, top = 1 << (exponent_bits + fraction_bits), ((1 << exponent_bits) - 1) << fraction_bits
    quiet, one = 1 << (fraction_bits - 1), 1 << fraction_bits
    examples = [(top | 1, 0), (sign | top | quiet - 1, 0), (top | quiet, 1), (sign | top | quiet | 5, 1)]
    examples += [(sign | top, 2), (top, 9), (sign | one, 3), (top - 1, 8), (one, 8), (sign | top - 1, 3)]
    examples += [(sign | 1, 4), (sign | one - 1, 4), (sign, 5), (0, 6), (1, 7), (one - 1, 7)]
    return examples


@pytest.mark.parametrize("type_name", list(_LAYOUT))
def test_classes(machine: Machine, type_name: str) -> None:
    examples = _classes(type_name)
    bits = np.array([examples[lane % len(examples)][0] for lane in range(64)], dtype=np.uint64)
    dtype = np.dtype(f"uint{type_name[1:]}")
    vector = _registers(bits.astype(dtype), 0)
    source = "v[0:1]" if type_name == "f64" else "v0"
    lines = [f"v_cmp_class_{type_name}_e64 s[{10 + 2 * n}:{11 + 2 * n}], {source}, s{n}" for n in range(10)]
    lines.append(f"v_cmp_class_{type_name}_e32 vcc, {source}, v4")
    each = np.array([1 << lane % 10 | 1 << (lane + 3) % 10 for lane in range(64)], dtype=np.uint32)
    wave = machine.run("\n".join(lines), vector={**vector, 4: each}, scalar={n: 1 << n for n in range(10)})
    classes = [examples[lane % len(examples)][1] for lane in range(64)]
    for n in range(10):
        assert _mask(wave.scalar, 10 + 2 * n) == sum((kind == n) << lane for lane, kind in enumerate(classes)), n
    assert wave.vcc == sum((int(each[lane]) >> kind & 1) << lane for lane, kind in enumerate(classes))


def test_class_of_a_negated_value(machine: Machine) -> None:
    wave = machine.run(
        "v_cmp_class_f32_e64 s[10:11], -v0, s0\nv_cmp_class_f32_e64 s[12:13], |v0|, s0",
        vector={0: np.full(64, 0x80000000, dtype=np.uint32)},
        scalar={0: 1 << 6},
    )
    assert _mask(wave.scalar, 10) == _mask(wave.scalar, 12) == FULL


def test_selection(machine: Machine) -> None:
    a, b = words(np.random.default_rng(8), (2, 64))
    mask = 0xF0F0_1234_5678_9ABC
    wave = machine.run(
        """v_cndmask_b32_e32 v2, v0, v1, vcc
        v_cndmask_b32_e64 v3, v0, v1, s[0:1]
        v_cndmask_b32_e64 v4, -v0, |v1|, vcc
        v_cndmask_b32_e64 v5, 0, 1, vcc
        v_cndmask_b32_e64 v6, 0, 1.0, exec""",
        vector={0: a, 1: b},
        scalar={0: mask >> 1 & 0xFFFFFFFF, 1: mask >> 33},
        vcc=mask,
    )
    chosen = np.array([mask >> lane & 1 for lane in range(64)], dtype=bool)
    shifted = np.array([mask >> 1 >> lane & 1 for lane in range(64)], dtype=bool)
    assert np.array_equal(wave.vector[2], np.where(chosen, b, a))
    assert np.array_equal(wave.vector[3], np.where(shifted, b, a))
    assert np.array_equal(wave.vector[4], np.where(chosen, b & 0x7FFFFFFF, a ^ 0x80000000))
    assert np.array_equal(wave.vector[5], chosen.astype(np.uint32))
    assert set(wave.vector[6].tolist()) == {0x3F800000}
