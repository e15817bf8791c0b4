# mypy: ignore-errors
# ruff: noqa: SIM102 - a branch on a constexpr is chosen when compiling, which a joined condition is not.
"""Device code of matmul+reduce-scatter: persistent programs that write each rank's part of the sum where it is added.

The product is (ranks * rows, n). Tiles of the other ranks are computed first, and written in fp32 into their windows:
those of the rank that is farthest behind before the next one's, or a tile of each in turns where each has a link of its
own. When all of a rank's tiles are there, it is signalled. This rank's own tiles come last: each adds, when it is
computed, what the others have written into this rank's window meanwhile. There is no further pass, and one rounding.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import issued_here_scalar
from wavecast.kernels.async_tp.device_signals import (
    CALL,
    FETCHED,
    count_and_signal,
    finish_call,
    report_failure,
    wait_for_signal,
)
from wavecast.kernels.grouped_gemm.tiles import (
    column_scales,
    first_tile,
    row_scales,
    store_tile,
    sum_of_products,
    tile_position,
)


@triton.jit
def wait_for_others(peers_ptr, state_ptr, failure_ptr, call, rank, ranks, polls, ON_GFX: tl.constexpr):
    """Whether every other rank's part of this rank's rows has come."""
    signals_ptr = tl.load(peers_ptr + ranks + rank).to(state_ptr.dtype)
    there = True
    source = 0
    while source < ranks:
        if source != rank:
            seen = wait_for_signal(signals_ptr + source, call, polls, ON_GFX)
            if seen - call < 0:
                report_failure(failure_ptr, source, call, seen, ON_GFX)
                there = False
                source = ranks
        source += 1
    return there


@triton.jit
def count_part(state_ptr, target, part_tiles, peers_ptr, rank, ranks, call, ON_GFX: tl.constexpr):
    """Count a written tile of a rank's part; who counts the last signals that rank."""
    pad_ptr = tl.load(peers_ptr + ranks + target).to(state_ptr.dtype)
    count_and_signal(state_ptr + FETCHED + target, part_tiles, pad_ptr + rank, call, ON_GFX)


