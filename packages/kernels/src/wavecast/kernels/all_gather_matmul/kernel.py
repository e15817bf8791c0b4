# mypy: ignore-errors
# ruff: noqa: SIM102 - a branch on a constexpr is chosen when compiling, which a joined condition is not.
"""Device code of all-gather+matmul: persistent programs that multiply each rank's rows as soon as they are there.

The gathered matrix is (m, k), of which every rank contributes ``shard_rows`` rows, a *chunk*. Tiles are visited from
this rank's own chunk onwards, chunk after chunk, wrapping around, which is the order in which chunks are fetched. A
tile within the own chunk is read from the shard itself and waits for nothing; any other is read from the gathered
matrix and waits for the signal of every chunk that it has rows of.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.async_tp.device_signals import CALL, finish_call, report_failure, wait_for_signal
from wavecast.kernels.async_tp.kernel_fetch import fetch_chunks
from wavecast.kernels.grouped_gemm.tiles import (
    column_scales,
    row_scales,
    store_tile,
    sum_of_products,
    tile_position,
)


@triton.jit
def rotated(tile_m, tiles_m, shard_rows, rank, BLOCK_M: tl.constexpr):
    """Row of tiles that is visited as ``tile_m``-th: the first one that begins in this rank's chunk is the 0th."""
    turned = tile_m + tl.cdiv(rank * shard_rows, BLOCK_M)
    return tl.where(turned >= tiles_m, turned - tiles_m, turned)


@triton.jit(
    do_not_specialize=[
        "m", "shard_rows", "n_units", "k_units", "b_units", "rank", "ranks", "polls", "chunk_elements", "chunk_scales",
        "scales_at",
    ]
)  # fmt: skip
def all_gather_matmul_kernel(
    gathered_ptr, shard_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, bias_ptr, signals_ptr, state_ptr,
    failure_ptr, words_ptr, windows_ptr, m, shard_rows, n_units, k_units, b_units, rank, ranks, polls, chunk_elements,
    chunk_scales, scales_at, SCALED: tl.constexpr, A_ROWS: tl.constexpr, B_COLUMNS: tl.constexpr, BIASED: tl.constexpr,
    LAST: tl.constexpr, FETCHERS: tl.constexpr, FETCH_SCALES: tl.constexpr, FETCH_BLOCK: tl.constexpr,
    UNIT: tl.constexpr, N_UNIT: tl.constexpr, CUT: tl.constexpr, IMPRECISE: tl.constexpr, ON_GFX: tl.constexpr,
    XCDS: tl.constexpr, BAND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (m, n) = gathered (m, k) times b (k, n), scaled, plus bias (n,).

    Args:
        shard_ptr: this rank's rows of the gathered matrix, wherever they are.
        signals_ptr: a word for every rank: the number of the call from when on its chunk is in the gathered matrix.
            There is one for the own chunk too, which tiles wait for that have rows of others.
        state_ptr: `CALL` and following.
        failure_ptr: 4 words, see `report_failure`.
        words_ptr, windows_ptr, chunk_elements, chunk_scales, scales_at: for `fetch_chunks`, of which words_ptr is the
            gathered matrix as the widest elements that a chunk is a multiple of.
        polls: of a signal that does not come.
        A_ROWS, B_COLUMNS: a scale for each row or column, not one for all.
        LAST: whether no further launch waits for the signals of this call.
        FETCHERS: programs that fetch, a multiple of XCDS; 0 if something else does.
    """
    call = tl.load(state_ptr + CALL)
    if FETCHERS > 0:
        if tl.program_id(0) < FETCHERS:
            fetch_chunks(words_ptr, a_inverse_ptr, windows_ptr, signals_ptr, state_ptr, call, chunk_elements,
                         chunk_scales, scales_at, rank, ranks, FETCH_SCALES, FETCHERS, FETCH_BLOCK, ON_GFX)  # fmt: skip
    program = tl.program_id(0) - FETCHERS
    programs = tl.num_programs(0) - FETCHERS
    n = n_units * N_UNIT
    k = k_units * UNIT
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    own_start = rank * shard_rows
    arrived = tl.full((), 0, tl.int64)
    tiles = tiles_m * tiles_n
    tile = program % XCDS * (programs // XCDS) + program // XCDS
    if program < 0:
        tile = tiles
    while tile < tiles:
        visit_m, tile_n = tile_position(tile, tiles_m, tiles_n, BAND)
        row = rotated(visit_m, tiles_m, shard_rows, rank, BLOCK_M) * BLOCK_M
        column = tile_n * BLOCK_N
        a_ptr = gathered_ptr + row.to(tl.int64) * k
        end = tl.minimum(row + BLOCK_M, m)
        there = True
        if (row >= own_start) & (end <= own_start + shard_rows):
            a_ptr = shard_ptr + (row - own_start).to(tl.int64) * k
        else:
            chunk = row // shard_rows
            last_chunk = (end - 1) // shard_rows
            while chunk <= last_chunk:
                if (arrived >> chunk) & 1 == 0:
                    seen = wait_for_signal(signals_ptr + chunk, call, polls, ON_GFX)
                    if seen - call < 0:
                        report_failure(failure_ptr, chunk, call, seen, ON_GFX)
                        there = False
                        chunk = last_chunk
                    arrived |= tl.full((), 1, tl.int64) << chunk
                chunk += 1
        if there:
            rows = tl.minimum(tl.arange(0, BLOCK_M), m - row - 1)
            columns = tl.minimum(tl.arange(0, BLOCK_N), n - column - 1)
            acc = sum_of_products(
                a_ptr, b_ptr + column.to(tl.int64) * (b_units * UNIT), rows * k, columns * (b_units * UNIT), 0, k, UNIT,
                False, CUT, BLOCK_K, IMPRECISE,
            )  # fmt: skip
            if SCALED:
                if A_ROWS:
                    acc *= row_scales(a_inverse_ptr + row, BLOCK_M, m - row)
                else:
                    acc *= tl.load(a_inverse_ptr)
                if B_COLUMNS:
                    acc *= column_scales(b_inverse_ptr + column, BLOCK_N, n - column)
                else:
                    acc *= tl.load(b_inverse_ptr)
            if BIASED:
                acc += column_scales(bias_ptr + column, BLOCK_N, n - column).to(tl.float32)
            store_tile(out_ptr + row.to(tl.int64) * n + column, acc, n_units, N_UNIT, m - row, n - column, ON_GFX)
            tile += programs
        else:  # what is not there now will not be: the other programs find out by themselves
            tile = tiles
    if LAST:
        finish_call(state_ptr, call, tl.num_programs(0), ON_GFX)
