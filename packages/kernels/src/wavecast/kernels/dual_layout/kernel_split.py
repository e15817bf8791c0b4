"""Device code of both layouts for few long groups: rows first, with the amax of their columns on the way.

A group that no cache holds is read twice whatever is done. The first launch quantizes rows and keeps, in registers, the
largest value of each column that it has seen; the second takes the maximum over its programs; the third is that of the
column-wise quantizer, `column_cast_kernel`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    inverse_of,
    larger,
    magnitude_key,
    magnitude_of_key,
    quantize,
    scale_from_amax,
    zero_key,
)


# Sizes are not specialised: a new number of tokens must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["tokens", "columns_units", "row_stride_units", "groups"])
def rows_and_column_amax_kernel(
    x_ptr, offs_ptr, partial_ptr, values_ptr, scale_ptr, inverse_ptr, tokens, columns_units, row_stride_units, groups,
    COLUMNS_UNIT: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, PIECES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Program (index, group): every num_programs-th block of BLOCK_M rows of the group, quantized row by row.

    Writes the amax of its columns into ``partial`` ``(groups, programs, columns)`` fp32. The rows behind the last group
    are the last group's, and enter no amax. Blocks are as in `rowwise_resident_kernel`.
    """
    columns = columns_units * COLUMNS_UNIT
    row_stride = row_stride_units * COLUMNS_UNIT
    group = tl.program_id(1)
    programs = tl.num_programs(0)
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group)
    # Offsets are the caller's data, which the host never reads: clip them, so that none reaches outside the buffers.
    start = tl.minimum(tl.maximum(start, 0), tokens)
    end = tl.minimum(tl.maximum(end, start), tokens)
    last = tl.where(group == groups - 1, tokens, end)
    inner = tl.arange(0, BLOCK_K // VECTOR)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    key_type: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    best = ()
    for _ in tl.static_range(PIECES):
        best = best + (tl.full((BLOCK_K // VECTOR, VECTOR), zero_key(dtype), key_type),)  # noqa: RUF005 - no unpacking
    for first in range(start + tl.program_id(0) * BLOCK_M, last, programs * BLOCK_M):
        rows = first + tl.arange(0, BLOCK_M)
        row_mask = rows < last
        counted = (rows < end)[:, None, None]
        x_rows_ptr = x_ptr + rows.to(tl.int64)[:, None, None] * row_stride
        values_rows_ptr = values_ptr + rows.to(tl.int64)[:, None, None] * columns
        held = ()
        for piece in tl.static_range(PIECES):
            cols = (piece * BLOCK_K + inner)[None, :, :]
            x = tl.load(x_rows_ptr + cols, mask=row_mask[:, None, None] & (cols < columns), other=0.0)
            held = held + (x,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
        key = magnitude_key(held[0])
        for piece in tl.static_range(1, PIECES):
            key = tl.maximum(key, magnitude_key(held[piece]))
        key = tl.reduce(tl.reduce(key, 2, larger), 1, larger).to(tl.int32)
        scale = scale_from_amax(magnitude_of_key(key, dtype), FP8_MAX, EPS, POWER_OF_TWO)
        grown = ()
        for piece in tl.static_range(PIECES):
            cols = (piece * BLOCK_K + inner)[None, :, :]
            y = quantize(held[piece], scale[:, None, None], FP8_MAX, values_ptr.dtype.element_ty)
            tl.store(values_rows_ptr + cols, y, mask=row_mask[:, None, None] & (cols < columns))
            column_key = tl.where(counted, magnitude_key(held[piece]), tl.full((1, 1, 1), zero_key(dtype), key_type))
            grown = grown + (tl.maximum(best[piece], tl.reduce(column_key, 0, larger)),)  # noqa: RUF005 - no unpacking
        best = grown
        tl.store(scale_ptr + rows, scale, mask=row_mask)
        tl.store(inverse_ptr + rows, inverse_of(scale), mask=row_mask)
    partial_ptr += (group * programs + tl.program_id(0)).to(tl.int64) * columns
    for piece in tl.static_range(PIECES):
        cols = piece * BLOCK_K + inner
        tl.store(partial_ptr + cols, magnitude_of_key(best[piece].to(tl.int32), dtype), mask=cols < columns)


@triton.jit(do_not_specialize=["partials", "columns"])
def largest_partial_kernel(
    partial_ptr, amax_ptr, partials, columns, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Program (column block, group): ``partial`` ``(groups, partials, columns)`` to ``amax`` ``(groups, columns)``."""
    group = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    partial_ptr += group * partials * columns
    amax = tl.zeros((BLOCK_P, BLOCK_N), tl.float32)
    for first in range(0, partials, BLOCK_P):
        row = first + tl.arange(0, BLOCK_P)[:, None]
        mask = (row < partials) & (column < columns)
        amax = tl.maximum(amax, tl.load(partial_ptr + row.to(tl.int64) * columns + column, mask=mask, other=0.0))
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(amax_ptr + group * columns + column, tl.max(amax, axis=0), mask=column < columns)
