"""Device code of the column-wise quantizer per group: one launch, one read of a group that fits the register tile.

A tile is ``(CHUNK rows, WAVES, ROW_LANES, COL_LANES, LANE_COLS)``. Of the row index, the CHUNK lowest values stay in a
lane's registers, ROW_LANES are spread over lanes and WAVES over waves; of the column index, LANE_COLS (16 bytes) stay
in registers. Loads put the column lanes next to each other (128 bytes of a row), stores the row lanes (64 bytes of a
column). A lane's CHUNK bytes of one column are neighbours in both, so the transposition between the two moves whole
words between the lanes of one wave.

Rows are addressed from a multiple of CHUNK, so that a lane's CHUNK bytes are aligned whatever the group bounds are. A
chunk that a group bound cuts is left out there and stored byte by byte afterwards: no two groups write the same byte.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    inside,
    inverse_of,
    larger,
    magnitude_key,
    magnitude_of_key,
    scale_and_saturate,
    scale_from_amax,
    zero_key,
)


@triton.jit
def _load(
    x_ptr, row, start, end, row_stride, columns_left,
    CHUNK: tl.constexpr, WAVES: tl.constexpr, ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Rows row.. of the tile at x_ptr, zero outside [start, end) and beyond the last column."""
    lane_rows = (tl.arange(0, WAVES) * (ROW_LANES * CHUNK))[None, :, None, None, None]
    lane_rows += (tl.arange(0, ROW_LANES) * CHUNK)[None, None, :, None, None]
    register_rows = row + tl.arange(0, CHUNK)[:, None, None, None, None]
    columns = (tl.arange(0, COL_LANES) * LANE_COLS)[None, None, None, :, None] + tl.arange(0, LANE_COLS)
    mask = inside(lane_rows + register_rows, start, end) & (columns < columns_left)
    # Multiplied apart: the part that differs between registers, not lanes, is then scalar arithmetic.
    offsets = (lane_rows * row_stride + columns) + register_rows * row_stride
    return tl.load(x_ptr + offsets, mask=mask, other=0.0)


@triton.jit
def _store(
    out_ptr, x, scale, row, start, end, column_stride, columns_left, FP8_MAX: tl.constexpr,
    CHUNK: tl.constexpr, WAVES: tl.constexpr, ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Quantize a piece and store it, chunks that are not wholly inside [start, end) left out.

    Even and odd columns one after the other: half as many fp32 values are in registers at a time.
    """
    PAIRS: tl.constexpr = LANE_COLS // 2
    halves = tl.split(tl.reshape(x, (CHUNK, WAVES, ROW_LANES, COL_LANES, PAIRS, 2)))
    scales = tl.split(tl.reshape(scale, (COL_LANES, PAIRS, 2)))
    chunks = (
        row
        + (tl.arange(0, WAVES) * (ROW_LANES * CHUNK))[None, :, None, None, None]
        + (tl.arange(0, ROW_LANES) * CHUNK)[None, None, None, :, None]
    )
    columns = (tl.arange(0, COL_LANES) * LANE_COLS)[None, None, :, None, None]
    columns += (tl.arange(0, PAIRS) * 2)[:, None, None, None, None]
    # Constant over a chunk, so that it does not split the chunk's store.
    whole = (chunks >= start) & (chunks + CHUNK <= end)
    offsets = columns * column_stride + (chunks + tl.arange(0, CHUNK))
    for odd in tl.static_range(2):
        q = scale_and_saturate(halves[odd], scales[odd][None, None, None, :, :], FP8_MAX).to(out_ptr.dtype.element_ty)
        q = tl.permute(q, (4, 1, 3, 2, 0))
        tl.store(out_ptr + odd * column_stride + offsets, q, mask=whole & (columns + odd < columns_left))


@triton.jit
def _store_cut_chunk(
    x_ptr, out_ptr, scale, row, start, end, row_stride, column_stride, columns_left,
    FP8_MAX: tl.constexpr, CHUNK: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The rows of the chunk at ``row`` that are inside [start, end), byte by byte; scale is (COLS,)."""
    rows = row + tl.arange(0, CHUNK)[:, None]
    columns = tl.arange(0, COLS)[None, :]
    mask = inside(rows, start, end) & (columns < columns_left)
    x = tl.load(x_ptr + rows * row_stride + columns, mask=mask, other=0.0)
    q = scale_and_saturate(x, scale[None, :], FP8_MAX).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + columns * column_stride + rows, q, mask=mask)


