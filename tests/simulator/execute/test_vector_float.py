"""Vector float arithmetic, order, rounding and scaling against exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import semantics_float as exact
from bulk import MODE, SATURATE, apply
from machine import Machine
from semantics_float import assert_floats, each, floats

pytestmark = pytest.mark.execute

TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
COUNT = 1500


def half_result(words: np.ndarray) -> np.ndarray:
    """The low halves as float16; the high ones must be clear."""
    assert (words >> 16 == 0).all()
    return words.astype(np.uint16).view(np.float16)


def results(machine: Machine, name: str, kind: str, sources: list[np.ndarray], **options: int) -> np.ndarray:
    operands = ", ".join(["{d}", *("{" + letter + "}" for letter in "abc"[: len(sources)])])
    words = apply(machine, f"{name} {operands}", sources, np.uint64 if kind == "f64" else np.uint32, **options)
    return half_result(words) if kind == "f16" else words.view(TYPES[kind])


@pytest.mark.parametrize(
    ("name", "kind", "function"),
    [
        *(
            (f"v_{op}_{kind}", kind, function)
            for op, function in (
                ("add", np.add),
                ("sub", np.subtract),
                ("mul", np.multiply),
                ("subrev", lambda a, b: b - a),
            )
            for kind in ("f16", "f32")
        ),
        ("v_add_f64", "f64", np.add),
        ("v_mul_f64", "f64", np.multiply),
    ],
)
def test_arithmetic(machine: Machine, name: str, kind: str, function: Callable[..., np.ndarray]) -> None:
    a, b = floats(TYPES[kind], 4000, 1), floats(TYPES[kind], 4000, 2)
    with np.errstate(all="ignore"):
        want = function(a, b)
    assert_floats(results(machine, name, kind, [a, b]), want)


@pytest.mark.parametrize(
    ("name", "kind", "function"),
    [
        *(
            (name, kind, function)
            for name, function in (("max", exact.maximum), ("min", exact.minimum))
            for kind in TYPES
        ),
        *(
            (name, kind, function)
            for name, function in (("max3", exact.maximum3), ("min3", exact.minimum3), ("med3", exact.median))
            for kind in ("f16", "f32")
        ),
    ],
)
def test_order(machine: Machine, name: str, kind: str, function: Callable[..., np.floating]) -> None:
    sources = [floats(TYPES[kind], 3000, seed) for seed in range(3 if name.endswith("3") else 2)]
    got = results(machine, f"v_{name}_{kind}", kind, sources)
    assert_floats(got, each(function, *sources, dtype=TYPES[kind]))


def test_clamp_turns_nan_into_its_lower_bound(machine: Machine) -> None:
    low, high = np.full(64, -448, np.float32), np.full(64, 448, np.float32)
    values = np.full(64, np.nan, np.float32)
    assert (apply(machine, "v_med3_f32 {d}, {a}, {b}, {c}", [values, low, high], np.float32) == -448).all()


@pytest.mark.parametrize("name", ["maximum3", "minimum3"])
def test_order_that_keeps_nan(machine: Machine, name: str) -> None:
    a, b, c = (floats(np.float32, 3000, seed) for seed in range(3))
    pick = exact.maximum3 if name == "maximum3" else exact.minimum3
    want = each(pick, a, b, c, dtype=np.float32)
    want[np.isnan(a) | np.isnan(b) | np.isnan(c)] = np.nan
    assert_floats(
        apply(machine, f"v_{name}_f32 {{d}}, {{a}}, {{b}}, {{c}}", [a, b, c], np.float32, arch="gfx950"), want
    )


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_fused(machine: Machine, kind: str) -> None:
    a, b, c = (floats(TYPES[kind], COUNT, seed) for seed in range(3))
    # Sums that cancel nearly, and products that only just decide a rounding.
    with np.errstate(all="ignore"):
        c[::3] = -(a * b)[::3]
        c[1::3] = (a * b * TYPES[kind](2.0**9))[1::3]
    got = apply(
        machine,
        f"v_fma_{kind} {{d}}, {{a}}, {{b}}, {{c}}",
        [a, b, c],
        np.uint64 if kind == "f64" else np.uint32,
        old=0xABCD0000,
    )
    if kind == "f16":
        assert (got >> 16 == 0xABCD).all()
        got = got.astype(np.uint16)
    assert_floats(got.view(TYPES[kind]), each(exact.fused, a, b, c, dtype=TYPES[kind]))


def test_fused_with_accumulator_and_literal(machine: Machine) -> None:
    a, b = floats(np.float32, COUNT, 1), floats(np.float32, COUNT, 2)
    k = np.full(COUNT, np.uint32(0x3FB8AA3B)).view(np.float32)
    got = apply(machine, "v_fmac_f32_e32 {d}, {a}, {b}", [a, b], np.float32, old=0x3FB8AA3B)
    assert_floats(got, each(exact.fused, a, b, k, dtype=np.float32))
    got = apply(machine, "v_fmaak_f32 {d}, {a}, {b}, 0x3fb8aa3b", [a, b], np.float32)
    assert_floats(got, each(exact.fused, a, b, k, dtype=np.float32))
    got = apply(machine, "v_fmamk_f32 {d}, {a}, 0x3fb8aa3b, {b}", [a, b], np.float32)
    assert_floats(got, each(exact.fused, a, k, b, dtype=np.float32))
    c, d = floats(np.float64, COUNT, 1), floats(np.float64, COUNT, 2)
    old = np.full(COUNT, 0x3FB8AA3B3FB8AA3B, np.uint64).view(np.float64)
    got = apply(machine, "v_fmac_f64_e32 {d}, {a}, {b}", [c, d], np.float64, old=0x3FB8AA3B)
    assert_floats(got, each(exact.fused, c, d, old, dtype=np.float64))


def test_half_overflow_saturates_on_request(machine: Machine) -> None:
    a, b = floats(np.float16, 4000, 5), floats(np.float16, 4000, 6)
    with np.errstate(all="ignore"):
        want = a * b
    overflow = np.isinf(want) & np.isfinite(a) & np.isfinite(b)
    assert overflow.any()
    want[overflow] = np.copysign(np.float16(65504), want[overflow])
    assert_floats(results(machine, "v_mul_f16", "f16", [a, b], mode=MODE | SATURATE), want)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("rndne", np.rint),
        ("fract", lambda a: each(exact.fraction, a, dtype=a.dtype.type)),
    ],
)
@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_rounding(machine: Machine, name: str, function: Callable[[np.ndarray], np.ndarray], kind: str) -> None:
    a = floats(TYPES[kind], 4000, 3)
    with np.errstate(all="ignore"):
        assert_floats(results(machine, f"v_{name}_{kind}", kind, [a]), function(a))


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_exponents(machine: Machine, kind: str) -> None:
    dtype = TYPES[kind]
    a = floats(dtype, COUNT, 4)
    with np.errstate(all="ignore"):
        want_mantissa, want_exponent = np.frexp(a)
    want_exponent[~np.isfinite(a)] = 0
    assert_floats(results(machine, f"v_frexp_mant_{kind}", kind, [a]), want_mantissa)
    opcode = "v_frexp_exp_i16_f16" if kind == "f16" else f"v_frexp_exp_i32_{kind}"
    got = apply(machine, f"{opcode} {{d}}, {{a}}", [a], np.uint32)
    if kind == "f16":
        assert (got >> 16 == 0).all()
        np.testing.assert_array_equal(got.astype(np.uint16).view(np.int16), want_exponent)
    else:
        np.testing.assert_array_equal(got.view(np.int32), want_exponent)
    generator = np.random.default_rng(5)
    steps = generator.integers(-2300, 2300, COUNT).astype(np.int32)
    steps[::2] = generator.integers(-60, 60, len(steps[::2]))
    steps[:8] = [2**31 - 1, -(2**31), 32767, -32768, 0, 1, -1, 1074]
    steps = steps.astype(np.int16) if kind == "f16" else steps
    words = apply(machine, f"v_ldexp_{kind} {{d}}, {{a}}, {{b}}", [a, steps], np.uint64 if kind == "f64" else np.uint32)
    got = half_result(words) if kind == "f16" else words.view(dtype)
    assert_floats(got, each(exact.scaled, a, steps.astype(int).tolist(), dtype=dtype))


def test_modifiers(machine: Machine) -> None:
    a, b = floats(np.float32, 2000, 7), floats(np.float32, 2000, 8)
    with np.errstate(all="ignore"):
        cases = {
            "v_mul_f32_e64 {d}, -{a}, |{b}|": -a * np.abs(b),
            "v_add_f32_e64 {d}, -|{a}|, {b}": -np.abs(a) + b,
            "v_mul_f32_e64 {d}, {a}, {b} mul:2": a * b * np.float32(2),
            "v_mul_f32_e64 {d}, {a}, {b} div:2": a * b * np.float32(0.5),
            "v_add_f32_e64 {d}, {a}, {b} clamp": np.nan_to_num(np.clip(a + b, 0, 1), nan=0.0) + np.float32(0),
            "v_add_f32_e32 {d}, 0.5, {a}": np.float32(0.5) + a,
            "v_add_f32_e32 {d}, s4, {a}": np.float32(3) + a,
            "v_max_f32_e64 {d}, |{a}|, |{a}|": np.abs(a),
        }
    for line, want in cases.items():
        assert_floats(apply(machine, line, [a, b], np.float32, scalar={4: 0x40400000}), want)


def test_sdwa_and_dpp(machine: Machine) -> None:
    words = np.random.default_rng(3).integers(0, 1 << 32, (2, 64), dtype=np.uint32)
    halves = words.view(np.float16).reshape(2, 64, 2)
    wave = machine.run(
        "v_add_f16_sdwa v2, v0, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:WORD_1\n"
        "v_add_f16_sdwa v3, v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0\n"
        "v_max_f32_dpp v4, v5, v5 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
        vector={0: words[0], 1: words[1], 3: np.full(64, 0x1234, np.uint32), 5: np.arange(64, dtype=np.float32)},
    )
    with np.errstate(all="ignore"):
        assert_floats(half_result(wave.vector[2]), halves[0, :, 0] + halves[1, :, 1])
        assert_floats((wave.vector[3] >> 16).astype(np.uint16).view(np.float16), halves[0, :, 1] + halves[1, :, 0])
    assert (wave.vector[3] & 0xFFFF == 0x1234).all()
    lanes = np.arange(64)
    np.testing.assert_array_equal(
        wave.vector[4].view(np.float32), np.where(lanes % 16, np.maximum(lanes - 1, lanes), lanes)
    )


def test_inactive_lanes_keep_their_values(machine: Machine) -> None:
    a = np.linspace(-3, 3, 64).astype(np.float32)
    mask = 0x8000_0001_F0F0_1234
    lines = [
        "v_mul_f32_e32 v2, v0, v0",
        "v_max3_f32 v3, v0, v0, v0",
        "v_med3_f32 v4, v0, v0, v0",
        "v_fmac_f32_e32 v5, v0, v0",
        "v_ldexp_f32 v6, v0, 1",
    ]
    wave = machine.run(
        "\n".join(lines), vector={0: a} | {r: np.full(64, 7.0, np.float32) for r in range(2, 7)}, exec_mask=mask
    )
    active = np.array([bool(mask >> lane & 1) for lane in range(64)])
    for row, want in ((2, a * a), (3, a), (4, a), (5, a * a + 7), (6, 2 * a)):
        got = wave.vector[row].view(np.float32)
        np.testing.assert_allclose(got, np.where(active, want, np.float32(7)), rtol=1e-6)
        assert (got[~active] == 7).all()


def test_mixed_precision(machine: Machine) -> None:
    rng = np.random.default_rng(9)
    words = rng.standard_normal((2, 3000)).astype(np.float16).view(np.uint32)
    single = rng.standard_normal(1500).astype(np.float32)
    low, high = (w.view(np.float16).reshape(-1, 2).astype(np.float32) for w in words)
    line = "v_fma_mix_f32 {d}, {a}, -{b}, {c} op_sel:[0,1,0] op_sel_hi:[1,1,0]"
    want = each(exact.fused, low[:, 0], -high[:, 1], single, dtype=np.float32)
    assert_floats(apply(machine, line, [words[0], words[1], single], np.float32), want)
    for name, shift, kept in (("lo", 0, 0xABCD0000), ("hi", 16, 0x1234)):
        got = apply(
            machine,
            f"v_fma_mix{name}_f16 {{d}}, {{a}}, {{b}}, {{c}} op_sel:[1,0,0] op_sel_hi:[1,1,0]",
            [words[0], words[1], single],
            np.uint32,
            old=0xABCD1234,
        )
        total = each(exact.fused, low[:, 1], high[:, 0], single, dtype=np.float32)
        assert_floats((got >> shift & 0xFFFF).astype(np.uint16).view(np.float16), total.astype(np.float16))
        assert (got & (0xFFFF << (16 - shift)) == kept).all()


def test_mixed_constants_are_of_the_precision_that_op_sel_hi_names(machine: Machine) -> None:
    """``1.0`` and ``0.5`` as half and as single sources; an integer is a raw pattern of the source's width."""
    a = np.arange(64, dtype=np.float32)
    lines = (
        "v_fma_mix_f32 v2, v1, 0.5, 1.0 op_sel_hi:[0,1,0]\n"
        "v_fma_mix_f32 v3, v1, 0.5, 1.0 op_sel_hi:[0,0,1]\n"
        "v_fma_mix_f32 v4, v1, 1, 0 op_sel_hi:[0,1,0]"
    )
    wave = machine.run(lines, vector={1: a})
    for register in (2, 3):
        np.testing.assert_array_equal(wave.vector[register].view(np.float32), a * np.float32(0.5) + np.float32(1))
    np.testing.assert_array_equal(wave.vector[4].view(np.float32), a * np.float32(2.0**-24))
