"""What the float opcodes should give, written from the ISA text in exact arithmetic, one value at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

# Precision in bits and smallest normal exponent of each format.
FORMATS = {np.float16: (11, -14), np.float32: (24, -126), np.float64: (53, -1022)}
QUIET = {np.float16: 1 << 9, np.float32: 1 << 22, np.float64: 1 << 51}


def unsigned(dtype: type) -> type:
    return {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(dtype).itemsize]


def bits(value: np.floating) -> int:
    return int(np.asarray(value).view(unsigned(type(value))))


def nearest(value: Fraction, dtype: type, *, negative_zero: bool = False) -> np.floating:
    """The format's number nearest to an exact value, ties to even, overflow to infinity."""
    precision, lowest = FORMATS[dtype]
    if value == 0:
        return dtype(-0.0 if negative_zero else 0.0)
    size = abs(value)
    exponent = math.floor(math.log2(size.numerator) - math.log2(size.denominator))
    exponent += 1 if size >= Fraction(2) ** (exponent + 1) else -1 if size < Fraction(2) ** exponent else 0
    unit = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    count = round(size / unit)
    rounded = count * unit
    limit = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** (1 - lowest)
    result = math.inf if rounded > limit else float(rounded)
    return dtype(-result if value < 0 else result)


def fused(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    """a * b + c, rounded once."""
    dtype = type(a)
    if np.isnan(a) or np.isnan(b) or np.isnan(c):
        return dtype(np.nan)
    if np.isinf(a) or np.isinf(b):
        with np.errstate(all="ignore"):
            return dtype(np.float64(a) * np.float64(b) + np.float64(c))
    if np.isinf(c):
        return c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    product_negative = np.signbit(a) != np.signbit(b)
    zero_negative = bool(product_negative and np.signbit(c) and (a == 0 or b == 0) and c == 0)
    return nearest(exact, dtype, negative_zero=zero_negative)


def scaled(a: np.floating, exponent: int) -> np.floating:
    """a * 2**exponent, rounded once."""
    if not np.isfinite(a) or a == 0:
        return a
    return nearest(Fraction(float(a)) * Fraction(2) ** max(-5000, min(5000, exponent)), type(a))


def _signalling(value: np.floating) -> bool:
    return bool(np.isnan(value)) and not bits(value) & QUIET[type(value)]


def _quieted(value: np.floating) -> np.floating:
    dtype = type(value)
    return np.array([bits(value) | QUIET[dtype]], dtype=unsigned(dtype)).view(dtype)[0]


def maximum(a: np.floating, b: np.floating) -> np.floating:
    """v_max in IEEE mode."""
    return _extreme(a, b, lambda x, y: x if x > y else y, np.signbit)


def minimum(a: np.floating, b: np.floating) -> np.floating:
    """v_min in IEEE mode."""
    return _extreme(a, b, lambda x, y: x if x < y else y, lambda value: not np.signbit(value))


def _extreme(
    a: np.floating, b: np.floating, choose: Callable[..., np.floating], loses: Callable[[np.floating], bool]
) -> np.floating:
    for value in (a, b):
        if _signalling(value):
            return _quieted(value)
    if np.isnan(a):
        return b
    if np.isnan(b):
        return a
    if a == 0 and b == 0:
        return b if loses(a) else a
    return choose(a, b)


def maximum3(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    return maximum(maximum(a, b), c)


def minimum3(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    return minimum(minimum(a, b), c)


def median(a: np.floating, b: np.floating, c: np.floating) -> np.floating:
    """v_med3: the smallest number if any is NaN."""
    if np.isnan(a) or np.isnan(b) or np.isnan(c):
        return minimum3(a, b, c)
    top = maximum3(a, b, c)
    if top == a:
        return maximum(b, c)
    return maximum(a, c) if top == b else maximum(a, b)


def fraction(a: np.floating) -> np.floating:
    """v_fract: always below 1."""
    dtype = type(a)
    if not np.isfinite(a):
        return dtype(np.nan)
    with np.errstate(all="ignore"):
        return min(dtype(a - np.floor(a)), np.nextafter(dtype(1), dtype(0)))


def each(function: Callable[..., object], *sources: np.ndarray, dtype: type) -> np.ndarray:
    """A scalar function on arrays, element by element."""
    return np.array([function(*values) for values in zip(*sources, strict=True)], dtype=dtype)


def floats(dtype: type, count: int, seed: int) -> np.ndarray:
    """Random bit patterns, numbers near 1, small integers and edge values, mixed."""
    generator = np.random.default_rng(seed)
    width = unsigned(dtype)
    top = np.iinfo(width).max
    patterns = generator.integers(0, int(top), count, dtype=width, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        near = (generator.standard_normal(count) * 2.0 ** generator.integers(-6, 6, count)).astype(dtype)
        small = (generator.integers(-9, 9, count) / 2).astype(dtype)
    info = np.finfo(dtype)
    quiet, infinity = QUIET[dtype], int(np.array(np.inf, dtype).view(width))
    special = np.array(
        [infinity + 1, infinity | quiet, infinity | quiet | 5, infinity + 2 + (int(top) // 2 + 1)], width
    )
    edges = np.concatenate(
        [
            np.array(
                [
                    0.0,
                    -0.0,
                    np.inf,
                    -np.inf,
                    1,
                    -1,
                    0.5,
                    -0.5,
                    1.5,
                    2.5,
                    info.max,
                    -info.max,
                    info.tiny,
                    -info.tiny,
                    info.smallest_subnormal,
                    -info.smallest_subnormal,
                    0.499999,
                    info.tiny / 2,
                    3 * info.tiny,
                ],
                dtype,
            ),
            special.view(dtype),
        ]
    )
    chosen = edges[generator.integers(0, len(edges), count)]
    kind = generator.integers(0, 4, count)
    return np.select([kind == 0, kind == 1, kind == 2], [patterns, near, small], chosen).astype(dtype)


def assert_floats(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; NaN as a class, because hosts and GPUs choose different payloads."""
    assert got.dtype == want.dtype
    numbers = ~np.isnan(want)
    width = unsigned(want.dtype.type)
    np.testing.assert_array_equal(got[numbers].view(width), want[numbers].view(width))
    assert np.isnan(got[~numbers]).all()
