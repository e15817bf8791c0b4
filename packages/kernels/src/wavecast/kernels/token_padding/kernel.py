"""Device code that moves the rows of token groups between a dense and a padded tensor.

The rows of a group move by what the groups before it have been padded by, which grows from group to group. So a row's
shift is a maximum over the groups that end at or before it, and the end of its own group a minimum over the others:
every program looks at all offsets once, and needs no search and no other launch.

Values are moved as integers, whatever they mean. Sizes along a row are in vectors, rows are at 64-bit addresses.
"""

from __future__ import annotations

import triton
import triton.language as tl

NO_ROW = tl.constexpr(2**31 - 1)
"""Above every row index."""


@triton.jit
def _groups(offs_ptr, group, groups, tokens):
    """Start and end of groups in the dense tensor, clipped to its rows, and which of the groups exist."""
    exists = group < groups
    start = tl.load(offs_ptr + group - 1, mask=exists & (group > 0), other=0)
    end = tl.load(offs_ptr + group, mask=exists, other=0)
    start = tl.minimum(tl.maximum(start, 0), tokens)
    return start, tl.minimum(tl.maximum(end, start), tokens), exists


@triton.jit
def _move(
    x_ptr, out_ptr, x_row, out_row, x_rows, out_rows, column_tile, vectors, x_row_stride,
    TILE_VECTORS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Copy rows ``x_row`` to ``out_row``, zero where ``x_rows`` is false; nothing is written where ``out_rows`` is."""
    vector = column_tile * TILE_VECTORS + tl.arange(0, TILE_VECTORS)[None, :, None]
    columns = vector * VECTOR + tl.arange(0, VECTOR)[None, None, :]
    in_row = vector < vectors
    x_start = (x_row.to(tl.int64) * x_row_stride * VECTOR)[:, None, None]
    x = tl.load(x_ptr + x_start + columns, mask=x_rows[:, None, None] & in_row, other=0)
    out_start = (out_row.to(tl.int64) * vectors * VECTOR)[:, None, None]
    tl.store(out_ptr + out_start + columns, x, mask=out_rows[:, None, None] & in_row)


# Sizes are not specialised: a new number of tokens must not compile anew. Alignment is in VECTOR.
@triton.jit(do_not_specialize=["groups", "tokens", "rows", "vectors", "x_row_stride"])
def pad_kernel(
    x_ptr, offs_ptr, out_ptr, padded_offs_ptr, groups, tokens, rows, vectors, x_row_stride,
    MULTIPLE: tl.constexpr, GROUP_BLOCK: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
):  # fmt: skip
    """Write TILE_ROWS rows of the padded tensor; the first program also writes the padded offsets.

    TILE_ROWS divides MULTIPLE, so that all rows of a tile belong to one group.
    """
    column_tiles = tl.maximum(tl.cdiv(vectors, TILE_VECTORS), 1)
    first = tl.program_id(0) // column_tiles * TILE_ROWS
    shift = 0
    stop = NO_ROW
    padded = 0
    for block in range(0, groups, GROUP_BLOCK):
        group = block + tl.arange(0, GROUP_BLOCK)
        start, end, exists = _groups(offs_ptr, group, groups, tokens)
        size = tl.cdiv(end - start, MULTIPLE) * MULTIPLE
        padded_end = padded + tl.cumsum(size, 0)
        padded += tl.sum(size, 0)
        ended = padded_end <= first
        shift = tl.maximum(shift, tl.max(tl.where(ended & exists, padded_end - end, 0), 0))
        stop = tl.minimum(stop, tl.min(tl.where(ended | (group >= groups), NO_ROW, end), 0))
        if tl.program_id(0) == 0:
            tl.store(padded_offs_ptr + group, padded_end, mask=exists)
    # Behind the last group, where no group is left to stop at.
    stop = tl.where(first < padded, stop, 0)
    row = first + tl.arange(0, TILE_ROWS)
    x_row = row - shift
    _move(x_ptr, out_ptr, x_row, row, (x_row >= 0) & (x_row < stop), row < rows, tl.program_id(0) % column_tiles,
          vectors, x_row_stride, TILE_VECTORS, VECTOR)  # fmt: skip


@triton.jit(do_not_specialize=["groups", "tokens", "rows", "vectors", "x_row_stride"])
def unpad_kernel(
    x_ptr, offs_ptr, padded_offs_ptr, out_ptr, groups, tokens, rows, vectors, x_row_stride,
    GROUP_BLOCK: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Write TILE_ROWS rows of the dense tensor from the ``rows`` of the padded one; a tile may span many groups."""
    column_tiles = tl.maximum(tl.cdiv(vectors, TILE_VECTORS), 1)
    row = tl.program_id(0) // column_tiles * TILE_ROWS + tl.arange(0, TILE_ROWS)
    shift = tl.zeros((TILE_ROWS,), tl.int32)
    last = 0
    for block in range(0, groups, GROUP_BLOCK):
        group = block + tl.arange(0, GROUP_BLOCK)
        _, end, exists = _groups(offs_ptr, group, groups, tokens)
        grown = tl.load(padded_offs_ptr + group, mask=exists, other=0) - end
        ended = exists[None, :] & (end[None, :] <= row[:, None])
        shift = tl.maximum(shift, tl.max(tl.where(ended, grown[None, :], 0), 1))
        last = tl.maximum(last, tl.max(end, 0))
    x_row = row + shift
    _move(x_ptr, out_ptr, x_row, row, (row < last) & (x_row < rows), row < tokens, tl.program_id(0) % column_tiles,
          vectors, x_row_stride, TILE_VECTORS, VECTOR)  # fmt: skip
