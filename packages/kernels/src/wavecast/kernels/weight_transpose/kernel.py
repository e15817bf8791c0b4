"""Device code of the transposing weight quantizer: amax, scale, cast and transpose in one launch, without atomics.

Names: an expert's weight is (K, N) with K contiguous, so memory holds N rows of K values; the result is (N, K) with N
contiguous, K rows of N bytes. A program owns a strip, BLOCK_K neighbouring values of every one of the N rows, and so
alone decides the scales of its BLOCK_K columns: the result does not depend on the order of programs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import (
    inverse_of,
    magnitude_key,
    magnitude_of_key,
    quantize,
    scale_from_amax,
    zero_key,
)


@triton.jit
def _load_rows(w_ptr, first, ks, k, n, k_mask, BLOCK_N: tl.constexpr, PACK: tl.constexpr):
    """Rows first .. first + BLOCK_N - 1 of the strip as PACK tiles: tile j holds the rows first + PACK * i + j."""
    rows = first + PACK * tl.arange(0, BLOCK_N // PACK)
    ptrs = w_ptr + rows.to(tl.int64)[:, None] * k + ks[None, :]
    mask = (rows < n)[:, None] & k_mask[None, :]
    tiles = ()
    for j in tl.static_range(PACK):
        tiles = tiles + (tl.load(ptrs + j * k, mask=mask, other=0.0),)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
    return tiles


@triton.jit
def _max_key(key, tiles, PACK: tl.constexpr):
    """Raise ``key`` to the magnitude keys of the tiles, value by value."""
    for j in tl.static_range(PACK):
        key = tl.maximum(key, magnitude_key(tiles[j]))
    return key


@triton.jit
def _store_transposed(
    words_ptr,
    tiles,
    scale,
    first,
    ks,
    n,
    k_mask,
    FP8: tl.constexpr,
    FP8_MAX: tl.constexpr,
    WORD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PACK: tl.constexpr,
):
    """Cast the tiles and store them with N contiguous.

    PACK neighbouring bytes of an output row are put into one word before the layout changes from K-contiguous to
    N-contiguous lanes, so that the exchange through LDS moves whole words and not single bytes.
    """
    columns = first // PACK + tl.arange(0, BLOCK_N // PACK)
    word = tl.zeros(tiles[0].shape, WORD)
    for j in tl.static_range(PACK):
        code = quantize(tiles[j], scale[None, :], FP8_MAX, FP8).to(tl.uint8, bitcast=True)
        word = word | (code.to(WORD) << (8 * j))
    mask = (columns < n // PACK)[:, None] & k_mask[None, :]
    tl.store(words_ptr + ks.to(tl.int64)[None, :] * (n // PACK) + columns[:, None], word, mask=mask)


@triton.jit
def _strip_of_program(pid, programs, SHARERS: tl.constexpr, XCDS: tl.constexpr):
    """Strip number of program ``pid``: strips that share a cache line go to one XCD, at nearly the same time.

    Workgroup p runs on XCD p % XCDS. Within each span of SHARERS * XCDS programs, those of one XCD take neighbouring
    strips; programs beyond the last whole span keep their number, so that the map is a permutation.
    """
    SPAN: tl.constexpr = SHARERS * XCDS
    within = pid % SPAN
    swapped = pid - within + (within % XCDS) * SHARERS + within // XCDS
    return tl.where(pid < programs // SPAN * SPAN, swapped, pid)


@triton.jit
def transpose_strip_kernel(
    w_ptr,
    words_ptr,
    scale_ptr,
    inverse_ptr,
    k,
    n,
    programs,
    FP8: tl.constexpr,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    WORD: tl.constexpr,
    KEY: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    RESIDENT_BLOCKS: tl.constexpr,
    STREAMED: tl.constexpr,
    PACK: tl.constexpr,
    SHARERS: tl.constexpr,
    XCDS: tl.constexpr,
):
    """Quantize and transpose one strip.

    The first RESIDENT_BLOCKS * BLOCK_N rows are read once and kept in registers; rows beyond (STREAMED) are read a
    second time for the cast, soon after the first.
    """
    strips = tl.cdiv(k, BLOCK_K)
    strip = _strip_of_program(tl.program_id(0), programs, SHARERS, XCDS)
    expert = (strip // strips).to(tl.int64)
    ks = strip % strips * BLOCK_K + tl.arange(0, BLOCK_K)
    k_mask = ks < k
    w_ptr += expert * k * n
    words_ptr += expert * k * (n // PACK)

    resident = ()
    for i in tl.static_range(RESIDENT_BLOCKS):
        block = _load_rows(w_ptr, i * BLOCK_N, ks, k, n, k_mask, BLOCK_N, PACK)
        resident = resident + (block,)  # noqa: RUF005 - Triton adds tuples, it does not unpack into them
    dtype: tl.constexpr = w_ptr.dtype.element_ty
    key = tl.full((BLOCK_N // PACK, BLOCK_K), zero_key(dtype), KEY)
    for i in tl.static_range(RESIDENT_BLOCKS):
        key = _max_key(key, resident[i], PACK)
    if STREAMED:
        for first in range(RESIDENT_BLOCKS * BLOCK_N, n, BLOCK_N):
            tiles = _load_rows(w_ptr, first, ks, k, n, k_mask, BLOCK_N, PACK)
            key = _max_key(key, tiles, PACK)

    amax = magnitude_of_key(tl.max(key, axis=0), dtype)
    scale = scale_from_amax(amax, FP8_MAX, EPS, POWER_OF_TWO)
    tl.store(scale_ptr + expert * k + ks, scale, mask=k_mask)
    tl.store(inverse_ptr + expert * k + ks, inverse_of(scale), mask=k_mask)

    # Resident rows first: their registers are then free for the rows that are read again.
    for i in tl.static_range(RESIDENT_BLOCKS):
        _store_transposed(words_ptr, resident[i], scale, i * BLOCK_N, ks, n, k_mask, FP8, FP8_MAX, WORD, BLOCK_N, PACK)
    if STREAMED:
        for first in range(RESIDENT_BLOCKS * BLOCK_N, n, BLOCK_N):
            tiles = _load_rows(w_ptr, first, ks, k, n, k_mask, BLOCK_N, PACK)
            _store_transposed(words_ptr, tiles, scale, first, ks, n, k_mask, FP8, FP8_MAX, WORD, BLOCK_N, PACK)
