"""Device code of the transposing copy."""

from __future__ import annotations

import triton
import triton.language as tl


# Sizes are not specialised: a new number of rows must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["rows_units", "columns_units", "row_stride_units", "row_tiles", "column_tiles"])
def transpose_kernel(
    x_ptr, out_ptr, batch_stride, rows_units, columns_units, row_stride_units, row_tiles, column_tiles,
    ROWS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_COLS: tl.constexpr,
    PACK: tl.constexpr,
):  # fmt: skip
    """out[b, c, r] = x[b, r, c] for one tile of one matrix.

    Values are integers of 8, 16 or 32 bits. Of PACK rows the values of one column are joined into a word of 32 bits
    before the lanes change from running along rows to running along columns: the exchange through LDS (shared memory)
    moves whole words.

    Args:
        x_ptr: matrices whose rows are contiguous.
        out_ptr: as many (columns, rows), contiguous.
        batch_stride: values from one matrix to the next.
        rows_units, columns_units, row_stride_units: rows and columns of a matrix, and values from one row to the next,
            in units of ROWS_UNIT and COLUMNS_UNIT.
        row_tiles, column_tiles: tiles of a matrix.
    """
    WORDS: tl.constexpr = TILE_ROWS // PACK
    tile = tl.program_id(0)
    batch = tile // (row_tiles * column_tiles)
    top = tile // column_tiles % row_tiles * TILE_ROWS
    left = tile % column_tiles * TILE_COLS
    columns_left = columns_units * COLUMNS_UNIT - left
    words_left = rows_units * (ROWS_UNIT // PACK) - top // PACK
    row_stride = row_stride_units * COLUMNS_UNIT
    x_ptr += batch.to(tl.int64) * batch_stride + top.to(tl.int64) * row_stride + left
    index = tl.arange(0, WORDS)[:, None]
    column = tl.arange(0, TILE_COLS)[None, :]
    mask = (index < words_left) & (column < columns_left)
    if PACK == 1:
        word = tl.load(x_ptr + index * row_stride + column, mask=mask)
    else:
        BITS: tl.constexpr = 32 // PACK
        word = tl.zeros((WORDS, TILE_COLS), tl.int32)
        for j in tl.static_range(PACK):
            x = tl.load(x_ptr + (index * PACK + j) * row_stride + column, mask=mask, other=0).to(tl.int32)
            word = word | ((x & ((1 << BITS) - 1)) << (BITS * j))
    words_ptr = out_ptr.to(tl.pointer_type(word.dtype))
    column_words = rows_units * (ROWS_UNIT // PACK)
    first = batch.to(tl.int64) * columns_units * COLUMNS_UNIT + left
    words_ptr += first * column_words + top // PACK
    tl.store(words_ptr + column * column_words + index, word, mask=mask)
