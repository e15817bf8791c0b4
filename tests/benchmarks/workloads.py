"""The three kinds of kernel whose execution rate has a budget: a reduction, a cast and a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def row_maximum(x_ptr, maximum_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    maximum = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + row * n + start + lane, mask=start + lane < n, other=0.0)
        maximum = tl.maximum(maximum, tl.abs(x.to(tl.float32)))
    tl.store(maximum_ptr + row, tl.max(maximum, axis=0))


@triton.jit
def row_cast(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        mask = start + lane < n
        x = tl.load(x_ptr + row * n + start + lane, mask=mask, other=0.0).to(tl.float32)
        y = tl.clamp(x * scale, -240.0, 240.0)
        tl.store(y_ptr + row * n + start + lane, y.to(tl.float8e4b8), mask=mask)


@triton.jit
def matrix_product(a_ptr, b_ptr, c_ptr, n, k, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, STEP)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, STEP):
        a = tl.load(a_ptr + rows[:, None] * k + start + depth[None, :])
        b = tl.load(b_ptr + columns[None, :] * k + start + depth[:, None])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16))


@dataclass(frozen=True)
class Workload:
    """A kernel with what it takes to compile and launch it on gfx942.

    ``arguments`` maps host arrays to device addresses with the function it is given and returns the values of a launch.
    """

    name: str
    kernel: Any
    signature: dict[str, str]
    constexprs: dict[str, int]
    aligned: tuple[str, ...]
    grid: tuple[int, int, int]
    arguments: Callable[[Callable[[np.ndarray], int]], list[int | float]]


def _zeros(count: int, bytes_each: int) -> np.ndarray:
    return np.zeros(count * bytes_each, dtype=np.uint8)


def _maximum_arguments(place: Callable[[np.ndarray], int]) -> list[int | float]:
    return [place(_zeros(512 * 16384, 2)), place(_zeros(512, 4)), 16384]


def _cast_arguments(place: Callable[[np.ndarray], int]) -> list[int | float]:
    return [place(_zeros(512 * 16384, 2)), place(_zeros(512 * 16384, 1)), 2.0, 16384]


def _product_arguments(place: Callable[[np.ndarray], int]) -> list[int | float]:
    return [place(_zeros(1024 * 1024, 2)), place(_zeros(1024 * 1024, 2)), place(_zeros(1024 * 1024, 2)), 1024, 1024]


WORKLOADS = (
    Workload(
        name="reduction",
        kernel=row_maximum,
        signature={"x_ptr": "*bf16", "maximum_ptr": "*fp32", "n": "i32"},
        constexprs={"BLOCK": BLOCK},
        aligned=("x_ptr", "maximum_ptr", "n"),
        grid=(512, 1, 1),
        arguments=_maximum_arguments,
    ),
    Workload(
        name="cast",
        kernel=row_cast,
        signature={"x_ptr": "*bf16", "y_ptr": "*fp8e4b8", "scale": "fp32", "n": "i32"},
        constexprs={"BLOCK": BLOCK},
        aligned=("x_ptr", "y_ptr", "n"),
        grid=(512, 1, 1),
        arguments=_cast_arguments,
    ),
    Workload(
        name="matrix product",
        kernel=matrix_product,
        signature={"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "n": "i32", "k": "i32"},
        constexprs={"BLOCK": 128, "STEP": 64},
        aligned=("a_ptr", "b_ptr", "c_ptr", "n", "k"),
        grid=(8, 8, 1),
        arguments=_product_arguments,
    ),
)
