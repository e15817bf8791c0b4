"""Conversions between integers and floats, half precision and bfloat16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bulk import MODE, SATURATE, apply
from machine import Machine
from semantics_float import assert_floats, floats

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute


def singles(count: int = 20000) -> np.ndarray:
    """Any pattern, the integers' limits, and values around the range of half precision, ties included."""
    rng = np.random.default_rng(8)
    edges = [
        0.0,
        -0.5,
        -0.999,
        -1.0,
        2.0**31,
        -(2.0**31),
        2.0**32,
        2147483520,
        4294967040,
        65504,
        65519.99,
        65520,
        1e30,
    ]
    ties = (rng.integers(-(1 << 13), 1 << 13, count) * 2.0 ** rng.integers(-27, 4, count)).astype(np.float32)
    large = (rng.uniform(-1, 1, count) * 2.0 ** rng.integers(0, 35, count)).astype(np.float32)
    return np.concatenate([floats(np.float32, count, 1), np.array(edges, np.float32), ties, large])


def halves_of(values: np.ndarray, *, saturate: bool = False) -> np.ndarray:
    with np.errstate(all="ignore"):
        want = values.astype(np.float16)
    if saturate:
        overflow = np.isinf(want) & np.isfinite(values)
        want[overflow] = np.copysign(np.float16(65504), want[overflow])
    return want


def part(words: np.ndarray, index: int) -> np.ndarray:
    return (words >> (16 * index) & 0xFFFF).astype(np.uint16)


@pytest.mark.parametrize("saturate", [False, True])
def test_half_from_single(machine: Machine, saturate: bool) -> None:
    values, mode = singles(), MODE | (SATURATE if saturate else 0)
    want = halves_of(values, saturate=saturate)
    words = apply(machine, "v_cvt_f16_f32_e32 {d}, {a}", [values], np.uint32, old=0xFFFFFFFF, mode=mode)
    assert (words >> 16 == 0).all()
    assert_floats(part(words, 0).view(np.float16), want)
    pairs = apply(machine, "v_cvt_pk_f16_f32 {d}, {a}, -{b}", [values, values], np.uint32, arch="gfx950", mode=mode)
    assert_floats(part(pairs, 0).view(np.float16), want)
    assert_floats(part(pairs, 1).view(np.float16), -want)


def test_half_towards_zero(machine: Machine) -> None:
    values = singles()
    nearest = halves_of(values)
    with np.errstate(all="ignore"):
        above = np.abs(nearest.astype(np.float32)) > np.abs(values)
    want = np.where(above, (nearest.view(np.uint16) - above.astype(np.uint16)).view(np.float16), nearest)
    assert (np.abs(want.astype(np.float64))[np.isfinite(values)] <= 65504).all()
    words = apply(machine, "v_cvt_pkrtz_f16_f32 {d}, {a}, {b}", [values, -values], np.uint32)
    assert_floats(part(words, 0).view(np.float16), want)
    assert_floats(part(words, 1).view(np.float16), -want)


def test_single_from_half(machine: Machine) -> None:
    every = np.arange(1 << 16, dtype=np.uint32)
    words = every | (0xFFFF - every) << 16
    low, high = part(words, 0).view(np.float16), part(words, 1).view(np.float16)
    assert_floats(apply(machine, "v_cvt_f32_f16_e32 {d}, {a}", [words], np.float32), low.astype(np.float32))
    line = "v_cvt_f32_f16_sdwa {d}, {a} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1"
    assert_floats(apply(machine, line, [words], np.float32), high.astype(np.float32))


def test_bfloat_pair(machine: Machine) -> None:
    values = singles()
    with np.errstate(all="ignore"):
        want = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    words = apply(machine, "v_cvt_pk_bf16_f32 {d}, {a}, -{b}", [values, values], np.uint32, arch="gfx950")
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(part(words, 0)[numbers], want[numbers])
    np.testing.assert_array_equal(part(words, 1)[numbers], want[numbers] ^ 0x8000)
    assert np.isnan(part(words, 0)[~numbers].view(ml_dtypes.bfloat16).astype(np.float32)).all()


def test_single_and_double(machine: Machine) -> None:
    single, double = floats(np.float32, 4000, 1), floats(np.float64, 4000, 2)
    # Doubles near singles, and exactly between two of them.
    with np.errstate(all="ignore"):
        double[::3] = single[::3].astype(np.float64) * (1 + 2.0**-40)
        middle = (single.astype(np.float64) + np.nextafter(single, np.float32(0)).astype(np.float64)) / 2
        double[1::3] = middle[1::3]
        narrow, wide = double.astype(np.float32), single.astype(np.float64)
    assert_floats(apply(machine, "v_cvt_f32_f64_e32 {d}, {a}", [double], np.float32), narrow)
    assert_floats(apply(machine, "v_cvt_f64_f32_e32 {d}, {a}", [single], np.float64), wide)


