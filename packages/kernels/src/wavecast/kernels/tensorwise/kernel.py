"""Device code of the tensor-wise quantizer: the amax of parts, then scale and cast.

Both launches see the tensor as rows of whole vectors (16 bytes, or what the alignment allows), and as tiles of some
rows and some vectors of each. What does not fill a vector at the end of a contiguous tensor is its tail. The maximum
does not depend on the order of its arguments, so the result does not depend on the order of programs.
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


@triton.jit
def _tiles(rows, vectors, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr):
    """Number of tiles."""
    return tl.cdiv(rows, TILE_ROWS).to(tl.int64) * tl.cdiv(vectors, TILE_VECTORS)


@triton.jit
def _tile(tile, rows, vectors, row_stride, TILE_ROWS: tl.constexpr, TILE_VECTORS: tl.constexpr, VECTOR: tl.constexpr):
    """Where one tile starts, the offsets of its values from there, and which of them exist.

    Rows are ``row_stride`` vectors apart. Rows and vectors share the first axis, so that Triton has no choice of which
    of the two the lanes go along. Which values exist is constant over a vector, so that it does not split the access;
    the start is a scalar, so that lanes calculate in 32 bits where a tile is within a row.
    """
    column_tiles = tl.maximum(tl.cdiv(vectors, TILE_VECTORS), 1)
    first_row = tile // column_tiles * TILE_ROWS
    first_vector = tile % column_tiles * TILE_VECTORS
    index = tl.arange(0, TILE_ROWS * TILE_VECTORS)[:, None]
    vector = index % TILE_VECTORS
    mask = vector < vectors - first_vector
    offsets = vector * VECTOR + tl.arange(0, VECTOR)[None, :]
    if TILE_ROWS > 1:
        row = index // TILE_VECTORS
        mask = mask & (row < rows - first_row)
        offsets += row.to(tl.int64) * row_stride * VECTOR
    return (first_row * row_stride + first_vector) * VECTOR, offsets, mask


# Sizes are not specialised: a new number of tokens must not compile anew. Alignment is in VECTOR.
@triton.jit(do_not_specialize=["rows", "vectors", "row_stride", "tail"])
def partial_amax_kernel(
    x_ptr,
    partial_ptr,
    rows,
    vectors,
    row_stride,
    tail,
    TILE_ROWS: tl.constexpr,
    TILE_VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """amax of the finite values of every num_programs-th tile."""
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    key_type: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    tiles = _tiles(rows, vectors, TILE_ROWS, TILE_VECTORS)
    first = tl.program_id(0).to(tl.int64)
    best = tl.full((TILE_ROWS * TILE_VECTORS, VECTOR), zero_key(dtype), key_type)
    for tile in range(first, tiles, tl.num_programs(0)):
        start, offsets, mask = _tile(tile, rows, vectors, row_stride, TILE_ROWS, TILE_VECTORS, VECTOR)
        best = tl.maximum(best, magnitude_key(tl.load(x_ptr + start + offsets, mask=mask, other=0.0)))
    if first == 0:
        lane = tl.arange(0, VECTOR)
        rest = tl.load(x_ptr + vectors.to(tl.int64) * VECTOR + lane, mask=lane < tail, other=0.0)
        best = tl.maximum(best, magnitude_key(rest)[None, :])
    best = tl.reduce(tl.reduce(best, 1, larger), 0, larger, keep_dims=True)
    tl.store(partial_ptr + first + tl.arange(0, 1), magnitude_of_key(best.to(tl.int32), dtype))


@triton.jit(do_not_specialize=["rows", "vectors", "row_stride", "tail", "partials"])
def cast_kernel(
    x_ptr,
    values_ptr,
    scale_ptr,
    inverse_ptr,
    partial_ptr,
    rows,
    vectors,
    row_stride,
    tail,
    partials,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    PARTIALS_BLOCK: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """Scale from all partial amaxes, and one tile cast; values lie without gaps.

    The last tiles come first: what the other launch read last is what caches still hold. Programs that stay for several
    tiles, as there, are slower here: a load then waits for the store before it.
    """
    index = tl.arange(0, PARTIALS_BLOCK)
    amax = tl.max(tl.load(partial_ptr + index, mask=index < partials, other=0.0), axis=0, keep_dims=True)
    scale = scale_from_amax(amax, FP8_MAX, EPS, POWER_OF_TWO)
    fp8: tl.constexpr = values_ptr.dtype.element_ty
    tile = tl.num_programs(0) - 1 - tl.program_id(0).to(tl.int64)
    start, offsets, mask = _tile(tile, rows, vectors, row_stride, TILE_ROWS, TILE_VECTORS, VECTOR)
    x = tl.load(x_ptr + start + offsets, mask=mask, other=0.0)
    start, offsets, mask = _tile(tile, rows, vectors, vectors, TILE_ROWS, TILE_VECTORS, VECTOR)
    tl.store(values_ptr + start + offsets, quantize(x, scale[:, None], FP8_MAX, fp8), mask=mask)
    if tl.program_id(0) == 0:
        one = tl.arange(0, 1)
        tl.store(scale_ptr + one, scale)
        tl.store(inverse_ptr + one, inverse_of(scale))
        at = vectors.to(tl.int64) * VECTOR + tl.arange(0, VECTOR)
        in_tail = tl.arange(0, VECTOR) < tail
        rest = tl.load(x_ptr + at, mask=in_tail, other=0.0)
        tl.store(values_ptr + at, quantize(rest, scale, FP8_MAX, fp8), mask=in_tail)
