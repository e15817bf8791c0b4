"""Device code of the row-wise quantizer per group: one launch, one read of a group that fits the block.

Group bounds are unaligned, and along the contiguous axis. Blocks start at a multiple of VECTOR columns, so that a
lane's vector is aligned whatever the bounds are, and consist of whole vectors, which need no mask for each value. The
vectors that the two bounds of a group cut are read and stored value by value, beside the blocks: no two groups write
the same byte, and each byte is written once.
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
    quantize,
    scale_from_amax,
)


@triton.jit
def _block_columns(first, BLOCK_K: tl.constexpr, VECTOR: tl.constexpr):
    """First column of each vector (vectors, 1) and the columns (vectors, VECTOR) of the block at ``first``."""
    vectors = first + tl.arange(0, BLOCK_K // VECTOR)[:, None] * VECTOR
    return vectors, vectors + tl.arange(0, VECTOR)[None, :]


@triton.jit
def _load(x_rows_ptr, first, stop, row_mask, BLOCK_K: tl.constexpr, VECTOR: tl.constexpr):
    """(BLOCK_M, vectors, VECTOR) values of the block at ``first``, zero from ``stop`` on, a multiple of VECTOR."""
    vectors, columns = _block_columns(first, BLOCK_K, VECTOR)
    mask = row_mask[:, None, None] & (vectors < stop)[None, :, :]
    return tl.load(x_rows_ptr[:, None, None] + columns[None, :, :], mask=mask, other=0.0)


@triton.jit
def _largest_key(x):
    """(BLOCK_M,) largest `magnitude_key` of (BLOCK_M, vectors, VECTOR) values, int32."""
    return tl.reduce(tl.reduce(magnitude_key(x), 2, larger), 1, larger).to(tl.int32)


@triton.jit
def _store(values_rows_ptr, x, scale, first, stop, row_mask, FP8_MAX: tl.constexpr):
    """Quantize the block at ``first`` and store it up to ``stop``."""
    vectors, columns = _block_columns(first, x.shape[1] * x.shape[2], x.shape[2])
    y = quantize(x, scale[:, None, None], FP8_MAX, values_rows_ptr.dtype.element_ty)
    mask = row_mask[:, None, None] & (vectors < stop)[None, :, :]
    tl.store(values_rows_ptr[:, None, None] + columns[None, :, :], y, mask=mask)


@triton.jit
def _zero_columns(values_rows_ptr, start, end, row_mask, BLOCK_K: tl.constexpr, VECTOR: tl.constexpr):
    """Zero columns [start, end): whole vectors, and byte by byte the vectors that the bounds cut."""
    first_whole = tl.cdiv(start, VECTOR) * VECTOR
    last_whole = tl.maximum(end // VECTOR * VECTOR, first_whole)
    value = tl.zeros((values_rows_ptr.shape[0], BLOCK_K // VECTOR, VECTOR), tl.float32)
    value = value.to(values_rows_ptr.dtype.element_ty)
    for first in range(first_whole, last_whole, BLOCK_K):
        vectors, columns = _block_columns(first, BLOCK_K, VECTOR)
        mask = row_mask[:, None, None] & (vectors + VECTOR <= end)[None, :, :]
        tl.store(values_rows_ptr[:, None, None] + columns[None, :, :], value, mask=mask)
    cut = tl.zeros((values_rows_ptr.shape[0], VECTOR), tl.float32).to(values_rows_ptr.dtype.element_ty)
    for bound in tl.static_range(2):
        columns = (last_whole if bound else start) + tl.arange(0, VECTOR)[None, :]
        mask = row_mask[:, None] & (columns < (end if bound else tl.minimum(first_whole, end)))
        tl.store(values_rows_ptr[:, None] + columns, cut, mask=mask)


# Sizes are not specialised: a new number of columns (tokens) must not compile anew. What matters is in UNIT.
@triton.jit(do_not_specialize=["m", "k_units", "row_stride_units", "groups"])
def rowwise_per_group_kernel(
    x_ptr, offs_ptr, values_ptr, scale_ptr, inverse_ptr, m, k_units, row_stride_units, groups,
    UNIT: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Program (row block, group), the group changing fastest: neighbours read neighbouring memory, and groups of
    different sizes mix. The programs of the last group also zero the columns that no group owns.

    k and the row stride come in units whose size is a constexpr: that is how the compiler knows their alignment.
    """
    k = k_units * UNIT
    group = tl.program_id(0) % groups
    rows = (tl.program_id(0) // groups).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    row_mask = rows < m
    x_rows_ptr = x_ptr + rows * row_stride_units * UNIT
    values_rows_ptr = values_ptr + rows * k
    start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(offs_ptr + group)
    # Offsets are the caller's data, which the host never reads: clip them, so that none reaches outside the buffers.
    start = tl.minimum(tl.maximum(start, 0), k)
    end = tl.minimum(tl.maximum(end, start), k)
    if group == groups - 1:
        _zero_columns(values_rows_ptr, end, k, row_mask, BLOCK_K, VECTOR)
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    # Whole vectors are [base, stop). What is cut is in the vector before base and in the one at stop.
    base = tl.cdiv(start, VECTOR) * VECTOR
    stop = end // VECTOR * VECTOR
    index = tl.arange(0, 2 * VECTOR)
    cut_columns = tl.where(index < VECTOR, base, tl.maximum(stop, base)) - VECTOR + index
    cut_mask = row_mask[:, None] & inside(cut_columns, start, end)[None, :]
    cut = tl.load(x_rows_ptr[:, None] + cut_columns[None, :], mask=cut_mask, other=0.0)
    key = tl.reduce(magnitude_key(cut), 1, larger).to(tl.int32)
    # Columns before the last block: none if the group fits a block, as then it is read once.
    last = base + tl.maximum(tl.cdiv(stop - base, BLOCK_K) - 1, 0) * BLOCK_K
    for first in range(base, last, BLOCK_K):
        key = tl.maximum(key, _largest_key(_load(x_rows_ptr, first, stop, row_mask, BLOCK_K, VECTOR)))
    # The last block stays in registers from here to its store.
    held = _load(x_rows_ptr, last, stop, row_mask, BLOCK_K, VECTOR)
    key = tl.maximum(key, _largest_key(held))
    scale = scale_from_amax(magnitude_of_key(key, dtype), FP8_MAX, EPS, POWER_OF_TWO)
    _store(values_rows_ptr, held, scale, last, stop, row_mask, FP8_MAX)
    # Backwards: what was read last is what the caches still hold.
    for step in range(base, last, BLOCK_K):
        first = last - BLOCK_K - (step - base)
        x = _load(x_rows_ptr, first, stop, row_mask, BLOCK_K, VECTOR)
        _store(values_rows_ptr, x, scale, first, stop, row_mask, FP8_MAX)
    y = quantize(cut, scale[:, None], FP8_MAX, values_ptr.dtype.element_ty)
    tl.store(values_rows_ptr[:, None] + cut_columns[None, :], y, mask=cut_mask)
    out = group.to(tl.int64) * m + rows
    tl.store(scale_ptr + out, scale, mask=row_mask)
    tl.store(inverse_ptr + out, inverse_of(scale), mask=row_mask)
