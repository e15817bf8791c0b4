"""Packed arithmetic with every combination of op_sel, op_sel_hi, neg_lo and neg_hi that matters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import semantics_float as exact
from bulk import MODE, SATURATE, apply
from machine import Machine
from semantics_float import assert_floats, each, floats

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

# op_sel, op_sel_hi, neg_lo, neg_hi of two or three sources.
ARRANGEMENTS = [
    ((0, 0, 0), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    ((0, 1, 0), (1, 0, 1), (0, 0, 0), (0, 0, 0)),
    ((1, 0, 1), (0, 1, 0), (0, 1, 0), (0, 1, 1)),
    ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 0)),
    ((1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 0)),
]


def modifiers(arrangement: tuple[tuple[int, ...], ...], sources: int) -> str:
    names = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")
    lists = (",".join(str(bit) for bit in bits[:sources]) for bits in arrangement)
    return " ".join(f"{name}:[{text}]" for name, text in zip(names, lists, strict=True))


def chosen(arrangement: tuple[tuple[int, ...], ...], halves: list[np.ndarray], high: bool) -> list[np.ndarray]:
    """What feeds the low or the high result, from arrays of shape (n, 2)."""
    select, negate = arrangement[1 if high else 0], arrangement[3 if high else 2]
    return [-half[:, select[i]] if negate[i] else half[:, select[i]] for i, half in enumerate(halves)]


@pytest.mark.parametrize(
    ("name", "sources", "function"),
    [
        ("add", 2, lambda a, b: a + b),
        ("mul", 2, lambda a, b: a * b),
        ("fma", 3, lambda a, b, c: each(exact.fused, a, b, c, dtype=np.float32)),
    ],
)
def test_singles(machine: Machine, name: str, sources: int, function: Callable[..., np.ndarray]) -> None:
    halves = [floats(np.float32, 1600, seed).reshape(-1, 2) for seed in range(sources)]
    words = [np.ascontiguousarray(half).view(np.uint64).reshape(-1) for half in halves]
    operands = ", ".join("{" + letter + "}" for letter in "abc"[:sources])
    for arrangement in ARRANGEMENTS:
        line = f"v_pk_{name}_f32 {{d}}, {operands} {modifiers(arrangement, sources)}"
        got = apply(machine, line, words, np.uint64).view(np.float32).reshape(-1, 2)
        with np.errstate(all="ignore"):
            for index in (0, 1):
                assert_floats(got[:, index], function(*chosen(arrangement, halves, high=bool(index))))


def test_singles_with_constants_and_scalars(machine: Machine) -> None:
    values = floats(np.float32, 640, 3).reshape(-1, 2)
    words = np.ascontiguousarray(values).view(np.uint64).reshape(-1)
    scalar = {8: 0x3F000000, 9: 0x40000000}
    with np.errstate(all="ignore"):
        cases = {
            "v_pk_add_f32 {d}, {a}, 1.0 op_sel_hi:[1,0]": values + np.float32(1),
            # Zero is zero in both halves, whatever the high half of a constant is.
            "v_pk_add_f32 {d}, {a}, 0 neg_lo:[1,1] neg_hi:[1,1]": -values - np.float32(0),
            "v_pk_mul_f32 {d}, s[8:9], {a}": values * np.float32([0.5, 2]),
            "v_pk_mul_f32 {d}, s[8:9], {a} op_sel_hi:[0,1]": values * np.float32(0.5),
        }
    for line, want in cases.items():
        got = apply(machine, line, [words], np.uint64, scalar=scalar).view(np.float32).reshape(-1, 2)
        assert_floats(got[:, 0], want[:, 0])
        assert_floats(got[:, 1], want[:, 1])
    with pytest.raises(UnsupportedInstructionError, match="constant"):
        machine.run("v_pk_add_f32 v[0:1], v[2:3], 1.0")


def test_destination_may_be_a_source(machine: Machine) -> None:
    low, high = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.float32) + 100
    wave = machine.run(
        "v_pk_add_f32 v[2:3], v[2:3], v[2:3] op_sel:[1,1] op_sel_hi:[0,0]\n"
        "v_pk_mov_b32 v[4:5], v[4:5], v[4:5] op_sel:[1,0]",
        vector={2: low, 3: high, 4: low, 5: high},
    )
    got = wave.vector.view(np.float32)
    np.testing.assert_array_equal(got[2:6], [2 * high, 2 * low, high, low])


def test_moves(machine: Machine) -> None:
    a, b = (np.random.default_rng(seed).integers(0, 1 << 64, 320, dtype=np.uint64) for seed in (1, 2))
    low, high = (lambda v: v & np.uint64(0xFFFFFFFF)), (lambda v: v >> np.uint64(32))
    for bits, (first, second) in {"[0,0]": (low, low), "[1,0]": (high, low), "[0,1]": (low, high)}.items():
        got = apply(machine, f"v_pk_mov_b32 {{d}}, {{a}}, {{b}} op_sel:{bits}", [a, b], np.uint64)
        np.testing.assert_array_equal(got, first(a) | second(b) << np.uint64(32))


@pytest.mark.parametrize(
    ("name", "sources", "function"),
    [
        ("add", 2, lambda a, b: a + b),
        ("mul", 2, lambda a, b: a * b),
        ("fma", 3, lambda a, b, c: each(exact.fused, a, b, c, dtype=np.float16)),
        ("max", 2, lambda a, b: each(exact.maximum, a, b, dtype=np.float16)),
        ("min", 2, lambda a, b: each(exact.minimum, a, b, dtype=np.float16)),
    ],
)
def test_halves(machine: Machine, name: str, sources: int, function: Callable[..., np.ndarray]) -> None:
    halves = [floats(np.float16, 1600, seed).reshape(-1, 2) for seed in range(sources)]
    words = [np.ascontiguousarray(half).view(np.uint32).reshape(-1) for half in halves]
    operands = ", ".join("{" + letter + "}" for letter in "abc"[:sources])
    for arrangement in ARRANGEMENTS:
        line = f"v_pk_{name}_f16 {{d}}, {operands} {modifiers(arrangement, sources)}"
        got = apply(machine, line, words, np.uint32).view(np.float16).reshape(-1, 2)
        with np.errstate(all="ignore"):
            for index in (0, 1):
                assert_floats(got[:, index], function(*chosen(arrangement, halves, high=bool(index))))


def test_halves_clamp_constants_and_overflow(machine: Machine) -> None:
    halves = [floats(np.float16, 1600, seed).reshape(-1, 2) for seed in range(2)]
    a, b = (np.ascontiguousarray(half).view(np.uint32).reshape(-1) for half in halves)
    with np.errstate(all="ignore"):
        total = halves[0] + halves[1]
        unit = np.where(total > 0, np.minimum(total, np.float16(1)), np.float16(0))
        got = apply(machine, "v_pk_add_f16 {d}, {a}, {b} clamp", [a, b], np.uint32).view(np.float16).reshape(-1, 2)
        assert_floats(got, unit)
        got = (
            apply(machine, "v_pk_mul_f16 {d}, {a}, 0.5 op_sel_hi:[1,0]", [a], np.uint32).view(np.float16).reshape(-1, 2)
        )
        assert_floats(got, halves[0] * np.float16(0.5))
        product = halves[0] * halves[1]
    overflow = np.isinf(product) & np.isfinite(halves[0]) & np.isfinite(halves[1])
    product[overflow] = np.copysign(np.float16(65504), product[overflow])
    got = apply(machine, "v_pk_mul_f16 {d}, {a}, {b}", [a, b], np.uint32, mode=MODE | SATURATE)
    assert_floats(got.view(np.float16).reshape(-1, 2), product)


def test_halves_with_accumulator(machine: Machine) -> None:
    a, b = floats(np.float16, 1600, 1), floats(np.float16, 1600, 2)
    got = apply(
        machine, "v_pk_fmac_f16 {d}, {a}, {b}", [a.view(np.uint32), b.view(np.uint32)], np.uint32, old=0x3C003C00
    )
    one = np.ones(1600, np.float16)
    assert_floats(got.view(np.float16), each(exact.fused, a, b, one, dtype=np.float16))


def test_order_that_keeps_nan(machine: Machine) -> None:
    halves = [floats(np.float16, 1600, seed).reshape(-1, 2) for seed in range(3)]
    words = [np.ascontiguousarray(half).view(np.uint32).reshape(-1) for half in halves]
    for name, pick in (("maximum3", exact.maximum3), ("minimum3", exact.minimum3)):
        got = apply(machine, f"v_pk_{name}_f16 {{d}}, {{a}}, {{b}}, {{c}}", words, np.uint32, arch="gfx950")
        want = each(pick, *(half.reshape(-1) for half in halves), dtype=np.float16)
        want[np.isnan(np.stack(halves)).any(axis=0).reshape(-1)] = np.nan
        assert_floats(got.view(np.float16), want)


INTEGERS: dict[str, Callable[..., int]] = {
    "v_pk_add_u16": lambda a, b: a + b,
    "v_pk_add_i16": lambda a, b: a + b,
    "v_pk_sub_u16": lambda a, b: a - b,
    "v_pk_sub_i16": lambda a, b: a - b,
    "v_pk_mul_lo_u16": lambda a, b: a * b,
    "v_pk_mad_u16": lambda a, b, c: a * b + c,
    "v_pk_mad_i16": lambda a, b, c: a * b + c,
    "v_pk_max_u16": max,
    "v_pk_max_i16": max,
    "v_pk_min_u16": min,
    "v_pk_min_i16": min,
    "v_pk_lshlrev_b16": lambda a, b: b << (a & 15),
    "v_pk_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_pk_ashrrev_i16": lambda a, b: b >> (a & 15),
}


def integer_halves(sources: int, signed: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(6)
    edges = np.array([0, 1, 15, 16, 17, 0x7FFF, 0x8000, 0xFFFF], np.uint16)
    halves = [
        np.concatenate([edges[rng.integers(0, 8, 256)], rng.integers(0, 1 << 16, 256, dtype=np.uint16)])
        for _ in range(sources)
    ]
    return [half.view(np.int16 if signed else np.uint16).reshape(-1, 2) for half in halves]


@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_integers(machine: Machine, name: str) -> None:
    sources = 3 if "mad" in name else 2
    halves = integer_halves(sources, signed="_i16" in name)
    words = [np.ascontiguousarray(half).view(np.uint32).reshape(-1) for half in halves]
    operands = ", ".join("{" + letter + "}" for letter in "abc"[:sources])
    for select in (ARRANGEMENTS[0][:2], ARRANGEMENTS[1][:2], ARRANGEMENTS[4][:2]):
        arrangement = (*select, (0, 0, 0), (0, 0, 0))
        got = apply(machine, f"{name} {{d}}, {operands} {modifiers(arrangement, sources)}", words, np.uint32)
        for index in (0, 1):
            values = [column.tolist() for column in chosen(arrangement, halves, high=bool(index))]
            want = [INTEGERS[name](*row) & 0xFFFF for row in zip(*values, strict=True)]
            np.testing.assert_array_equal(got.view(np.uint16).reshape(-1, 2)[:, index], want)


@pytest.mark.parametrize("name", ["v_pk_add_u16", "v_pk_add_i16", "v_pk_sub_u16", "v_pk_sub_i16"])
def test_saturating_integers(machine: Machine, name: str) -> None:
    signed = name.endswith("i16")
    halves = integer_halves(2, signed=signed)
    words = [np.ascontiguousarray(half).view(np.uint32).reshape(-1) for half in halves]
    got = apply(machine, f"{name} {{d}}, {{a}}, {{b}} clamp", words, np.uint32)
    wide = [half.astype(int) for half in halves]
    total = wide[0] + wide[1] if "add" in name else wide[0] - wide[1]
    info = np.iinfo(halves[0].dtype)
    np.testing.assert_array_equal(got.view(info.dtype).reshape(-1, 2), np.clip(total, info.min, info.max))


def test_a_modifier_without_semantics_is_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="clamp"):
        machine.run("v_pk_mul_lo_u16 v0, v1, v2 clamp")
    with pytest.raises(UnsupportedInstructionError, match="negated"):
        machine.run("v_pk_add_u16 v0, v1, v2 neg_lo:[1,0]")
