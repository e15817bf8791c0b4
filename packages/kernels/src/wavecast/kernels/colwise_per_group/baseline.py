"""The column-wise quantizer as it was written before: what the published figures were measured with.

Three forms of pytorch/ao's per-group column-wise kernel (``jagged_float8_scales.py``; the last two stand in commit
36027d82), written anew from the descriptions of the pull requests #3972, #4069 and #4113 so that store width, passes
and footprint are theirs:

* ``byte-stores``: strides are run-time int64, so the compiler sees no contiguous axis, and lanes run across columns on
  the store: one byte each, a column apart. Two passes over the group.
* ``vector-two-pass``: the unit strides are constexprs; loads are vectors and the store is coalesced. Two passes.
* ``fused-single-pass``: the whole group is one register tile, read once. The tile has the rows of the *mean* group, so
  rows of a longer group that lie beyond it are neither seen nor written: right for equal groups only.

They keep the numerics of their time: the scale is computed in fp64, powers of two through log2, NaN becomes -max and
rows that no group owns are not written. The inverse scale was a launch of its own and is not part of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from wavecast.kernels._earlier_numerics import scale_and_clamp, scale_in_fp64
from wavecast.kernels.colwise_per_group.api import COLWISE, ColwiseQuantized, colwise_per_group
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Launch

BLOCK_COLS, BLOCK_ROWS, WAVES = 32, 128, 4
"""The configuration that #4069 chose for MI300X."""

FUSED_BLOCK_COLS, FUSED_WAVES = 32, 8
FUSED_ROWS = (256, 512, 1024, 2048)
"""Tile heights that #4113 offers; another mean group size takes the two-pass kernel."""


@triton.jit
def _two_pass(
    x_ptr, offs_ptr, out_ptr, scale_ptr, columns, x_row_stride, x_column_stride, out_row_stride, out_column_stride,
    FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, group): amax over the group's rows, then a second pass that quantizes them."""
    group = tl.program_id(1)
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    amax = tl.zeros((COLS,), tl.float32)
    for row in range(start, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows[:, None] < end) & (cols[None, :] < columns)
        offsets = rows[:, None].to(tl.int64) * x_row_stride + cols[None, :].to(tl.int64) * x_column_stride
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        amax = tl.maximum(amax, tl.max(tl.abs(x), axis=0).to(tl.float32))
    scale = scale_in_fp64(amax, FP8_MAX, EPS, POWER_OF_TWO)
    tl.store(scale_ptr + group * columns + cols, scale, mask=cols < columns)
    for row in range(start, end, ROWS):
        rows = row + tl.arange(0, ROWS)
        mask = (rows[:, None] < end) & (cols[None, :] < columns)
        offsets = rows[:, None].to(tl.int64) * x_row_stride + cols[None, :].to(tl.int64) * x_column_stride
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        q = scale_and_clamp(x, scale[None, :], FP8_MAX).to(out_ptr.dtype.element_ty)
        out = rows[:, None].to(tl.int64) * out_row_stride + cols[None, :].to(tl.int64) * out_column_stride
        tl.store(out_ptr + out, q, mask=mask)


