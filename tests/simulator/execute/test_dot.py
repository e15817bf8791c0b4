"""Dot products inside a lane."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from bulk import apply
from machine import Machine

from wavecast.simulator.errors import UnsupportedInstructionError

pytestmark = pytest.mark.execute


def words(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 32, 640, dtype=np.uint32)


def parts(values: np.ndarray, width: int, signed: bool) -> np.ndarray:
    """The packed integers, shape (n, 32 / width)."""
    fields = np.stack([values >> first & (1 << width) - 1 for first in range(0, 32, width)], axis=1).astype(np.int64)
    return np.where(fields >> (width - 1), fields - (1 << width), fields) if signed else fields


@pytest.mark.parametrize(("count", "width"), [(2, 16), (4, 8), (8, 4)])
@pytest.mark.parametrize("letter", ["i", "u"])
def test_integers(machine: Machine, count: int, width: int, letter: str) -> None:
    a, b, c = words(1), words(2), words(3)
    total = (parts(a, width, letter == "i") * parts(b, width, letter == "i")).sum(axis=1)
    got = apply(machine, f"v_dot{count}_{letter}32_{letter}{width} {{d}}, {{a}}, {{b}}, {{c}}", [a, b, c], np.uint32)
    np.testing.assert_array_equal(got, (total + c & 0xFFFFFFFF).astype(np.uint32))
    if letter == "i":
        got = apply(machine, f"v_dot{count}c_i32_i{width}_e32 {{d}}, {{a}}, {{b}}", [a, b], np.uint32, old=12345)
        np.testing.assert_array_equal(got, (total + 12345 & 0xFFFFFFFF).astype(np.uint32))


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_floats(machine: Machine, kind: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((640, 2)).astype(dtype) for _ in range(2))
    c = rng.standard_normal(640).astype(np.float32)
    products = a.astype(np.float32) * b.astype(np.float32)
    packed = [np.ascontiguousarray(value).view(np.uint32).reshape(-1) for value in (a, b)]
    got = apply(machine, f"v_dot2_f32_{kind} {{d}}, {{a}}, {{b}}, {{c}}", [*packed, c], np.float32, arch="gfx950")
    first = (c + products[:, 0]) + products[:, 1] if kind == "f16" else (products[:, 0] + products[:, 1]) + c
    np.testing.assert_array_equal(got, first)
    got = apply(
        machine, f"v_dot2c_f32_{kind}_e32 {{d}}, {{a}}, {{b}}", packed, np.float32, arch="gfx950", old=0x3F800000
    )
    np.testing.assert_array_equal(got, (np.float32(1) + products[:, 0]) + products[:, 1])


def test_a_modifier_without_semantics_is_refused(machine: Machine) -> None:
    with pytest.raises(UnsupportedInstructionError, match="clamp"):
        machine.run("v_dot4_i32_i8 v0, v1, v2, v3 clamp")
    with pytest.raises(UnsupportedInstructionError, match="neg_lo"):
        machine.run("v_dot2_i32_i16 v0, v1, v2, v3 neg_lo:[1,0,0]")
