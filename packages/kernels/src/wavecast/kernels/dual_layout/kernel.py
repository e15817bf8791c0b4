"""Device code that quantizes a matrix row-wise and, per group of rows, column-wise, from tiles that both share.

A row's scale needs the whole row, a column's the whole group, so each value is read twice: `_measure` takes the maxima
of a tile's rows and columns, `_convert` reads the tile again, from a cache if it comes soon enough, and writes it in
both layouts. Between the two, maxima of tiles are joined by an atomic maximum over magnitude keys: integers, so that
the result does not depend on the order, and relaxed, since nobody reads them before all are there.

A tile has TILE_ROWS rows at a multiple of TILE_ROWS, wherever groups start and end. It is worked on once for each
group that it has rows of, nearly always one. The rows behind the last group count as one more group, whose columns are
zero and have no scale.

A lane reads 16 bytes of a row. Of PACK rows it joins the bytes of one column into a word before the lanes change from
running along rows to running along columns, so that the exchange through LDS (shared memory) moves whole words.
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


@triton.jit(do_not_specialize=["zeros", "rows", "groups", "tiles"])
def prepare_kernel(
    zeros_ptr, zeros, offs_ptr, bounds_ptr, spans_ptr, rows, groups, tiles,
    TILE_ROWS: tl.constexpr, GROUPED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program i zeroes BLOCK words, and computes bound i of the groups and the groups of row tile i.

    The caller's offsets are clipped to the rows and made non-decreasing here: whatever they are, all later programs see
    the same bounds ``0 = bounds[0] <= ... <= bounds[groups + 1] = rows``.
    """
    i = tl.program_id(0)
    index = i * BLOCK + tl.arange(0, BLOCK)
    tl.store(zeros_ptr + index, tl.zeros((BLOCK,), tl.int32), mask=index < zeros)
    if GROUPED:
        top = tl.minimum(i * TILE_ROWS, rows)
        bottom = tl.minimum(top + TILE_ROWS, rows)
        latest = tl.zeros((BLOCK,), tl.int32)
        reaches_top = tl.full((BLOCK,), 0, tl.int32) + groups
        reaches_bottom = reaches_top
        for block in range(0, groups, BLOCK):
            group = block + tl.arange(0, BLOCK)
            end = tl.load(offs_ptr + group, mask=group < groups, other=0)
            latest = tl.maximum(latest, tl.where(group < i, end, 0))
            known = group < groups
            reaches_top = tl.minimum(reaches_top, tl.where(known & (end >= top), group, groups))
            reaches_bottom = tl.minimum(reaches_bottom, tl.where(known & (end >= bottom), group, groups))
        first = tl.min(reaches_top, 0)
        last = tl.min(reaches_bottom, 0)
        # A group that ends where the tile starts belongs to the tile before.
        first += (first < groups) & (tl.load(offs_ptr + first, mask=first < groups, other=-1) == top)
        first = tl.where(i == 0, 0, first)
        last = tl.where(i == tiles - 1, groups, last)
        tl.store(spans_ptr + 2 * i, first, mask=i < tiles)
        tl.store(spans_ptr + 2 * i + 1, last, mask=i < tiles)
        bound = tl.where(i == groups + 1, rows, tl.minimum(tl.max(latest, 0), rows))
        tl.store(bounds_ptr + i, bound, mask=i <= groups + 1)


