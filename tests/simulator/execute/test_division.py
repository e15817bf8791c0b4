"""Division as compilers write it: scale, reciprocal, refine, scale back, fix up. The quotient is correctly rounded."""

from __future__ import annotations

import numpy as np
import pytest
from bulk import apply
from machine import Machine
from semantics_float import assert_floats, floats

pytestmark = pytest.mark.execute

# {a} / {b}, with {t}…{z} for intermediate results.
SINGLE = """
v_div_scale_f32 {t}, s[0:1], {b}, {b}, {a}
v_rcp_f32_e32 {u}, {t}
v_div_scale_f32 {v}, vcc, {a}, {b}, {a}
v_fma_f32 {w}, -{t}, {u}, 1.0
v_fmac_f32_e32 {u}, {w}, {u}
v_mul_f32_e32 {w}, {v}, {u}
v_fma_f32 {x}, -{t}, {w}, {v}
v_fmac_f32_e32 {w}, {x}, {u}
v_fma_f32 {v}, -{t}, {w}, {v}
v_div_fmas_f32 {u}, {v}, {u}, {w}
v_div_fixup_f32 {d}, {u}, {b}, {a}
"""
DOUBLE = """
v_div_scale_f64 {t}, s[0:1], {b}, {b}, {a}
v_rcp_f64_e32 {u}, {t}
v_fma_f64 {v}, -{t}, {u}, 1.0
v_fmac_f64_e32 {u}, {u}, {v}
v_fma_f64 {v}, -{t}, {u}, 1.0
v_fmac_f64_e32 {u}, {u}, {v}
v_div_scale_f64 {v}, vcc, {a}, {b}, {a}
v_mul_f64 {w}, {v}, {u}
v_fma_f64 {v}, -{t}, {w}, {v}
v_div_fmas_f64 {u}, {v}, {u}, {w}
v_div_fixup_f64 {d}, {u}, {b}, {a}
"""


def operands(dtype: type, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Any pattern, edges, quotients in the denormal range, near overflow, and small integers."""
    rng = np.random.default_rng(11)
    top = -np.finfo(dtype).minexp
    with np.errstate(all="ignore"):

        def scaled(low: int, high: int) -> np.ndarray:
            return np.ldexp(rng.uniform(1, 2, count), rng.integers(low, high, count)).astype(dtype)

        numerators = [floats(dtype, count, 1), scaled(-top - 24, -top + 30), scaled(top - 40, top + 1), scaled(-9, 9)]
        denominators = [
            floats(dtype, count, 2),
            scaled(-25, 25),
            scaled(-top - 24, -top + 50),
            scaled(top - 8, top + 1),
        ]
        # Quotients of few bits are ties of the denormal grid.
        few = rng.integers(1, 1 << 12, count).astype(dtype)
        exact = scaled(20, 40)
        numerators += [
            np.ldexp(few, 1 - top - 30).astype(dtype),
            (exact * dtype(2.0**-20)).astype(dtype),
            scaled(-80, 80),
        ]
        denominators += [np.ldexp(dtype(1), rng.integers(0, 30, count)).astype(dtype), exact, scaled(-80, 80)]
    return np.concatenate(numerators), np.concatenate(denominators)


@pytest.mark.parametrize(("dtype", "sequence", "count"), [(np.float32, SINGLE, 20000), (np.float64, DOUBLE, 15000)])
def test_quotient_is_correctly_rounded(machine: Machine, dtype: type, sequence: str, count: int) -> None:
    a, b = operands(dtype, count)
    with np.errstate(all="ignore"):
        want = (a / b).astype(dtype)
    assert (np.abs(want) < np.finfo(dtype).tiny).sum() > count // 2
    got = apply(machine, sequence, [a, b], dtype, temporaries=5)
    assert_floats(got, want)


def test_scaling_is_noted_where_the_quotient_leaves_the_range(machine: Machine) -> None:
    numerator = np.full(64, 2.0**100, np.float32)
    denominator = np.full(64, 2.0**-10, np.float32)
    denominator[1::2] = 2.0**10
    wave = machine.run(
        "v_div_scale_f32 v2, vcc, v1, v1, v0\nv_div_scale_f32 v3, s[4:5], v0, v1, v0",
        vector={0: numerator, 1: denominator},
        exec_mask=0xFFFFFFFF,
    )
    assert wave.vcc == 0x55555555 and wave.scalar[4] == 0x55555555 and wave.scalar[5] == 0
    np.testing.assert_array_equal(wave.vector[2].view(np.float32)[:2], [2.0**54, 2.0**10])
    assert (wave.vector[3].view(np.float32)[:32] == numerator[0]).all()
    assert (wave.vector[2][32:] == 0).all()


def test_half_fixup(machine: Machine) -> None:
    a, b = floats(np.float16, 2000, 1), floats(np.float16, 2000, 2)
    with np.errstate(all="ignore"):
        want = a / b
    words = apply(machine, "v_div_fixup_f16 {d}, {a}, {b}, {c}", [want, b, a], np.uint32, old=0x12340000)
    assert (words >> 16 == 0x1234).all()
    assert_floats(words.astype(np.uint16).view(np.float16), want)