@triton.jit
def two_pass_kernel(
    x_ptr, offs_ptr, out_ptr, scale_ptr, columns,
    x_row_stride: tl.int64, x_column_stride: tl.int64, out_row_stride: tl.int64, out_column_stride: tl.int64,
    FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Two passes; the annotated strides stay run-time values even where they are 1."""
    _two_pass(x_ptr, offs_ptr, out_ptr, scale_ptr, columns, x_row_stride, x_column_stride, out_row_stride,
              out_column_stride, FP8_MAX, EPS, POWER_OF_TWO, ROWS, COLS)  # fmt: skip


@triton.jit
def two_pass_unit_stride_kernel(
    x_ptr, offs_ptr, out_ptr, scale_ptr, columns, x_row_stride, x_column_stride, out_column_stride,
    FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Two passes; a stride of 1 is known when compiling, and rows of the output are 1 apart."""
    _two_pass(x_ptr, offs_ptr, out_ptr, scale_ptr, columns, x_row_stride, x_column_stride, 1, out_column_stride,
              FP8_MAX, EPS, POWER_OF_TWO, ROWS, COLS)  # fmt: skip


@triton.jit
def fused_kernel(
    x_ptr, offs_ptr, out_ptr, scale_ptr, columns, x_row_stride, out_column_stride,
    FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, group): the group is one tile, from load to store in registers."""
    group = tl.program_id(1)
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    rows = start + tl.arange(0, ROWS)
    mask = (rows[:, None] < end) & (cols[None, :] < columns)
    x = tl.load(x_ptr + rows[:, None].to(tl.int64) * x_row_stride + cols[None, :], mask=mask, other=0.0)
    amax = tl.max(tl.abs(x), axis=0).to(tl.float32)
    scale = scale_in_fp64(amax, FP8_MAX, EPS, POWER_OF_TWO)
    tl.store(scale_ptr + group * columns + cols, scale, mask=cols < columns)
    q = scale_and_clamp(x, scale[None, :], FP8_MAX).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows[:, None] + cols[None, :].to(tl.int64) * out_column_stride, q, mask=mask)


def launch_two_pass(
    x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion, *,
    block_cols: int = BLOCK_COLS, block_rows: int = BLOCK_ROWS, waves: int = WAVES,
) -> None:  # fmt: skip
    """Launch `two_pass_kernel`; ``x`` and the values may have any strides."""
    two_pass_kernel[(triton.cdiv(x.shape[1], block_cols), offs.numel())](
        x, offs, out.values, out.scale, x.shape[1], *x.stride(), *out.values.stride(), **conversion.scale_constants,
        ROWS=block_rows, COLS=block_cols, num_warps=waves, num_stages=2,
    )  # fmt: skip


def launch_two_pass_unit_stride(
    x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion
) -> None:
    """Launch `two_pass_unit_stride_kernel`; the values are column-major."""
    two_pass_unit_stride_kernel[(triton.cdiv(x.shape[1], BLOCK_COLS), offs.numel())](
        x, offs, out.values, out.scale, x.shape[1], *x.stride(), out.values.stride(1), **conversion.scale_constants,
        ROWS=BLOCK_ROWS, COLS=BLOCK_COLS, num_warps=WAVES, num_stages=2,
    )  # fmt: skip


def fused_rows(tokens: int, groups: int) -> int | None:
    """Rows of the fused tile for the mean group, or None if #4113 has no tile of that height."""
    rows: int = triton.next_power_of_2(triton.cdiv(tokens, groups))
    return rows if rows in FUSED_ROWS else None


def launch_fused(x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion) -> None:
    """Launch `fused_kernel`, or the two-pass kernel where there is no tile of the mean group's height."""
    rows = fused_rows(x.shape[0], offs.numel())
    if rows is None:
        launch_two_pass_unit_stride(x, offs, out, conversion)
        return
    fused_kernel[(triton.cdiv(x.shape[1], FUSED_BLOCK_COLS), offs.numel())](
        x, offs, out.values, out.scale, x.shape[1], x.stride(0), out.values.stride(1), **conversion.scale_constants,
        ROWS=rows, COLS=FUSED_BLOCK_COLS, num_warps=FUSED_WAVES, num_stages=1,
    )  # fmt: skip


def earlier(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    launch: Launch,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ColwiseQuantized:
    """The operator in an earlier form: ``launch`` leaves the inverse scale alone, and so the result has none."""
    return COLWISE.run(launch, x, offs, format=format, power_of_two=power_of_two)._replace(inverse=None)


VARIANTS: dict[str, Callable[..., ColwiseQuantized]] = {
    "byte-stores": partial(earlier, launch=launch_two_pass),
    "vector-two-pass": partial(earlier, launch=launch_two_pass_unit_stride),
    "fused-single-pass": partial(earlier, launch=launch_fused),
    "wavecast": colwise_per_group,
}
"""The variants of ``colwise-per-group``, the baseline first; all take the arguments of `colwise_per_group`."""
