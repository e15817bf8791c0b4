"""Types of the generated C, and values of them to start from."""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True, slots=True)
class Kind:
    """A C type of the prelude.

    Attributes:
        name: Its name in C and, for a scalar, the suffix of its helpers.
        bits: Size of an element.
        is_float: Whether elements are floating-point numbers.
        is_signed: Whether elements have a sign.
        element: Name of the element type of a pair, else empty.
    """

    name: str
    bits: int
    is_float: bool
    is_signed: bool
    element: str = ""

    @property
    def dtype(self) -> np.dtype:
        """The numpy type of a scalar."""
        if self.name == "bf16":
            return np.dtype(ml_dtypes.bfloat16)
        letter = "f" if self.is_float else "i" if self.is_signed else "u"
        return np.dtype(f"{letter}{self.bits // 8}")


INTEGERS = tuple(
    Kind(f"{letter}{bits}", bits, is_float=False, is_signed=letter == "i")
    for bits in (8, 16, 32, 64)
    for letter in "iu"
)
FLOATS = tuple(Kind(f"f{bits}", bits, is_float=True, is_signed=True) for bits in (16, 32, 64))
SCALARS = (*INTEGERS, *FLOATS)
# Only in families that name it: neither processor has arithmetic on it, so all of it goes through single precision.
BFLOAT = Kind("bf16", 16, is_float=True, is_signed=True)
KINDS = {kind.name: kind for kind in (*SCALARS, BFLOAT)}
PAIRS = tuple(
    Kind(f"{name}x2", KINDS[name].bits, KINDS[name].is_float, KINDS[name].is_signed, name)
    for name in ("i16", "u16", "f16", "f32")
)
# 32-bit registers are what the hardware has: other sizes are there to be converted from and to.
_WEIGHTS = {"i32": 5, "u32": 5, "f32": 5, "i64": 2, "u64": 2, "f64": 2, "f16": 2}


def some_kind(rng: random.Random, kinds: tuple[Kind, ...] = SCALARS) -> Kind:
    """A scalar type, 32-bit ones more often."""
    return rng.choices(kinds, [_WEIGHTS.get(kind.name, 1) for kind in kinds])[0]


def some_values(rng: np.random.Generator, kind: Kind, count: int) -> np.ndarray:
    """Values of a type: a third small, a third any bits, a third at the edges. No signalling NaN."""
    if kind.is_float:
        info = ml_dtypes.finfo(kind.dtype)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny]
        edges += [info.smallest_subnormal, -info.tiny / 2, 1 + info.eps, 1.5, 2.5, 1 / 3]
    else:
        limits = np.iinfo(kind.dtype)
        edges = [0, 1, 2, limits.max, limits.min, limits.max - 1, limits.min + 1, limits.max // 2, 7, 31, 32, 33, 63]
    any_bits = rng.integers(0, 256, count * kind.bits // 8, dtype=np.uint8).view(kind.dtype)
    if kind.is_float:
        with np.errstate(invalid="ignore"):  # a signalling NaN
            any_bits = np.where(np.isnan(any_bits), kind.dtype.type(np.nan), any_bits)
        small = (rng.normal(size=count) * 10.0 ** rng.integers(-1, 4, count)).astype(kind.dtype)
    else:
        small = rng.integers(-9 if kind.is_signed else 0, 100, count).astype(kind.dtype)
    chosen = np.array(edges, dtype=kind.dtype)[rng.integers(0, len(edges), count)]
    return np.select([rng.integers(0, 3, count) == 0, rng.integers(0, 2, count) == 0], [small, any_bits], chosen)


def some_constant(rng: random.Random, kind: Kind) -> str:
    """A literal of a scalar type: often an inline constant of the hardware, sometimes any number."""
    if kind.is_float:
        plain = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.0", "3.0", "0.1", "-7.25", "1e4"]
        return f"(({kind.name}){rng.choice([*plain, f'{rng.uniform(-100, 100):.6g}'])})"
    low = -(1 << (kind.bits - 1)) if kind.is_signed else 0
    high = low + (1 << kind.bits) - 1
    value = rng.choice(
        [rng.randint(-16 if low else 0, 64), rng.randint(low, high), 1 << rng.randrange(kind.bits - 1), high]
    )
    suffix = "ull" if value > 0x7FFFFFFFFFFFFFFF else "ll"
    return f"(({kind.name})({value + 1}{suffix} - 1))" if value < 0 else f"(({kind.name}){value}{suffix})"
