"""Conversions with a block scale (gfx950) to and from 8-bit and 4-bit floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bulk import MODE, SATURATE, apply
from machine import Machine
from semantics_float import assert_floats
from test_convert_fp8 import assert_codes, expected_codes, samples

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute

FORMATS = {"fp8": ml_dtypes.float8_e4m3fn, "bf8": ml_dtypes.float8_e5m2}
WIDE = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
SCALES = [1.0, 2.0**-127, 2.0**-20, 0.25, 1.75, -8.0, 2.0**40, 2.0**127]


def factor(scale: float) -> float:
    """Only the exponent of the scale counts; 0 stands for 2**-127."""
    exponent = int(np.float32(scale).view(np.uint32)) >> 23 & 0xFF
    return 2.0 ** (exponent - 127)


def scaled_codes(values: np.ndarray, scale: float, dtype: type, *, saturate: bool) -> np.ndarray:
    """Codes of values / factor: the quotient is exact in double precision, so it is rounded once."""
    top = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(all="ignore"):
        exact = values.astype(np.float64) / factor(scale)
        if saturate:
            exact = np.where(np.isfinite(exact), np.clip(exact, -top, top), exact)
        # Out of the range of f32, ml_dtypes would round twice; there the result is 0 or overflows anyway.
        exact = np.where(np.isfinite(exact), np.clip(exact, -1e38, 1e38), exact)
        return exact.astype(np.float32).astype(dtype).view(np.uint8)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_singles_with_scale_one(machine: Machine, name: str, saturate: bool) -> None:
    values = samples()
    mode = MODE | (SATURATE if saturate else 0)
    line = f"v_cvt_scalef32_pk_{name}_f32 {{d}}, {{a}}, {{b}}, 1.0 op_sel:[0,0,0,1]"
    words = apply(machine, line, [values, -values], np.uint32, arch="gfx950", mode=mode, old=0xABCD1234)
    want = expected_codes(values, FORMATS[name], saturate=saturate)
    assert_codes((words >> 16 & 0xFF).astype(np.uint8), want, FORMATS[name])
    assert_codes(
        (words >> 24).astype(np.uint8), expected_codes(-values, FORMATS[name], saturate=saturate), FORMATS[name]
    )
    assert (words & 0xFFFF == 0x1234).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_narrowing(machine: Machine, name: str, scale: float) -> None:
    dtype, values = FORMATS[name], samples(2000)[-9000:]
    with np.errstate(all="ignore"):
        values = np.concatenate([values, (values.astype(np.float64) * factor(scale)).astype(np.float32)])
    vector = np.full(len(values), scale, np.float32)
    words = apply(
        machine,
        f"v_cvt_scalef32_pk_{name}_f32 {{d}}, {{a}}, {{a}}, {{b}}",
        [values, vector],
        np.uint32,
        arch="gfx950",
        mode=MODE | SATURATE,
    )
    assert_codes((words & 0xFF).astype(np.uint8), scaled_codes(values, scale, dtype, saturate=True), dtype)
    for kind, wide in WIDE.items():
        with np.errstate(all="ignore"):
            small = values.astype(wide)
        pairs = np.ascontiguousarray(small[: len(small) // 2 * 2]).view(np.uint32)
        for saturate in (False, True):
            words = apply(
                machine,
                f"v_cvt_scalef32_pk_{name}_{kind} {{d}}, {{a}}, s4 op_sel:[0,0,1]",
                [pairs],
                np.uint32,
                arch="gfx950",
                mode=MODE | (SATURATE if saturate else 0),
                old=0x1234,
                scalar={4: int(np.float32(scale).view(np.uint32))},
            )
            got = (words >> 16).astype(np.uint16).view(np.uint8)
            want = scaled_codes(small[: len(got)].astype(np.float32), scale, dtype, saturate=saturate)
            assert_codes(got, want, dtype)
            assert (words & 0xFFFF == 0x1234).all()


@pytest.mark.parametrize("scale", [1.0, 2.0**-127, 2.0**-8, 1.5, 2.0**120])
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_widening(machine: Machine, name: str, scale: float) -> None:
    codes = np.arange(256, dtype=np.uint32)
    words = codes | (255 - codes) << 8 | (codes ^ 0x55) << 16 | (codes ^ 0xAA) << 24
    bytes_ = np.stack([words >> shift & 0xFF for shift in (0, 8, 16, 24)]).astype(np.uint8)
    if name == "fp4":
        table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
        nibbles = np.stack([bytes_[3] & 15, bytes_[3] >> 4])
        low, high = (np.copysign(table[n & 7], np.where(n & 8, -1, 1)).astype(np.float32) for n in nibbles)
        select = "op_sel:[1,1,0]"
    else:
        low, high = (bytes_[index].view(FORMATS[name]).astype(np.float32) for index in (2, 3))
        select = "op_sel:[1,0,0]"
    scalar = {4: int(np.float32(scale).view(np.uint32))}
    with np.errstate(all="ignore"):
        exact = [(half.astype(np.float64) * factor(scale)).astype(np.float32) for half in (low, high)]
        line = f"v_cvt_scalef32_pk_f32_{name} {{d}}, {{a}}, s4 {select}"
        pairs = apply(machine, line, [words], np.uint64, arch="gfx950", scalar=scalar).view(np.float32).reshape(-1, 2)
        assert_floats(pairs[:, 0], exact[0])
        assert_floats(pairs[:, 1], exact[1])
        for kind, wide in WIDE.items():
            line = f"v_cvt_scalef32_pk_{kind}_{name} {{d}}, {{a}}, s4 {select}"
            halves = (
                apply(machine, line, [words], np.uint32, arch="gfx950", scalar=scalar).view(np.uint16).reshape(-1, 2)
            )
            for index in range(2):
                want, got = exact[index].astype(wide), halves[:, index].view(wide)
                numbers = ~np.isnan(want.astype(np.float32))
                np.testing.assert_array_equal(got.view(np.uint16)[numbers], want.view(np.uint16)[numbers])
                assert np.isnan(got[~numbers].astype(np.float32)).all()


def test_widening_of_one_byte(machine: Machine) -> None:
    codes = np.arange(256, dtype=np.uint32)
    words = codes << 24 | 0x00FF00FF
    values = codes.astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    scalar = {4: 0x40000000}
    got = apply(
        machine, "v_cvt_scalef32_f32_fp8 {d}, {a}, s4 op_sel:[1,1,0]", [words], np.float32, arch="gfx950", scalar=scalar
    )
    assert_floats(got, 2 * values)
    got = apply(
        machine,
        "v_cvt_scalef32_f16_fp8 {d}, {a}, s4 op_sel:[1,1,1]",
        [words],
        np.uint32,
        arch="gfx950",
        scalar=scalar,
        old=0xFFFF1234,
    )
    assert (got & 0xFFFF == 0x1234).all()
    assert_floats((got >> 16).astype(np.uint16).view(np.float16), (2 * values).astype(np.float16))


@pytest.mark.parametrize("scale", [1.0, 2.0**-5, 2.0**100])
def test_four_bits(machine: Machine, scale: float) -> None:
    rng = np.random.default_rng(4)
    grid = np.array([0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 100, np.inf])
    values = np.concatenate([grid, -grid, rng.uniform(-8, 8, 4000)]) * scale
    values = np.concatenate([values, [1e-30, -0.0]]).astype(np.float32)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    size = np.minimum(np.abs(values.astype(np.float64)) / scale, 6)
    gaps = np.abs(size[:, None] - table)
    # Of two codes equally near, the even one.
    code = np.argmin(gaps + np.array([0, 1e-9] * 4), axis=1) | np.signbit(values) * 8
    vector = np.full(len(values), scale, np.float32)
    for byte in range(4):
        select = f"op_sel:[0,0,{byte & 1},{byte >> 1}]"
        words = apply(
            machine,
            f"v_cvt_scalef32_pk_fp4_f32 {{d}}, {{a}}, -{{a}}, {{b}} {select}",
            [values, vector],
            np.uint32,
            arch="gfx950",
            old=0xDDCCBBAA,
        )
        np.testing.assert_array_equal(words >> (8 * byte) & 15, code)
        np.testing.assert_array_equal(words >> (8 * byte + 4) & 15, code ^ 8)
        others = 0xFFFFFFFF & ~(0xFF << 8 * byte)
        assert (words & others == 0xDDCCBBAA & others).all()


def test_a_scale_that_is_nan(machine: Machine) -> None:
    values = np.linspace(-3, 3, 64).astype(np.float32)
    words = apply(
        machine,
        "v_cvt_scalef32_pk_fp8_f32 {d}, {a}, {a}, s4",
        [values],
        np.uint32,
        arch="gfx950",
        mode=MODE | SATURATE,
        scalar={4: 0x7F800000},
    )
    assert (words & 0x7F7F == 0x7F7F).all()
    got = apply(
        machine, "v_cvt_scalef32_f32_fp8 {d}, {a}, s4", [words], np.float32, arch="gfx950", scalar={4: 0x7F800000}
    )
    assert np.isnan(got).all()


@pytest.mark.parametrize(
    ("arch", "name", "line"),
    [
        ("gfx942", "float8_e4m3fnuz", "v_cvt_sr_fp8_f32 {d}, {a}, {b} op_sel:[0,0,1,0]"),
        ("gfx942", "float8_e5m2fnuz", "v_cvt_sr_bf8_f32 {d}, {a}, {b} op_sel:[0,0,1,0]"),
        ("gfx950", "float8_e4m3fn", "v_cvt_scalef32_sr_fp8_f32 {d}, {a}, {b}, 1.0 op_sel:[0,0,1,0]"),
        ("gfx950", "float8_e5m2", "v_cvt_scalef32_sr_bf8_f32 {d}, {a}, {b}, 1.0 op_sel:[0,0,1,0]"),
    ],
)
def test_stochastic_rounding(machine: Machine, arch: str, name: str, line: str) -> None:
    """Each result is a neighbour of the value, and the upper one as often as the value is near to it."""
    dtype = getattr(ml_dtypes, name)
    rng = np.random.default_rng(5)
    values = np.repeat(np.array([1.03, -1.99, 0.0157, 3.4, 96.0, 0.0], np.float32), 4096)
    seeds = rng.integers(0, 1 << 32, len(values), dtype=np.uint32)
    words = apply(machine, line, [values, seeds], np.uint32, arch=arch, old=0xABCDEF12)
    assert (words & 0xFFFF00FF == 0xABCD0012).all()
    got = (words >> 8 & 0xFF).astype(np.uint8).view(dtype).astype(np.float64).reshape(-1, 4096)
    for row, value in zip(got, values[::4096], strict=True):
        assert len(np.unique(row)) <= 2
        spread = row.max() - row.min()
        assert abs(row.mean() - value) <= 0.03 * spread


def test_an_architecture_without_the_format_is_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="fp4"):
        machine.run("v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, 1.0", arch="gfx942")
    with pytest.raises(UnsupportedInstructionError, match="packed source"):
        machine.run("v_cvt_scalef32_pk_fp8_f16 v0, -v1, 1.0", arch="gfx950")
