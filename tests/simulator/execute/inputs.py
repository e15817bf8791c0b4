"""Register contents for opcode tests: edge values among random ones, the same in every run."""

from __future__ import annotations

import numpy as np

EDGES = [0, 1, 2, 15, 16, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFF]
EDGES += [0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFF8000, 0x0C0D0B0A]
EXEC_MASKS = [(1 << 64) - 1, 0x8000_0001_F0F0_1234, 1 << 63, 0]


def words(generator: np.random.Generator, shape: tuple[int, ...] | int) -> np.ndarray:
    """uint32 of the given shape: a third edge values, a third small numbers, the rest random bits."""
    random = generator.integers(0, 1 << 32, shape, dtype=np.uint32)
    edges = np.array(EDGES, dtype=np.uint32)[generator.integers(0, len(EDGES), shape)]
    small = generator.integers(0, 70, shape, dtype=np.uint32)
    kind = generator.integers(0, 3, shape)
    return np.where(kind == 0, edges, np.where(kind == 1, small, random))