def integers(dtype: type) -> np.ndarray:
    rng, info = np.random.default_rng(3), np.iinfo(dtype)
    edges = [0, 1, info.max, info.min, info.max - 1, info.max // 2, (1 << 24) + 1, (1 << 24) + 3, (1 << 25) + 2]
    return np.concatenate([np.array(edges, dtype), rng.integers(info.min, info.max, 4000, dtype=dtype)])


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_float_from_integer(machine: Machine, kind: str) -> None:
    values = integers(np.int32 if kind == "i32" else np.uint32)
    assert_floats(apply(machine, f"v_cvt_f32_{kind}_e32 {{d}}, {{a}}", [values], np.float32), values.astype(np.float32))
    assert_floats(apply(machine, f"v_cvt_f64_{kind}_e32 {{d}}, {{a}}", [values], np.float64), values.astype(np.float64))


def test_half_from_small_integers(machine: Machine) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    for kind, values in (("u16", every), ("i16", every.view(np.int16))):
        words = apply(machine, f"v_cvt_f16_{kind}_e32 {{d}}, {{a}}", [every], np.uint32)
        assert_floats(words.astype(np.uint16).view(np.float16), halves_of(values.astype(np.float32)))
    line = "v_cvt_f16_i16_sdwa {d}, sext({a}) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0"
    words = apply(machine, line, [every], np.uint32)
    assert_floats(words.astype(np.uint16).view(np.float16), every.astype(np.uint8).view(np.int8).astype(np.float16))
    line = "v_cvt_f32_i32_sdwa {d}, sext({a}) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0"
    assert_floats(apply(machine, line, [every], np.float32), every.view(np.int16).astype(np.float32))


def truncated(values: np.ndarray, low: int, high: int) -> list[int]:
    """Towards zero, limited to low…high, NaN as 0."""
    return [0 if np.isnan(v) else int(min(max(np.float64(v), low), high)) for v in values]


@pytest.mark.parametrize(("target", "low", "high"), [("i32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1)])
def test_integer_from_float(machine: Machine, target: str, low: int, high: int) -> None:
    dtype = np.int32 if target == "i32" else np.uint32
    with np.errstate(all="ignore"):
        doubles = np.concatenate([floats(np.float64, 3000, 5), singles(2000)])
    for kind, values in (("f32", singles(3000)), ("f64", doubles)):
        got = apply(machine, f"v_cvt_{target}_{kind}_e32 {{d}}, {{a}}", [values], np.uint32)
        np.testing.assert_array_equal(got.view(dtype), truncated(values, low, high))
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    small = f"{target[0]}16"
    info = np.iinfo(np.int16 if small == "i16" else np.uint16)
    got = apply(machine, f"v_cvt_{small}_f16_e32 {{d}}, {{a}}", [every], np.uint32).astype(np.uint16)
    np.testing.assert_array_equal(got.view(info.dtype), truncated(every, info.min, info.max))


def test_rounded_integers(machine: Machine) -> None:
    values = singles(3000)
    with np.errstate(all="ignore"):
        for name, rounded in (("flr", np.floor(values)), ("rpi", np.floor(values + np.float32(0.5)))):
            got = apply(machine, f"v_cvt_{name}_i32_f32_e32 {{d}}, {{a}}", [values], np.int32)
            np.testing.assert_array_equal(got, truncated(rounded, -(2**31), 2**31 - 1))


def test_bytes(machine: Machine) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, 640, dtype=np.uint32)
    for index in range(4):
        got = apply(machine, f"v_cvt_f32_ubyte{index}_e32 {{d}}, {{a}}", [words], np.float32)
        np.testing.assert_array_equal(got, words >> (8 * index) & 0xFF)


def test_integer_pairs_and_packing(machine: Machine) -> None:
    a, b = integers(np.int32), integers(np.int32)[::-1].copy()
    a[::2] >>= 15
    got = apply(machine, "v_cvt_pk_i16_i32 {d}, {a}, {b}", [a, b], np.uint32)
    np.testing.assert_array_equal(part(got, 0).view(np.int16), np.clip(a, -32768, 32767))
    np.testing.assert_array_equal(part(got, 1).view(np.int16), np.clip(b, -32768, 32767))
    unsigned = apply(machine, "v_cvt_pk_u16_u32 {d}, {a}, {b}", [a, b], np.uint32)
    np.testing.assert_array_equal(part(unsigned, 0), np.minimum(a.view(np.uint32), 65535))
    x, y = a.view(np.uint32), b.view(np.uint32)
    packed = apply(machine, "v_pack_b32_f16 {d}, {a}, {b}", [x, y], np.uint32)
    np.testing.assert_array_equal(packed, x & 0xFFFF | (y & 0xFFFF) << 16)
    packed = apply(machine, "v_pack_b32_f16 {d}, {a}, {b} op_sel:[1,0,0]", [x, y], np.uint32)
    np.testing.assert_array_equal(packed, x >> 16 | (y & 0xFFFF) << 16)


def test_a_modifier_without_semantics_is_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="clamp"):
        machine.run("v_cvt_i32_f32_e64 v0, v1 clamp")
