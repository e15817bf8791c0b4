from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bulk import MODE, SATURATE, apply
from machine import Machine

pytestmark = pytest.mark.execute

FORMATS = {
    ("gfx942", "fp8"): ml_dtypes.float8_e4m3fnuz,
    ("gfx942", "bf8"): ml_dtypes.float8_e5m2fnuz,
    ("gfx950", "fp8"): ml_dtypes.float8_e4m3fn,
    ("gfx950", "bf8"): ml_dtypes.float8_e5m2,
}
ALL = sorted(FORMATS)
EDGES = np.array(
    [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 240, 248, 248.1, 256, 448),
        *(464, 465, 57344, 61440, 61441, 65536, 2.0**-10, 2.0**-11, 2.0**-17, 2.0**-18, 3 * 2.0**-18, -(2.0**-7)),
        2.0**-9 * 1.5,
    ],
    dtype=np.float32,
)


def samples(count: int = 40000) -> np.ndarray:
    """Every bfloat16, edges, and f32 numbers of all sizes around the formats' ranges."""
    every = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    rng = np.random.default_rng(7)
    patterns = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    inside = (rng.standard_normal(count) * 2.0 ** rng.integers(-20, 18, count)).astype(np.float32)
    halves = (rng.integers(-(1 << 10), 1 << 10, count) * 2.0 ** rng.integers(-26, 8, count)).astype(np.float32)
    return np.concatenate([every, EDGES, patterns, inside, halves, np.nextafter(halves, np.float32(0))])


def expected_codes(values: np.ndarray, dtype: type, *, saturate: bool) -> np.ndarray:
    """ml_dtypes' conversion; saturation of finite values done explicitly, infinities are never saturated."""
    top = np.float32(ml_dtypes.finfo(dtype).max)
    with np.errstate(all="ignore"):
        if saturate:
            values = np.where(np.isfinite(values), np.clip(values, -top, top), values)
        return values.astype(dtype).view(np.uint8)


def assert_codes(got: np.ndarray, want: np.ndarray, dtype: type) -> None:
    """Equal bytes; any NaN code is as good as another."""
    numbers = ~np.isnan(want.view(dtype).astype(np.float32))
    np.testing.assert_array_equal(got[numbers], want[numbers])
    assert np.isnan(got[~numbers].view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(("arch", "name"), ALL)
def test_pair_of_singles(machine: Machine, arch: str, name: str, saturate: bool) -> None:
    dtype = FORMATS[arch, name]
    values = samples()
    mode = MODE | (SATURATE if saturate else 0)
    words = apply(
        machine,
        f"v_cvt_pk_{name}_f32 {{d}}, {{a}}, {{b}}",
        [values, values[::-1].copy()],
        np.uint32,
        arch=arch,
        mode=mode,
        old=0xABCD1234,
    )
    want = expected_codes(values, dtype, saturate=saturate)
    assert_codes((words & 0xFF).astype(np.uint8), want, dtype)
    assert_codes((words >> 8 & 0xFF).astype(np.uint8), want[::-1].copy(), dtype)
    assert (words >> 16 == 0xABCD).all()


@pytest.mark.parametrize(("arch", "name"), ALL)
def test_high_half_and_modifiers(machine: Machine, arch: str, name: str) -> None:
    dtype = FORMATS[arch, name]
    values = samples(1000)[-4000:]
    words = apply(
        machine,
        f"v_cvt_pk_{name}_f32 {{d}}, -{{a}}, |{{b}}| op_sel:[0,0,1]",
        [values, values],
        np.uint32,
        arch=arch,
        old=0xABCD1234,
    )
    assert_codes((words >> 16 & 0xFF).astype(np.uint8), expected_codes(-values, dtype, saturate=False), dtype)
    assert_codes((words >> 24).astype(np.uint8), expected_codes(np.abs(values), dtype, saturate=False), dtype)
    assert (words & 0xFFFF == 0x1234).all()


@pytest.mark.parametrize(("arch", "name"), ALL)
def test_widening(machine: Machine, arch: str, name: str) -> None:
    dtype = FORMATS[arch, name]
    codes = np.arange(256, dtype=np.uint32)
    words = codes | (255 - codes) << 8 | (codes ^ 0x55) << 16 | (codes ^ 0xAA) << 24
    bytes_ = [(words >> shift & 0xFF).astype(np.uint8).view(dtype).astype(np.float32) for shift in (0, 8, 16, 24)]
    for selector, (low, high) in {
        "_e32 {d}, {a}": (0, 1),
        "_sdwa {d}, {a} src0_sel:WORD_1": (2, 3),
        "_e64 {d}, {a} op_sel:[1,0]": (2, 3),
    }.items():
        pairs = apply(machine, f"v_cvt_pk_f32_{name}{selector}", [words], np.uint64, arch=arch)
        got = pairs.view(np.float32).reshape(-1, 2)
        assert_floats(got[:, 0], bytes_[low])
        assert_floats(got[:, 1], bytes_[high])
    for byte in range(4):
        line = f"v_cvt_f32_{name}_sdwa {{d}}, {{a}} src0_sel:BYTE_{byte}"
        assert_floats(apply(machine, line, [words], np.float32, arch=arch), bytes_[byte])


def assert_floats(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, NaN as a class."""
    numbers = ~np.isnan(want)
    unsigned = f"u{want.itemsize}"
    np.testing.assert_array_equal(got[numbers].view(unsigned), want[numbers].view(unsigned))
    assert np.isnan(got[~numbers].astype(np.float64)).all()


@pytest.mark.parametrize(
    ("arch", "name", "count"),
    [("gfx942", "fp8", 496), ("gfx942", "bf8", 120), ("gfx950", "fp8", 436), ("gfx950", "bf8", 120)],
)
def test_sums_that_overflow_are_as_many_as_on_the_hardware(machine: Machine, arch: str, name: str, count: int) -> None:
    """All sums of two finite numbers, converted back: MI300X and MI355X make so many of them NaN or infinite
    (ROCm/rocm-systems, issue 9556)."""
    dtype = FORMATS[arch, name]
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    numbers = numbers[np.isfinite(numbers)]
    sums = np.add.outer(numbers, numbers).ravel()
    words = apply(machine, f"v_cvt_pk_{name}_f32 {{d}}, {{a}}, {{a}}", [sums], np.uint32, arch=arch)
    assert np.count_nonzero(~np.isfinite((words & 0xFF).astype(np.uint8).view(dtype).astype(np.float32))) == count
