"""Device code of the column-wise quantizer per group: one launch, one read of a group that fits the register tile.

Of the rows of a tile, CHUNK neighbours stay in a lane's registers, the chunks are spread over ROW_LANES lanes and
WAVES waves; of the columns, LANE_COLS (16 bytes) stay in registers. Loads put the column lanes next to each other
(128 bytes of a row), stores the row lanes (64 bytes of a column). A lane's CHUNK bytes of one column are neighbours in
both, so the transposition between the two moves whole words between the lanes of one wave.

Tiles that are loaded or stored have two axes, the contiguous one last, and rows and columns permuted by index
arithmetic so that Triton's layout is the one above. It deals lanes and waves out by contiguity, and which of several
axes without any comes first differs between Triton 3.6 and 3.7: with an axis for each part, 3.6 spreads a load's lanes
over 64 rows and keeps the column lanes in registers.

Two workgroups of 8 waves are resident on a compute unit, and one loads while the other stores, if a lane needs no more
than 128 registers; the held tile takes 64. `issued_here` is what keeps the rest below 64.

Rows are addressed from a multiple of CHUNK, so that a lane's CHUNK bytes are aligned whatever the group bounds are. A
chunk that a group bound cuts is left out there and stored byte by byte afterwards: no two groups write the same byte.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    inside,
    inverse_of,
    issued_here,
    issued_here_scalar,
    larger,
    magnitude_key,
    magnitude_of_key,
    quantize,
    scale_from_amax,
    zero_key,
)


@triton.jit
def load_piece(
    x_ptr, row, start, end, row_stride, columns_left,
    CHUNK: tl.constexpr, WAVES: tl.constexpr, ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Rows row.. of the tile at x_ptr, zero outside [start, end) and beyond the last column.

    The first axis of the result is (register, wave, lane) of the rows, the lane changing fastest.
    """
    CHUNKS: tl.constexpr = WAVES * ROW_LANES
    index = tl.arange(0, CHUNK * CHUNKS)[:, None]
    lane_rows = index % CHUNKS * CHUNK
    register_rows = row + index // CHUNKS
    columns = tl.arange(0, COL_LANES * LANE_COLS)[None, :]
    mask = inside(lane_rows + register_rows, start, end) & (columns < columns_left)
    # Multiplied apart: the part that differs between registers, not lanes, is then scalar arithmetic.
    offsets = (lane_rows * row_stride + columns) + register_rows * row_stride
    return tl.load(x_ptr + offsets, mask=mask, other=0.0)


