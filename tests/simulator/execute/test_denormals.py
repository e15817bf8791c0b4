"""Single-precision denormals under MODE: taken for zero in sources, in results, in both or neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from machine import Machine, kernel_of
from small_kernels import build, run

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.float_mode import flushes_single_denormals
from wavecast.simulator.program.instruction import MODE

FLUSHING = 0x3C0
SMALLEST = 2.0**-126


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def _values(seed: int) -> np.ndarray:
    """f32 (64,): denormals, small and ordinary numbers of both signs, zeros, infinities and a NaN."""
    rng = np.random.default_rng(seed)
    exponents = np.concatenate([rng.uniform(-149, -124, 40), rng.uniform(-75, 10, 16)])
    values = rng.choice([-1.0, 1.0], 56) * rng.uniform(1, 2, 56) * 2.0**exponents
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-149, -(2.0**-126), 2.0**-127]
    return rng.permutation(np.concatenate([values, special])).astype(np.float32)


def _flushed(values: np.ndarray, keep: int) -> np.ndarray:
    """Denormals as zero of the same sign, unless ``keep``."""
    small = np.abs(values) < np.float32(SMALLEST)
    return values if keep else np.where(small, np.copysign(np.float32(0), values), values)


def _same(got: np.ndarray, want: np.ndarray) -> None:
    """Bit for bit; every NaN is one."""
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got.view(np.uint32)[~nan], want.view(np.uint32)[~nan])


def _once(values: np.ndarray) -> np.ndarray:
    """float64 rounded to float32, denormals included."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product is exact in float64; the inputs here leave its sum with c exact, or far from a tie of float32."""
    return _once(a.astype(np.float64) * b + c)


ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "v_add_f32": lambda a, b: _once(a.astype(np.float64) + b),
    "v_sub_f32": lambda a, b: _once(a.astype(np.float64) - b),
    "v_mul_f32": lambda a, b: _once(a.astype(np.float64) * b),
    "v_min_f32": np.fmin,
    "v_max_f32": np.fmax,
}


@pytest.mark.parametrize("keeps_results", [0, 1])
@pytest.mark.parametrize("keeps_sources", [0, 1])
def test_arithmetic_follows_both_bits(machine: Machine, keeps_sources: int, keeps_results: int) -> None:
    a, b, c = (_values(seed) for seed in (1, 2, 3))
    # Zeros of both signs: which one min and max give is the subject of another test.
    b = np.where((a == 0) & (b == 0), a, b)
    names = list(ARITHMETIC)
    lines = [
        f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {keeps_sources | keeps_results << 1}",
        *(f"{name} v{8 + i}, v0, v1" for i, name in enumerate(names)),
        "v_fma_f32 v20, v0, v1, v2",
        "v_mov_b32 v21, v2",
        "v_fmac_f32 v21, v0, v1",
        "v_pk_add_f32 v[22:23], v[0:1], v[2:3]",
        "v_pk_mul_f32 v[24:25], v[0:1], v[2:3]",
        # What only moves a number, or looks at its bits, leaves it as it is.
        "v_mov_b32 v26, v0",
        "v_cndmask_b32 v27, v0, v1, vcc",
    ]
    wave = machine.run("\n".join(lines), vector={0: a, 1: b, 2: c, 3: c}, mode=FLUSHING)
    rows = wave.vector.view(np.float32)
    with np.errstate(all="ignore"):
        x, y, z = (_flushed(value, keeps_sources) for value in (a, b, c))
        both = np.where((x == 0) & (y == 0))
        for i, name in enumerate(names):
            want = _flushed(ARITHMETIC[name](x, y), keeps_results)
            if name[2:5] in ("min", "max"):
                # Flushing made zeros of both signs: -0 < +0.
                sign = np.signbit(x[both]) | np.signbit(y[both])
                sign = sign if name[2:5] == "min" else np.signbit(x[both]) & np.signbit(y[both])
                want[both] = np.copysign(np.float32(0), np.where(sign, -1, 1)).astype(np.float32)
            _same(rows[8 + i], want)
        product = _flushed(_fma(x, y, z), keeps_results)
        _same(rows[20], product)
        _same(rows[21], product)
        _same(rows[22], _flushed(ARITHMETIC["v_add_f32"](x, z), keeps_results))
        _same(rows[23], _flushed(ARITHMETIC["v_add_f32"](y, z), keeps_results))
        _same(rows[24], _flushed(ARITHMETIC["v_mul_f32"](x, z), keeps_results))
    _same(rows[26], a)
    _same(rows[27], a)
    assert int(wave.scalar[MODE]) & 0x30 == keeps_sources << 4 | keeps_results << 5


