"""Device code of the column-wise quantizer for few long groups: parts of a group have programs of their own.

One program a group and block of columns leaves most of a GPU idle where there are fewer of them than compute units: a
linear layer has one group. Here each group is cut into parts of whole pieces. The first launch writes the amax of every
part, the second takes the largest and quantizes a part. A maximum does not depend on the order of its arguments, so the
bytes are those of `colwise_per_group_kernel`, whose loads and stores these kernels use.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    inverse_of,
    larger,
    magnitude_of_key,
    scale_from_amax,
    zero_key,
)
from wavecast.kernels.colwise_per_group.kernel import (
    largest_key,
    load_piece,
    store_cut_ends,
    store_piece,
    zero_rows,
)


@triton.jit
def part_of_group(offs_ptr, group, part, parts, tokens, CHUNK: tl.constexpr, PIECE_ROWS: tl.constexpr):
    """(start, end, end of the group) of a part: whole pieces from the chunk in which the group starts."""
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group)
    # Offsets are the caller's data, which the host never reads: clip them, so that none reaches outside the buffers.
    start = tl.minimum(tl.maximum(start, 0), tokens)
    end = tl.minimum(tl.maximum(end, start), tokens)
    base = start // CHUNK * CHUNK
    rows = tl.cdiv(tl.cdiv(end - base, PIECE_ROWS), parts) * PIECE_ROWS
    part_start = tl.minimum(base + part * rows, end)
    part_end = tl.minimum(part_start + rows, end)
    return tl.maximum(part_start, start), part_end, end


# Sizes are not specialised: a new number of tokens must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["tokens_units", "columns_units", "row_stride_units", "groups"])
def column_amax_kernel(
    x_ptr, offs_ptr, partial_ptr, tokens_units, columns_units, row_stride_units, groups,
    TOKENS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, CHUNK: tl.constexpr, WAVES: tl.constexpr,
    ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, part, group): amax of its columns, into ``(groups, parts, columns)`` fp32."""
    COLS: tl.constexpr = COL_LANES * LANE_COLS
    PIECE_ROWS: tl.constexpr = CHUNK * WAVES * ROW_LANES
    columns = columns_units * COLUMNS_UNIT
    row_stride = row_stride_units * COLUMNS_UNIT
    block = tl.program_id(0)
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    group = tl.program_id(2)
    columns_left = columns - block * COLS
    start, end, _ = part_of_group(offs_ptr, group, part, parts, tokens_units * TOKENS_UNIT, CHUNK, PIECE_ROWS)
    x_ptr += start.to(tl.int64) * row_stride + block * COLS
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    key_type: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    best = tl.full((WAVES * ROW_LANES, COLS), zero_key(dtype), key_type)
    for row in range(0, end - start, PIECE_ROWS):
        x = load_piece(x_ptr + row.to(tl.int64) * row_stride, 0, 0, end - start - row, row_stride, columns_left,
                       CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        best = tl.maximum(best, largest_key(x, CHUNK))
    amax = magnitude_of_key(tl.reduce(best, 0, larger).to(tl.int32), dtype)
    column = tl.arange(0, COLS)
    out = (group * parts + part).to(tl.int64) * columns + block * COLS + column
    tl.store(partial_ptr + out, amax, mask=column < columns_left)


@triton.jit(do_not_specialize=["partials", "tokens_units", "columns_units", "row_stride_units", "groups"])
def column_cast_kernel(
    x_ptr, offs_ptr, partial_ptr, out_ptr, scale_ptr, inverse_ptr, partials, tokens_units, columns_units,
    row_stride_units, groups,
    TOKENS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr, ON_GFX: tl.constexpr, CHUNK: tl.constexpr, WAVES: tl.constexpr,
    ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, part, group), last parts first: what the other launch read last is what caches still hold.

    The scale is that of the largest of ``partial`` ``(groups, partials, columns)``. Each part of the last group also
    zeroes its share of the rows that no group owns.
    """
    COLS: tl.constexpr = COL_LANES * LANE_COLS
    PIECE_ROWS: tl.constexpr = CHUNK * WAVES * ROW_LANES
    tokens = tokens_units * TOKENS_UNIT
    columns = columns_units * COLUMNS_UNIT
    row_stride = row_stride_units * COLUMNS_UNIT
    block = tl.program_id(0)
    parts = tl.num_programs(1)
    part = parts - 1 - tl.program_id(1)
    group = groups - 1 - tl.program_id(2)
    columns_left = columns - block * COLS
    column = tl.arange(0, COLS)
    within = column < columns_left
    partial_ptr += (group * partials).to(tl.int64) * columns + block * COLS
    amax = tl.zeros((COLS,), tl.float32)
    for index in range(partials):
        amax = tl.maximum(amax, tl.load(partial_ptr + index.to(tl.int64) * columns + column, mask=within, other=0.0))
    scale = scale_from_amax(amax, FP8_MAX, EPS, POWER_OF_TWO)
    start, end, group_end = part_of_group(offs_ptr, group, part, parts, tokens, CHUNK, PIECE_ROWS)
    out_ptr += (block * COLS).to(tl.int64) * tokens
    if group == groups - 1:
        first = group_end // CHUNK * CHUNK
        share = tl.cdiv(tl.cdiv(tokens - first, CHUNK), parts) * CHUNK
        zero_start = tl.maximum(tl.minimum(first + part * share, tokens), group_end)
        zero_end = tl.minimum(first + (part + 1) * share, tokens)
        rest = zero_start // CHUNK * CHUNK
        zero_rows(out_ptr + rest, zero_start - rest, tl.maximum(zero_end, zero_start) - rest, tokens, columns_left,
                  CHUNK, PIECE_ROWS, COLS)  # fmt: skip
    # Row 0 below is the aligned row `base`; 64-bit only here, offsets inside a piece are 32-bit.
    base = start // CHUNK * CHUNK
    out_ptr += base
    start -= base
    end -= base
    x_ptr += base.to(tl.int64) * row_stride + block * COLS
    for row in range(0, end, PIECE_ROWS):
        x = load_piece(x_ptr + row.to(tl.int64) * row_stride, 0, start - row, end - row, row_stride, columns_left,
                       CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        store_piece(out_ptr + row, x, scale, 0, start - row, end - row, tokens, columns_left, FP8_MAX, ON_GFX, CHUNK,
                    WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
    store_cut_ends(x_ptr, out_ptr, scale, start, end, row_stride, tokens, columns_left, FP8_MAX, CHUNK, COLS)
    if part == 0:
        out = group.to(tl.int64) * columns + block * COLS + column
        tl.store(scale_ptr + out, scale, mask=within)
        tl.store(inverse_ptr + out, inverse_of(scale), mask=within)