@triton.jit
def column_halves(x):
    """The left and the right half of the columns."""
    return x.reshape(x.shape[0], 2, x.shape[1] // 2).permute(0, 2, 1).split()


@triton.jit
def add_and_store(
    part, first: tl.constexpr, out_ptr, window_ptr, rows, n, n_units, ranks, factor, rows_left, columns_left,
    N_UNIT: tl.constexpr, ON_GFX: tl.constexpr,
):  # fmt: skip
    """Add what the others have computed of some columns of a tile, from ``first`` on, and store the sum.

    Of a quarter of the columns: the values that are loaded come through LDS into the layout of the sum, and those of a
    whole tile have no room there.
    """
    row = tl.arange(0, part.shape[0])
    column = tl.arange(0, part.shape[1])
    offsets = row[:, None] * n + column[None, :]
    inside = (row < rows_left)[:, None] & (column < columns_left - first)[None, :]
    other_ptr = window_ptr + first
    for _other in range(ranks - 1):
        part += tl.load(other_ptr + offsets, mask=inside, other=0.0)
        other_ptr += rows.to(tl.int64) * n
    store_tile(out_ptr + first, part * factor, n_units, N_UNIT, rows_left, columns_left - first, ON_GFX)


@triton.jit(do_not_specialize=["rows", "n_units", "k_units", "b_units", "rank", "ranks", "polls", "factor"])
def matmul_reduce_scatter_kernel(
    a_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, window_ptr, peers_ptr, state_ptr, failure_ptr, rows, n_units,
    k_units, b_units, rank, ranks, polls, factor, SCALED: tl.constexpr, A_ROWS: tl.constexpr, B_COLUMNS: tl.constexpr,
    UNIT: tl.constexpr, N_UNIT: tl.constexpr, CUT: tl.constexpr, IMPRECISE: tl.constexpr, ON_GFX: tl.constexpr,
    XCDS: tl.constexpr, BAND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    IN_TURNS: tl.constexpr = False,
):  # fmt: skip
    """out (rows, n) = factor times the sum over ranks of this rank's rows of a (ranks * rows, k) times b (k, n).

    Args:
        window_ptr: this rank's window: for every other rank, from the next one behind on, fp32 (rows, n).
        peers_ptr: int64 addresses of every rank's window, and behind them of every rank's signal pad, which has a word
            for every rank: the number of the call of which its part has come. They are read where they are used: each
            that is kept takes two scalar registers.
        state_ptr, failure_ptr, polls: as of `all_gather_matmul_kernel`.
        factor: fp32, 1 or one over the number of ranks.
        IN_TURNS: whether tiles of all other ranks take turns.
        SCALED, A_ROWS, B_COLUMNS: whether there are scales, and one for each row or column, not one for all.
    """
    tiles = ranks * tl.cdiv(rows, BLOCK_M) * tl.cdiv(n_units * N_UNIT, BLOCK_N)
    part_tiles = 0
    call = tl.load(state_ptr + CALL)
    complete = False
    written = -1  # whose part the tile before is of, which is counted when its stores have had time to end
    tile = first_tile(XCDS)
    while tile < tiles:
        # As in `all_gather_matmul_kernel`: what is made of these is made for each tile, where registers are free.
        rank = issued_here_scalar(rank, ON_GFX)
        ranks = issued_here_scalar(ranks, ON_GFX)
        rows = issued_here_scalar(rows, ON_GFX)
        polls = issued_here_scalar(polls, ON_GFX)
        n = issued_here_scalar(n_units, ON_GFX) * N_UNIT
        k = issued_here_scalar(k_units, ON_GFX) * UNIT
        b_units = issued_here_scalar(b_units, ON_GFX)
        tiles_m = tl.cdiv(rows, BLOCK_M)
        tiles_n = tl.cdiv(n, BLOCK_N)
        part_tiles = tiles_m * tiles_n
        step = tile // part_tiles
        inside = tile - step * part_tiles
        if IN_TURNS:
            if step < ranks - 1:
                inside = tile // (ranks - 1)
                step = tile - inside * (ranks - 1)
        tile_m, tile_n = tile_position(inside, tiles_m, tiles_n, BAND)
        target = rank - 1 - step
        target = tl.where(target < 0, target + ranks, target)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        rows_left = rows - row
        columns_left = n - column
        a_row = target.to(tl.int64) * rows + row
        acc = sum_of_products(
            a_ptr + a_row * k, b_ptr + column.to(tl.int64) * (b_units * UNIT),
            tl.minimum(tl.arange(0, BLOCK_M), rows_left - 1) * k,
            tl.minimum(tl.arange(0, BLOCK_N), columns_left - 1) * (b_units * UNIT), 0, k, UNIT, False, CUT, BLOCK_K,
            IMPRECISE,
        )  # fmt: skip
        if SCALED:
            if A_ROWS:
                acc *= row_scales(a_inverse_ptr + a_row, BLOCK_M, rows_left)
            else:
                acc *= tl.load(a_inverse_ptr)
            if B_COLUMNS:
                acc *= column_scales(b_inverse_ptr + column, BLOCK_N, columns_left)
            else:
                acc *= tl.load(b_inverse_ptr)
        place = row.to(tl.int64) * n + column
        if written >= 0:
            count_part(state_ptr, written, part_tiles, peers_ptr, rank, ranks, call, ON_GFX)
            written = -1
        if step < ranks - 1:
            there_ptr = tl.load(peers_ptr + target).to(window_ptr.dtype) + step.to(tl.int64) * rows * n
            store_tile(there_ptr + place, acc, n_units, N_UNIT, rows_left, columns_left, ON_GFX)
            written = target
            tile += tl.num_programs(0)
        else:
            if not complete:
                complete = wait_for_others(peers_ptr, state_ptr, failure_ptr, call, rank, ranks, polls, ON_GFX)
            if complete:
                left, right = column_halves(acc)
                first, second = column_halves(left)
                third, fourth = column_halves(right)
                QUARTER: tl.constexpr = BLOCK_N // 4
                add_and_store(first, 0 * QUARTER, out_ptr + place, window_ptr + place, rows, n, n_units, ranks, factor,
                              rows_left, columns_left, N_UNIT, ON_GFX)  # fmt: skip
                add_and_store(second, 1 * QUARTER, out_ptr + place, window_ptr + place, rows, n, n_units, ranks, factor,
                              rows_left, columns_left, N_UNIT, ON_GFX)  # fmt: skip
                add_and_store(third, 2 * QUARTER, out_ptr + place, window_ptr + place, rows, n, n_units, ranks, factor,
                              rows_left, columns_left, N_UNIT, ON_GFX)  # fmt: skip
                add_and_store(fourth, 3 * QUARTER, out_ptr + place, window_ptr + place, rows, n, n_units, ranks, factor,
                              rows_left, columns_left, N_UNIT, ON_GFX)  # fmt: skip
                tile += tl.num_programs(0)
            else:  # what is not there now will not be: the other programs find out by themselves
                tile = tiles
    if written >= 0:
        count_part(state_ptr, written, part_tiles, peers_ptr, rank, ranks, call, ON_GFX)
    finish_call(state_ptr, call, tl.num_programs(0), ON_GFX)
