"""Kernels that the tests tune."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

COUNT = 1 << 15


@triton.jit
def scale_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value * factor, mask=index < count)


@triton.jit
def increment_kernel(values, count, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + index, tl.load(values + index, mask=index < count) + 1, mask=index < count)


@triton.jit
def transpose_kernel(source, target, rows, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    tile = tl.load(source + r[:, None] * columns + c[None, :], mask=mask)
    tl.store(target + c[None, :] * rows + r[:, None], tile, mask=mask)


@triton.jit
def normalize_kernel(values, BLOCK: tl.constexpr):
    """All values of a program are needed until their sum is known: they stay in registers, or are spilled."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + index)
    tl.store(values + index, value / tl.sum(value, axis=0))


def blocks(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(COUNT, meta["BLOCK"]),)