@triton.jit
def _measure(
    x_ptr, row_keys_ptr, column_keys_ptr, start, end, owned, row_stride, columns_left,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Raise the keys of rows [start, end) of a tile, and, if the rows are ``owned`` by a group, of its columns."""
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    key_type: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    PIECE_ROWS: tl.constexpr = TILE_ROWS // PIECES
    columns = tl.arange(0, TILE_COLS)
    pieces = ()
    for piece in tl.static_range(PIECES):
        rows = piece * PIECE_ROWS + tl.arange(0, PIECE_ROWS)
        mask = inside(rows, start, end)[:, None] & (columns < columns_left)[None, :]
        x = tl.load(x_ptr + rows[:, None] * row_stride + columns[None, :], mask=mask, other=0.0)
        pieces = pieces + (x,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
    best = tl.full((PIECE_ROWS, TILE_COLS), zero_key(dtype), key_type)
    for piece in tl.static_range(PIECES):
        key = magnitude_key(pieces[piece])
        best = tl.maximum(best, key)
        rows = piece * PIECE_ROWS + tl.arange(0, PIECE_ROWS)
        row_key = tl.reduce(key, 1, larger).to(tl.int32)
        tl.atomic_max(row_keys_ptr + rows, row_key, mask=inside(rows, start, end), sem="relaxed")
    column_key = tl.reduce(best, 0, larger).to(tl.int32)
    tl.atomic_max(column_keys_ptr + columns, column_key, mask=owned & (columns < columns_left), sem="relaxed")


@triton.jit
def _store_cut_chunk(
    x_ptr, out_ptr, scale, row, start, end, owned, row_stride, column_stride, columns_left,
    FP8: tl.constexpr, FP8_MAX: tl.constexpr, CHUNK: tl.constexpr, TILE_COLS: tl.constexpr,
):  # fmt: skip
    """The rows of the chunk at ``row`` that are inside [start, end), column by column, byte by byte."""
    rows = (row + tl.arange(0, CHUNK))[:, None]
    columns = tl.arange(0, TILE_COLS)[None, :]
    mask = inside(rows, start, end) & (columns < columns_left)
    x = tl.load(x_ptr + rows * row_stride + columns, mask=mask & owned, other=0.0)
    code = scale_and_saturate(x, scale[None, :], FP8_MAX).to(FP8).to(tl.uint8, bitcast=True)
    tl.store(out_ptr + columns * column_stride + rows, code, mask=mask)


@triton.jit
def _convert(
    x_ptr, row_bytes_ptr, column_bytes_ptr, row_keys_ptr, column_keys_ptr, start, end, owned,
    row_stride, columns, columns_left, column_stride_units, COLUMN_STRIDE_UNIT: tl.constexpr,
    FP8: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PACK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Write rows [start, end) of a tile in both layouts. Columns that no group owns are zero.

    Returns:
        the scales of the columns.
    """
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    WORD: tl.constexpr = tl.int32 if PACK == 4 else tl.uint8
    WORDS: tl.constexpr = TILE_ROWS // PACK
    column = tl.arange(0, TILE_COLS)
    column_mask = column < columns_left
    word_index = tl.arange(0, WORDS)
    tiles = ()
    for j in tl.static_range(PACK):
        rows = word_index * PACK + j
        mask = inside(rows, start, end)[:, None] & column_mask[None, :]
        x = tl.load(x_ptr + rows[:, None] * row_stride + column[None, :], mask=mask, other=0.0)
        tiles = tiles + (x,)  # noqa: RUF005 - as above
    column_key = tl.load(column_keys_ptr + column, mask=owned & column_mask, other=0)
    column_scale = scale_from_amax(magnitude_of_key(column_key, dtype), FP8_MAX, EPS, POWER_OF_TWO)
    word = tl.zeros((WORDS, TILE_COLS), WORD)
    for j in tl.static_range(PACK):
        rows = word_index * PACK + j
        row_mask = inside(rows, start, end)
        row_key = tl.load(row_keys_ptr + rows, mask=row_mask, other=0)
        row_scale = scale_from_amax(magnitude_of_key(row_key, dtype), FP8_MAX, EPS, POWER_OF_TWO)
        code = scale_and_saturate(tiles[j], row_scale[:, None], FP8_MAX).to(FP8).to(tl.uint8, bitcast=True)
        out = row_bytes_ptr + rows[:, None] * columns + column[None, :]
        tl.store(out, code, mask=row_mask[:, None] & column_mask[None, :])
        code = scale_and_saturate(tiles[j], column_scale[None, :], FP8_MAX).to(FP8).to(tl.uint8, bitcast=True)
        word = word | (code.to(WORD) << (8 * j))
    word = tl.where(owned, word, 0)
    # Constant over a chunk, so that it does not split the chunk's store.
    chunk = word_index * PACK // CHUNK * CHUNK
    whole = (chunk >= start) & (chunk + CHUNK <= end)
    word_stride = column_stride_units * (COLUMN_STRIDE_UNIT // PACK)
    words_ptr = column_bytes_ptr.to(tl.pointer_type(WORD))
    tl.store(
        words_ptr + column[None, :] * word_stride + word_index[:, None],
        word,
        mask=whole[:, None] & column_mask[None, :],
    )
    # Chunks that a bound cuts: each group writes its own bytes of them.
    column_stride = column_stride_units * COLUMN_STRIDE_UNIT
    head = start // CHUNK * CHUNK
    tail = end // CHUNK * CHUNK
    if head < start:
        _store_cut_chunk(x_ptr, column_bytes_ptr, column_scale, head, start, end, owned, row_stride, column_stride,
                         columns_left, FP8, FP8_MAX, CHUNK, TILE_COLS)  # fmt: skip
    if (tail < end) & ((tail > head) | (head == start)):
        _store_cut_chunk(x_ptr, column_bytes_ptr, column_scale, tail, start, end, owned, row_stride, column_stride,
                         columns_left, FP8, FP8_MAX, CHUNK, TILE_COLS)  # fmt: skip
    return column_scale


@triton.jit
def _span(spans_ptr, row_tile, GROUPED: tl.constexpr):
    """First and last group of a row tile."""
    if GROUPED:
        first, last = tl.load(spans_ptr + 2 * row_tile), tl.load(spans_ptr + 2 * row_tile + 1)
    else:
        first, last = 0, 0
    return first, last


@triton.jit
def _bounds(bounds_ptr, group, rows, GROUPED: tl.constexpr):
    """Start and end of a group."""
    if GROUPED:
        start, end = tl.load(bounds_ptr + group), tl.load(bounds_ptr + group + 1)
    else:
        start, end = 0, rows
    return start, end


@triton.jit
def _measure_tile(
    x_ptr, row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr, batch, row_tile, column_tile, rows, columns,
    row_stride, groups, GROUPED: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Raise the keys of the rows and columns of one tile."""
    top = row_tile * TILE_ROWS
    left = column_tile * TILE_COLS
    tile_rows = tl.minimum(rows - top, TILE_ROWS)
    row = batch.to(tl.int64) * rows + top
    x_ptr += row * row_stride + left
    first, last = _span(spans_ptr, row_tile, GROUPED)
    for group in range(first, last + 1):
        start, end = _bounds(bounds_ptr, group, rows, GROUPED)
        keys = column_keys_ptr + (batch.to(tl.int64) * groups + group) * columns + left
        _measure(
            x_ptr, row_keys_ptr + row, keys, tl.maximum(start - top, 0), tl.minimum(end - top, tile_rows),
            group < groups, row_stride, columns - left, TILE_ROWS, TILE_COLS, PIECES,
        )  # fmt: skip


@triton.jit
def _convert_tile(
    x_ptr, row_bytes_ptr, row_scale_ptr, row_inverse_ptr, column_bytes_ptr, column_scale_ptr, column_inverse_ptr,
    row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr, batch, row_tile, column_tile, rows_units, columns,
    row_stride, groups, ROWS_UNIT: tl.constexpr, GROUPED: tl.constexpr,
    FP8: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PACK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Write one tile in both layouts; some tiles also write scales: of their rows, of groups that start in them."""
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    rows = rows_units * ROWS_UNIT
    top = row_tile * TILE_ROWS
    left = column_tile * TILE_COLS
    tile_rows = tl.minimum(rows - top, TILE_ROWS)
    row = batch.to(tl.int64) * rows + top
    x_ptr += row * row_stride + left
    row_bytes_ptr += row * columns + left
    column_bytes_ptr += (batch.to(tl.int64) * columns + left) * rows + top
    column = tl.arange(0, TILE_COLS)
    first, last = _span(spans_ptr, row_tile, GROUPED)
    for group in range(first, last + 1):
        start, end = _bounds(bounds_ptr, group, rows, GROUPED)
        keys = (batch.to(tl.int64) * groups + group) * columns + left
        scale = _convert(
            x_ptr, row_bytes_ptr, column_bytes_ptr, row_keys_ptr + row, column_keys_ptr + keys,
            tl.maximum(start - top, 0), tl.minimum(end - top, tile_rows), group < groups, row_stride, columns,
            columns - left, rows_units, ROWS_UNIT, FP8, FP8_MAX, EPS, POWER_OF_TWO, TILE_ROWS, TILE_COLS, PACK, CHUNK,
        )  # fmt: skip
        # Of a group's tiles, the one that it starts in: the span of a tile has no group that starts below it.
        mask = (start >= top) & (group < groups) & (column < columns - left)
        tl.store(column_scale_ptr + keys + column, scale, mask=mask)
        tl.store(column_inverse_ptr + keys + column, inverse_of(scale), mask=mask)
    if column_tile == 0:
        index = tl.arange(0, TILE_ROWS)
        key = tl.load(row_keys_ptr + row + index, mask=index < tile_rows, other=0)
        scale = scale_from_amax(magnitude_of_key(key, dtype), FP8_MAX, EPS, POWER_OF_TWO)
        tl.store(row_scale_ptr + row + index, scale, mask=index < tile_rows)
        tl.store(row_inverse_ptr + row + index, inverse_of(scale), mask=index < tile_rows)


# Sizes are not specialised: a new number of rows must not compile anew. What matters is in the UNIT constexprs.
_SIZES = ["rows_units", "columns_units", "row_stride_units", "groups", "row_tiles", "column_tiles"]


@triton.jit(do_not_specialize=_SIZES)
def measure_kernel(
    x_ptr, row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr,
    rows_units, columns_units, row_stride_units, groups, row_tiles, column_tiles,
    ROWS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, GROUPED: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Program i raises the keys of tile i: batch, row tile, column tile, the last changing fastest."""
    tile = tl.program_id(0)
    _measure_tile(
        x_ptr, row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr,
        tile // column_tiles // row_tiles, tile // column_tiles % row_tiles, tile % column_tiles,
        rows_units * ROWS_UNIT, columns_units * COLUMNS_UNIT, row_stride_units * COLUMNS_UNIT, groups,
        GROUPED, TILE_ROWS, TILE_COLS, PIECES,
    )  # fmt: skip


@triton.jit(do_not_specialize=_SIZES)
def convert_kernel(
    x_ptr, row_bytes_ptr, row_scale_ptr, row_inverse_ptr, column_bytes_ptr, column_scale_ptr, column_inverse_ptr,
    row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr,
    rows_units, columns_units, row_stride_units, groups, row_tiles, column_tiles,
    ROWS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, GROUPED: tl.constexpr,
    FP8: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr, PACK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Program i writes tile i, numbered as in `measure_kernel`, whose keys are complete."""
    tile = tl.program_id(0)
    _convert_tile(
        x_ptr, row_bytes_ptr, row_scale_ptr, row_inverse_ptr, column_bytes_ptr, column_scale_ptr, column_inverse_ptr,
        row_keys_ptr, column_keys_ptr, bounds_ptr, spans_ptr,
        tile // column_tiles // row_tiles, tile // column_tiles % row_tiles, tile % column_tiles,
        rows_units, columns_units * COLUMNS_UNIT, row_stride_units * COLUMNS_UNIT, groups, ROWS_UNIT,
        GROUPED, FP8, FP8_MAX, EPS, POWER_OF_TWO, TILE_ROWS, TILE_COLS, PACK, CHUNK,
    )  # fmt: skip
