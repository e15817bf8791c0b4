"""Device code of the block-wise quantizer: a tile in registers between amax and cast, so memory is read once."""

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
)


# Sizes are not specialised: a new number of tokens must not compile anew. Alignment is in VECTOR.
@triton.jit(do_not_specialize=["rows", "vectors", "row_stride", "batch_stride"])
def blockwise_kernel(
    x_ptr,
    values_ptr,
    scale_ptr,
    inverse_ptr,
    rows,
    vectors,
    row_stride,
    batch_stride,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    SQUARE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    SIDE: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """Quantize a tile of TILE_ROWS rows and SIDE columns with one scale if SQUARE, else with one a row.

    Sizes and strides along the rows are in vectors of VECTOR values. Rows and vectors share the first axis of what is
    loaded and stored, so that Triton has no choice of which of the two the lanes go along: neighbouring lanes load
    neighbouring vectors. Programs next to each other take tiles next to each other in a row. Offsets in a tile are
    32-bit (the launcher checks), starts are not.
    """
    TILE_VECTORS: tl.constexpr = SIDE // VECTOR
    blocks = tl.cdiv(vectors, TILE_VECTORS)
    tile_rows = tl.cdiv(rows, TILE_ROWS)
    tile = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    batch = (tile // tile_rows).to(tl.int64)
    first = (tile % tile_rows * TILE_ROWS).to(tl.int64)
    index = tl.arange(0, TILE_ROWS * TILE_VECTORS)[:, None]
    row = index // TILE_VECTORS
    vector = index % TILE_VECTORS
    mask = (row < rows - first) & (vector < vectors - block * TILE_VECTORS)
    columns = vector * VECTOR + tl.arange(0, VECTOR)[None, :]
    x_ptr += (batch * batch_stride + first * row_stride + block * TILE_VECTORS) * VECTOR
    x = tl.load(x_ptr + (row * (row_stride * VECTOR) + columns), mask=mask, other=0.0)
    key = tl.reduce(magnitude_key(x), 1, larger)
    if SQUARE:
        key = tl.reduce(key, 0, larger, keep_dims=True)
    else:
        key = tl.reduce(tl.reshape(key, (TILE_ROWS, TILE_VECTORS)), 1, larger)
    scale = scale_from_amax(magnitude_of_key(key.to(tl.int32), x.dtype), FP8_MAX, EPS, POWER_OF_TWO)
    of_each = scale[:, None]
    if not SQUARE:
        of_each = tl.reshape(tl.broadcast_to(of_each, (TILE_ROWS, TILE_VECTORS)), (TILE_ROWS * TILE_VECTORS, 1))
    y = quantize(x, of_each, FP8_MAX, values_ptr.dtype.element_ty)
    values_ptr += ((batch * rows + first) * vectors + block * TILE_VECTORS) * VECTOR
    tl.store(values_ptr + (row * (vectors * VECTOR) + columns), y, mask=mask)
    if SQUARE:
        at = tl.program_id(0) + tl.arange(0, 1)
        tl.store(scale_ptr + at, scale)
        tl.store(inverse_ptr + at, inverse_of(scale))
    else:
        row = tl.arange(0, TILE_ROWS)
        at = (batch * blocks + block) * rows + first + row
        tl.store(scale_ptr + at, scale, mask=row < rows - first)
        tl.store(inverse_ptr + at, inverse_of(scale), mask=row < rows - first)
