"""Approximate functions: distance to the exact value, exact points, special values, denormals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from bulk import apply
from machine import Machine
from semantics_float import assert_floats

pytestmark = pytest.mark.execute

TINY = np.finfo(np.float32).tiny


def distance(got: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place of the f32 nearest to the exact f64 value."""
    unit = np.spacing(np.maximum(np.abs(exact.astype(np.float32)), TINY)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - exact) / unit))


def samples(low: int, high: int, count: int = 30000) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.ldexp(rng.uniform(1, 2, count), rng.integers(low, high, count)).astype(np.float32)


def run(machine: Machine, name: str, values: np.ndarray) -> np.ndarray:
    return apply(machine, f"v_{name}_f32_e32 {{d}}, {{a}}", [values], np.float32)


@pytest.mark.parametrize(
    ("name", "function", "values"),
    [
        ("rcp", lambda x: 1 / x, samples(-125, 125)),
        ("rcp_iflag", lambda x: 1 / x, samples(-20, 32)),
        ("sqrt", np.sqrt, samples(-126, 127)),
        ("rsq", lambda x: 1 / np.sqrt(x), samples(-126, 127)),
        ("exp", np.exp2, np.random.default_rng(1).uniform(-125.9, 127.9, 30000).astype(np.float32)),
        ("exp", np.exp2, samples(-30, 6)),
        ("log", np.log2, samples(-126, 127)),
        ("log", np.log2, np.random.default_rng(1).uniform(0.5, 2, 30000).astype(np.float32)),
    ],
)
def test_error_bound(
    machine: Machine, name: str, function: Callable[[np.ndarray], np.ndarray], values: np.ndarray
) -> None:
    assert distance(run(machine, name, values), function(values.astype(np.float64))) < 0.51


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_turns(machine: Machine, name: str) -> None:
    values = np.random.default_rng(4).uniform(-256, 256, 30000).astype(np.float32)
    angle = 2 * np.pi * (values.astype(np.float64) - np.rint(values))
    exact = np.sin(angle) if name == "sin" else np.cos(angle)
    assert np.max(np.abs(run(machine, name, values) - exact)) < 2.0**-24
    quarters = np.arange(-8, 8, dtype=np.float32) / 4
    want = [0, 1, 0, -1] if name == "sin" else [1, 0, -1, 0]
    np.testing.assert_array_equal(run(machine, name, quarters), np.tile(np.float32(want), 4))
    special = run(machine, name, np.array([257, -1e9, np.inf, np.nan], np.float32))
    np.testing.assert_array_equal(
        special, np.float32([0, 0, np.nan, np.nan] if name == "sin" else [1, 1, np.nan, np.nan])
    )


def test_powers_of_two_are_exact(machine: Machine) -> None:
    exponents = np.arange(-126, 128, dtype=np.float32)
    powers = np.exp2(exponents.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(run(machine, "exp", exponents), powers)
    np.testing.assert_array_equal(run(machine, "log", powers), exponents)


def test_special_values(machine: Machine) -> None:
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    denormal, big = np.float32(1e-40), float(np.float32(3e38))
    arguments = np.array(
        [0.0, -0.0, inf, -inf, -1, denormal, -denormal, big, 1, 4, 0.5, 128, -126, -127, nan], np.float32
    )
    table = {
        "rcp": [inf, -inf, 0.0, -0.0, -1, inf, -inf, 0.0, 1, 0.25, 2, 2.0**-7, -1 / 126, -1 / 127, nan],
        "sqrt": [0.0, -0.0, inf, nan, nan, 0.0, -0.0, np.sqrt(big), 1, 2, np.sqrt(0.5), np.sqrt(128), nan, nan, nan],
        "rsq": [inf, -inf, 0.0, nan, nan, inf, -inf, big**-0.5, 1, 0.5, 2**0.5, 128**-0.5, nan, nan, nan],
        "exp": [1, 1, inf, 0.0, 0.5, 1, 1, inf, 2, 16, np.sqrt(2), inf, TINY, 0.0, nan],
        "log": [-inf, -inf, inf, nan, nan, -inf, -inf, np.log2(big), 0.0, 2, -1, 7, nan, nan, nan],
    }
    for name, want in table.items():
        assert_floats(run(machine, name, arguments), np.array(want, np.float32))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rcp", lambda x: 1 / x),
        ("sqrt", np.sqrt),
        ("rsq", lambda x: 1 / np.sqrt(x)),
        ("exp", np.exp2),
        ("log", np.log2),
    ],
)
def test_halves(machine: Machine, name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    words = apply(machine, f"v_{name}_f16_e32 {{d}}, {{a}}", [values], np.uint32)
    with np.errstate(all="ignore"):
        want = function(values.astype(np.float64))
    got = words.astype(np.uint16).view(np.float16)
    # Rounded twice, by way of single precision: a tie may fall on the other side, but nothing else.
    with np.errstate(all="ignore"):
        halves = want.astype(np.float16)
        near = np.abs(got.astype(np.float64) - want) <= 0.5001 * np.spacing(np.abs(got)).astype(np.float64)
    assert_floats(np.where(near, np.float16(1), got), np.where(near, np.float16(1), halves))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rcp", lambda x: 1 / x),
        ("sqrt", np.sqrt),
        ("rsq", lambda x: 1 / np.sqrt(x)),
    ],
)
def test_double(machine: Machine, name: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    rng = np.random.default_rng(3)
    values = np.ldexp(rng.uniform(1, 2, 3000), rng.integers(-1000, 1000, 3000))
    values[:5] = [0.0, -0.0, np.inf, np.nan, 1.0]
    got = apply(machine, f"v_{name}_f64_e32 {{d}}, {{a}}", [values], np.float64)
    with np.errstate(all="ignore"):
        exact = function(values.astype(np.longdouble))
        assert_floats(got[:5], exact[:5].astype(np.float64))
        # Where the host's long double is no wider than double, the reference itself is off by a rounding.
        bound = 0.51 if np.finfo(np.longdouble).eps < 2.0**-60 else 1.6
        assert np.max(np.abs(got - exact)[5:] / np.spacing(np.abs(got[5:]))) < bound


def test_magnitude_as_argument(machine: Machine) -> None:
    values = np.linspace(-4, 4, 64).astype(np.float32)
    got = apply(machine, "v_rcp_f32_e64 {d}, |{a}|", [values], np.float32)
    np.testing.assert_array_equal(got, 1 / np.abs(values))
