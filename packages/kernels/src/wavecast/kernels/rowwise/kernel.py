"""Device code of the fused row-wise quantizer: amax, scale, inverse scale and cast in one launch."""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    finite_abs,
    inverse_of,
    larger,
    magnitude_key,
    magnitude_of_key,
    quantize,
    scale_from_amax,
)


@triton.jit
def rowwise_resident_kernel(
    x_ptr,
    values_ptr,
    scale_ptr,
    inverse_ptr,
    m,
    k,
    x_row_stride,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PIECES: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """Quantize BLOCK_M whole rows, which stay in registers between the amax and the cast: one read.

    A row is PIECES blocks of BLOCK_K values, of which the last may be cut.

    The row index has an inner dimension of VECTOR values, 16 bytes of input. Without it the compiler would give a lane
    the 16 values of a 16-byte FP8 store, and each load of a wave would fetch every other 16 bytes.
    """
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, BLOCK_K // VECTOR)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    row_mask = rows < m
    x_rows_ptr = x_ptr + rows[:, None, None] * x_row_stride
    values_rows_ptr = values_ptr + rows[:, None, None] * k
    held = ()
    for piece in tl.static_range(PIECES):
        cols = piece * BLOCK_K + inner
        x = tl.load(x_rows_ptr + cols[None, :, :], mask=row_mask[:, None, None] & (cols < k)[None, :, :], other=0.0)
        held = held + (x,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
    key = magnitude_key(held[0])
    for piece in tl.static_range(1, PIECES):
        key = tl.maximum(key, magnitude_key(held[piece]))
    key = tl.reduce(tl.reduce(key, 2, larger), 1, larger).to(tl.int32)
    scale = scale_from_amax(magnitude_of_key(key, x_ptr.dtype.element_ty), FP8_MAX, EPS, POWER_OF_TWO)
    for piece in tl.static_range(PIECES):
        cols = piece * BLOCK_K + inner
        y = quantize(held[piece], scale[:, None, None], FP8_MAX, values_ptr.dtype.element_ty)
        tl.store(values_rows_ptr + cols[None, :, :], y, mask=row_mask[:, None, None] & (cols < k)[None, :, :])
    tl.store(scale_ptr + rows, scale, mask=row_mask)
    tl.store(inverse_ptr + rows, inverse_of(scale), mask=row_mask)


@triton.jit
def rowwise_streaming_kernel(
    x_ptr,
    values_ptr,
    scale_ptr,
    inverse_ptr,
    k,
    x_row_stride,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """Quantize one row that is longer than the registers of a workgroup: two passes over it in blocks of BLOCK_K."""
    row = tl.program_id(0).to(tl.int64)
    x_row_ptr = x_ptr + row * x_row_stride
    values_row_ptr = values_ptr + row * k
    inner = tl.arange(0, BLOCK_K // VECTOR)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    amax = tl.zeros((BLOCK_K // VECTOR, VECTOR), tl.float32)
    for start in range(0, k, BLOCK_K):
        cols = start + inner
        amax = tl.maximum(amax, finite_abs(tl.load(x_row_ptr + cols, mask=cols < k, other=0.0)))
    scale = scale_from_amax(tl.max(tl.max(amax, axis=1), axis=0, keep_dims=True), FP8_MAX, EPS, POWER_OF_TWO)
    for start in range(0, k, BLOCK_K):
        cols = start + inner
        x = tl.load(x_row_ptr + cols, mask=cols < k, other=0.0)
        y = quantize(x, scale[:, None], FP8_MAX, values_ptr.dtype.element_ty)
        tl.store(values_row_ptr + cols, y, mask=cols < k)
    one = tl.arange(0, 1)
    tl.store(scale_ptr + row + one, scale)
    tl.store(inverse_ptr + row + one, inverse_of(scale))
