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
def _of_each_vector(of_row, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr):
    """What is (TILE_ROWS,), for each vector of a tile."""
    return tl.reshape(tl.broadcast_to(of_row[:, None], (TILE_ROWS, TILE_VECTORS)), (TILE_ROWS * TILE_VECTORS, 1))


@triton.jit
def _move(
    x_ptr, out_ptr, x_rows, x_mask, first, rows, column_tile, vectors, x_row_stride,
    TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Write rows ``first``.. of ``rows``: the rows ``x_rows`` of x, zeros where ``x_mask`` is false.

    Rows and vectors share the first axis, so that Triton has no choice of which of the two the lanes go along.
    """
    x_rows = _of_each_vector(x_rows, TILE_ROWS, TILE_VECTORS)
    x_mask = _of_each_vector(x_mask, TILE_ROWS, TILE_VECTORS)
    index = tl.arange(0, TILE_ROWS * TILE_VECTORS)[:, None]
    row = first + index // TILE_VECTORS
    vector = column_tile * TILE_VECTORS + index % TILE_VECTORS
    columns = vector * VECTOR + tl.arange(0, VECTOR)[None, :]
    mask = (vector < vectors) & (row < rows)
    x = tl.load(x_ptr + (x_rows.to(tl.int64) * x_row_stride * VECTOR + columns), mask=mask & x_mask, other=0)
    tl.store(out_ptr + (row.to(tl.int64) * vectors * VECTOR + columns), x, mask=mask)


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
    x_row = first + tl.arange(0, TILE_ROWS) - shift
    _move(x_ptr, out_ptr, x_row, (x_row >= 0) & (x_row < stop), first, rows, tl.program_id(0) % column_tiles, vectors,
          x_row_stride, TILE_ROWS, TILE_VECTORS, VECTOR)  # fmt: skip


@triton.jit(do_not_specialize=["groups", "tokens", "rows", "vectors", "x_row_stride"])
def unpad_kernel(
    x_ptr, offs_ptr, padded_offs_ptr, out_ptr, groups, tokens, rows, vectors, x_row_stride,
    GROUP_BLOCK: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Write TILE_ROWS rows of the dense tensor from the ``rows`` of the padded one; a tile may span many groups."""
    column_tiles = tl.maximum(tl.cdiv(vectors, TILE_VECTORS), 1)
    first = tl.program_id(0) // column_tiles * TILE_ROWS
    row = first + tl.arange(0, TILE_ROWS)
    shift = tl.zeros((TILE_ROWS,), tl.int32)
    last = 0
    for block in range(0, groups, GROUP_BLOCK):
        group = block + tl.arange(0, GROUP_BLOCK)
        _, end, exists = _groups(offs_ptr, group, groups, tokens)
        grown = tl.load(padded_offs_ptr + group, mask=exists, other=0) - end
        ended = exists[None, :] & (end[None, :] <= row[:, None])
        shift = tl.maximum(shift, tl.max(tl.where(ended, grown[None, :], 0), 1))
        last = tl.maximum(last, tl.max(end, 0))
    # Padded offsets are the caller's data: with wrong ones a shift may pass 2^31, and a row come out negative.
    x_row = row + shift
    there = (row < last) & (x_row >= 0) & (x_row < rows)
    _move(x_ptr, out_ptr, x_row, there, first, tokens, tl.program_id(0) % column_tiles, vectors, x_row_stride,
          TILE_ROWS, TILE_VECTORS, VECTOR)  # fmt: skip