@triton.jit
def largest_key(x, CHUNK: tl.constexpr):
    """Largest `magnitude_key` of each lane's rows. Kept as narrow as x, so that pairs share registers and maxima."""
    key = magnitude_key(x)
    return tl.reduce(tl.reshape(key, (CHUNK, x.shape[0] // CHUNK, x.shape[1])), 0, larger)


@triton.jit
def _pairs(x):
    """x ``(rows, lanes, columns)`` as a tuple of ``(rows, lanes, 2)``: neighbours of 16 bits share a register."""
    if x.shape[2] == 2:
        out = (x,)
    else:
        low, high = tl.split(tl.permute(tl.reshape(x, (x.shape[0], x.shape[1], 2, x.shape[2] // 2)), (0, 1, 3, 2)))
        out = _pairs(low) + _pairs(high)
    return out


@triton.jit
def store_piece(
    out_ptr, x, scale, row, start, end, column_stride, columns_left, FP8_MAX: tl.constexpr, ON_GFX: tl.constexpr,
    CHUNK: tl.constexpr, WAVES: tl.constexpr, ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Quantize a piece and store it, chunks that are not wholly inside [start, end) left out.

    Two columns of a lane after the other: few fp32 values are in registers at a time, and with the last of them the
    registers of the input are free.
    """
    ROWS: tl.constexpr = CHUNK * WAVES * ROW_LANES
    STORED_ROWS: tl.constexpr = CHUNK * ROW_LANES
    inputs = _pairs(tl.reshape(x, (ROWS, COL_LANES, LANE_COLS)))
    scales = _pairs(tl.reshape(scale, (1, COL_LANES, LANE_COLS)))
    # The first axis of what is stored is (column of the pair, wave, column lane).
    index = tl.arange(0, 2 * WAVES * COL_LANES)[:, None]
    columns = index % COL_LANES * LANE_COLS + index // (COL_LANES * WAVES)
    first = row + index // COL_LANES % WAVES * STORED_ROWS
    within = tl.arange(0, STORED_ROWS)[None, :]
    # Constant over a chunk, so that it does not split the chunk's store.
    chunks = first + within // CHUNK * CHUNK
    whole = (chunks >= start) & (chunks + CHUNK <= end)
    offsets = columns * column_stride + (first + within)
    for pair in tl.static_range(LANE_COLS // 2):
        q = quantize(issued_here(inputs[pair], ON_GFX), scales[pair], FP8_MAX, out_ptr.dtype.element_ty)
        q = tl.permute(tl.reshape(q, (CHUNK, WAVES, ROW_LANES, COL_LANES, 2)), (4, 1, 3, 2, 0))
        q = tl.reshape(q, (2 * WAVES * COL_LANES, STORED_ROWS))
        tl.store(out_ptr + 2 * pair * column_stride + offsets, q, mask=whole & (columns + 2 * pair < columns_left))


@triton.jit
def store_cut_chunk(
    x_ptr, out_ptr, scale, row, start, end, row_stride, column_stride, columns_left,
    FP8_MAX: tl.constexpr, CHUNK: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The rows of the chunk at ``row`` that are inside [start, end), byte by byte; scale is (COLS,)."""
    rows = row + tl.arange(0, CHUNK)[:, None]
    columns = tl.arange(0, COLS)[None, :]
    mask = inside(rows, start, end) & (columns < columns_left)
    x = tl.load(x_ptr + rows * row_stride + columns, mask=mask, other=0.0)
    q = quantize(x, scale[None, :], FP8_MAX, out_ptr.dtype.element_ty)
    tl.store(out_ptr + columns * column_stride + rows, q, mask=mask)


@triton.jit
def store_cut_ends(
    x_ptr, out_ptr, scale, start, end, row_stride, column_stride, columns_left,
    FP8_MAX: tl.constexpr, CHUNK: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The chunks that ``start``, in the first one, and ``end`` cut; ``store_piece`` has left them out."""
    cut = end // CHUNK * CHUNK
    if start > 0:
        store_cut_chunk(x_ptr, out_ptr, scale, 0, start, end, row_stride, column_stride, columns_left, FP8_MAX, CHUNK,
                        COLS)  # fmt: skip
    if (cut < end) & (cut >= start):
        store_cut_chunk(x_ptr + cut.to(tl.int64) * row_stride, out_ptr + cut, scale, 0, 0, end - cut, row_stride,
                        column_stride, columns_left, FP8_MAX, CHUNK, COLS)  # fmt: skip


@triton.jit
def zero_rows(out_ptr, start, end, column_stride, columns_left, CHUNK: tl.constexpr, ROWS: tl.constexpr,
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
    POWER_OF_TWO: tl.constexpr, ON_GFX: tl.constexpr, PIECES: tl.constexpr, CHUNK: tl.constexpr, WAVES: tl.constexpr,
    ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
):  # fmt: skip
    """Program (column block, group); the programs of the last group also zero the rows that no group owns.

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
    end = tl.load(offs_ptr + group)
    # Offsets are the caller's data, which the host never reads: clip them, so that none reaches outside the buffers.
    start = tl.minimum(tl.maximum(start, 0), tokens)
    end = tl.minimum(tl.maximum(end, start), tokens)
    out_ptr += (block * COLS).to(tl.int64) * tokens
    if group == groups - 1:
        rest = end // CHUNK * CHUNK
        zero_rows(out_ptr + rest, end - rest, tokens - rest, tokens, columns_left, CHUNK, PIECE_ROWS, COLS)
    # Row 0 below is the aligned row `base`; 64-bit only here, offsets inside the tile are 32-bit.
    base = start // CHUNK * CHUNK
    out_ptr += base
    start -= base
    end -= base
    x_ptr += base.to(tl.int64) * row_stride + block * COLS
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    key_type: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    best = tl.full((WAVES * ROW_LANES, COLS), zero_key(dtype), key_type)
    # Pieces before the last tile: none if the group fits the tile, as then it is read once.
    before = tl.cdiv(tl.maximum(end - ROWS, 0), PIECE_ROWS)
    for piece in range(before):
        row = piece * PIECE_ROWS
        x = load_piece(x_ptr + row.to(tl.int64) * row_stride, 0, start - row, end - row, row_stride, columns_left,
                  CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        best = tl.maximum(best, largest_key(x, CHUNK))
    # The last tile stays in registers from here to its store.
    row = before * PIECE_ROWS
    held = ()
    for piece in tl.static_range(PIECES):
        x = load_piece(x_ptr + row.to(tl.int64) * row_stride, piece * PIECE_ROWS, start - row, end - row, row_stride,
                  columns_left, CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        held = held + (x,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
        best = tl.maximum(best, largest_key(x, CHUNK))
    best = tl.reduce(best, 0, larger).to(tl.int32)
    scale = scale_from_amax(magnitude_of_key(best, dtype), FP8_MAX, EPS, POWER_OF_TWO)
    for piece in tl.static_range(PIECES):
        store_piece(out_ptr + row, held[piece], scale, piece * PIECE_ROWS, start - row, end - row, tokens, columns_left,
               FP8_MAX, ON_GFX, CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
    # The offsets of the first loop, made anew: kept from there, they would take registers beside the held tile.
    row_stride = issued_here_scalar(row_stride_units, ON_GFX) * COLUMNS_UNIT
    # Backwards: what was read last is what the caches still hold.
    for step in range(before):
        row = (before - 1 - step) * PIECE_ROWS
        x = load_piece(x_ptr + row.to(tl.int64) * row_stride, 0, start - row, end - row, row_stride, columns_left,
                  CHUNK, WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
        store_piece(out_ptr + row, x, scale, 0, start - row, end - row, tokens, columns_left, FP8_MAX, ON_GFX, CHUNK,
               WAVES, ROW_LANES, COL_LANES, LANE_COLS)  # fmt: skip
    store_cut_ends(x_ptr, out_ptr, scale, start, end, row_stride, tokens, columns_left, FP8_MAX, CHUNK, COLS)
    column = tl.arange(0, COLS)
    out = group.to(tl.int64) * columns + block * COLS + column
    tl.store(scale_ptr + out, scale, mask=column < columns_left)
    tl.store(inverse_ptr + out, inverse_of(scale), mask=column < columns_left)