@triton.jit
def _zero_rows(out_ptr, start, end, column_stride, columns_left, CHUNK: tl.constexpr, ROWS: tl.constexpr,
               COLS: tl.constexpr):  # fmt: skip
    """Zero rows [start, end) of COLS columns: whole chunks as vectors, then the chunk that ``start`` cuts."""
    columns = tl.arange(0, COLS)[:, None]
    value = tl.zeros((COLS, CHUNK), tl.float32).to(out_ptr.dtype.element_ty)
    first = tl.cdiv(start, CHUNK) * CHUNK
    for row in range(first, end, ROWS):
        chunks = row + (tl.arange(0, ROWS // CHUNK) * CHUNK)[None, :, None]
        rows = chunks + tl.arange(0, CHUNK)[None, None, :]
        mask = (chunks + CHUNK <= end) & (columns[:, :, None] < columns_left)
        tl.store(out_ptr + columns[:, :, None] * column_stride + rows, value[:, None, :], mask=mask)
    # A column ends inside a chunk when the number of tokens is no multiple of it.
    last = tl.maximum(end // CHUNK * CHUNK, start)
    for bound in tl.static_range(2):
        rows = (last if bound else start) + tl.arange(0, CHUNK)[None, :]
        mask = (rows < (end if bound else tl.minimum(first, end))) & (columns < columns_left)
        tl.store(out_ptr + columns * column_stride + rows, value, mask=mask)


# Sizes are not specialised: a new number of tokens must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["tokens_units", "columns_units", "row_stride_units", "groups"])
def colwise_per_group_kernel(
    x_ptr, offs_ptr, out_ptr, scale_ptr, inverse_ptr, tokens_units, columns_units, row_stride_units, groups,
    TOKENS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr, PIECES: tl.constexpr, CHUNK: tl.constexpr, WAVES: tl.constexpr,
    ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, group); the program one beyond the last group zeroes the rows that no group owns.

    Sizes and strides come in units whose size is a constexpr: that is how the compiler knows their alignment.
    """
    COLS: tl.constexpr = COL_LANES * LANE_COLS
    PIECE_ROWS: tl.constexpr = CHUNK * WAVES * ROW_LANES
    ROWS: tl.constexpr = PIECES * PIECE_ROWS
    tokens = tokens_units * TOKENS_UNIT
    columns = columns_units * COLUMNS_UNIT
    row_stride = row_stride_units * COLUMNS_UNIT
    block = tl.program_id(0)
    group = tl.program_id(1)
    columns_left = columns - block * COLS
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group, mask=group < groups, other=tokens)
    # Offsets are the caller's data, which the host never reads: clip them, so that none reaches outside the buffers.
    start = tl.minimum(tl.maximum(start, 0), tokens)
    end = tl.minimum(tl.maximum(end, start), tokens)
    # Row 0 below is the aligned row `base`; 64-bit only here, offsets inside the tile are 32-bit.
    base = start // CHUNK * CHUNK
    out_ptr += (block * COLS).to(tl.int64) * tokens + base
    start -= base
    end -= base
    if group == groups:
        _zero_rows(out_ptr, start, end, tokens, columns_left, CHUNK, PIECE_ROWS, COLS)
    else:
        x_ptr += base.to(tl.int64) * row_stride + block * COLS
        dtype: tl.constexpr = x_ptr.dtype.element_ty
        best = tl.full((WAVES, ROW_LANES, COL_LANES, LANE_COLS), zero_key(dtype), tl.int32)
        # Pieces before the last tile: none if the group fits the tile, as then it is read once.
        before = tl.maximum(tl.cdiv(end, ROWS) - 1, 0) * PIECES
        for piece in range(before):
            row = piece * PIECE_ROWS
            x = _load(x_ptr + row.to(tl.int64) * row_stride, 0, start - row, end - row, row_stride, columns_left,
                      CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
            best = tl.maximum(best, tl.reduce(magnitude_key(x), 0, larger).to(tl.int32))
        # The last tile stays in registers from here to its store.
        row = before * PIECE_ROWS
        held = ()
        for piece in tl.static_range(PIECES):
            x = _load(x_ptr + row.to(tl.int64) * row_stride, piece * PIECE_ROWS, start - row, end - row, row_stride,
                      columns_left, CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
            held = held + (x,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
            best = tl.maximum(best, tl.reduce(magnitude_key(x), 0, larger).to(tl.int32))
        best = tl.reduce(tl.reduce(best, 1, larger), 0, larger)
        scale = scale_from_amax(magnitude_of_key(best, dtype), FP8_MAX, EPS, POWER_OF_TWO)
        for piece in tl.static_range(PIECES):
            _store(out_ptr + row, held[piece], scale, piece * PIECE_ROWS, start - row, end - row, tokens, columns_left,
                   FP8_MAX, CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        # Backwards: what was read last is what the caches still hold.
        for step in range(before):
            row = (before - 1 - step) * PIECE_ROWS
            x = _load(x_ptr + row.to(tl.int64) * row_stride, 0, start - row, end - row, row_stride, columns_left,
                      CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
            _store(out_ptr + row, x, scale, 0, start - row, end - row, tokens, columns_left, FP8_MAX, CHUNK, WAVES,
                   ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        scale = tl.reshape(scale, (COLS,))
        cut = end // CHUNK * CHUNK
        if start > 0:
            _store_cut_chunk(x_ptr, out_ptr, scale, 0, start, end, row_stride, tokens, columns_left, FP8_MAX, CHUNK,
                             COLS)  # fmt: skip
        if (cut < end) & (cut >= start):
            _store_cut_chunk(x_ptr + cut.to(tl.int64) * row_stride, out_ptr + cut, scale, 0, 0, end - cut, row_stride,
                             tokens, columns_left, FP8_MAX, CHUNK, COLS)  # fmt: skip
        column = tl.arange(0, COLS)
        out = group.to(tl.int64) * columns + block * COLS + column
        tl.store(scale_ptr + out, scale, mask=column < columns_left)
        tl.store(inverse_ptr + out, inverse_of(scale), mask=column < columns_left)