def test_comparisons_roundings_and_conversions_take_denormals_for_zero(machine: Machine) -> None:
    """Against the same instructions on zeros; the test for a class of numbers still sees denormals."""
    a = _values(4)
    lines = """v_cmp_gt_f32 s[0:1], v0, 0
        v_cmp_eq_f32 s[2:3], v0, 0
        v_ceil_f32 v2, v0
        v_floor_f32 v3, v0
        v_cvt_f64_f32 v[4:5], v0
        v_ldexp_f32 v6, v0, 60
        v_cmp_class_f32 s[4:5], v0, v1"""
    setting = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {}\n"
    classes = np.full(64, 0x90, np.uint32)  # denormals of both signs
    flushing = machine.run(setting.format(0) + lines, vector={0: a, 1: classes}, mode=FLUSHING)
    keeping = machine.run(setting.format(3) + lines, vector={0: _flushed(a, 0), 1: classes})
    for row in range(2, 7):
        np.testing.assert_array_equal(flushing.vector[row], keeping.vector[row])
    np.testing.assert_array_equal(flushing.scalar[:4], keeping.scalar[:4])
    is_denormal = (np.abs(a) < SMALLEST) & (a != 0)
    seen = np.unpackbits(flushing.scalar[4:6].view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(seen.astype(bool), is_denormal)


def test_half_and_double_precision_keep_theirs(machine: Machine) -> None:
    half, double = np.full(64, 3, np.uint32), np.full(64, 5, np.uint32)
    wave = machine.run(
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_add_f16 v4, v0, v0\nv_add_f64 v[6:7], v[2:3], v[2:3]",
        vector={0: half, 2: double, 3: np.zeros(64, np.uint32)},
    )
    assert set(wave.vector[4].tolist()) == {6}
    assert set(wave.vector[6].tolist()) == {10}


def test_mode_of_the_descriptor_and_what_a_register_says(engine: Engine) -> None:
    """A kernel that begins with flushing, keeps denormals for one sum, and flushes again, as divisions do."""
    kernel = build(
        """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\tv_lshlrev_b32_e32 v1, 2, v0
\tv_mov_b32_e32 v2, 1
\tv_add_f32_e32 v3, v2, v2
\ts_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3
\tv_add_f32_e32 v4, v2, v2
\ts_mov_b32 s10, 0
\ts_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s10
\tv_add_f32_e32 v5, v2, v2
\tv_lshlrev_b32_e32 v4, 8, v4
\tv_lshlrev_b32_e32 v5, 16, v5
\tv_or3_b32 v3, v3, v4, v5
\ts_waitcnt lgkmcnt(0)
\tglobal_store_dword v1, v3, s[8:9]
""",
        extra="\t\t.amdhsa_float_denorm_mode_32 0",
    )
    out = np.zeros(64, np.uint32)
    run(engine, kernel, out, 0)
    assert set(out.tolist()) == {2 << 8}


@pytest.mark.parametrize("line", ["float_denorm_mode_16_64 0", "float_round_mode_32 1"])
def test_other_modes_are_refused(engine: Engine, line: str) -> None:
    with pytest.raises(LaunchError, match="denormals kept"):
        run(engine, build("\ts_nop 0", extra=f"\t\t.amdhsa_{line}"), np.zeros(1, np.uint32), 0)


@pytest.mark.parametrize(
    ("line", "flushes"),
    [
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0", True),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 14", True),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15", False),
        ("s_setreg_b32 hwreg(HW_REG_MODE, 5, 1), s0", True),
        ("s_setreg_b32 hwreg(HW_REG_MODE, 23, 1), s0", False),
        ("v_add_f32 v0, v1, v2", False),
    ],
)
def test_only_kernels_that_may_flush_look_at_mode(line: str, flushes: bool) -> None:
    assert flushes_single_denormals(kernel_of(line)) is flushes
