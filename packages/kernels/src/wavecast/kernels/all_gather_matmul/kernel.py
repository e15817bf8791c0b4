# mypy: ignore-errors
# ruff: noqa: SIM102 - a branch on a constexpr is chosen when compiling, which a joined condition is not.
"""Device code of all-gather+matmul: persistent programs that multiply each rank's rows as soon as they are there.

The gathered matrix is (m, k), of which every rank contributes ``shard_rows`` rows, a *chunk*. Tiles are visited from
this rank's own chunk onwards, in the order in which rows are fetched: chunk after chunk, wrapping around, or, where
chunks of all ranks come at once, first what the first signal of each tells of, then what the second does. A tile within
the own chunk is read from the shard itself and waits for nothing; any other is read from the gathered matrix and waits
for all signals that tell of its rows. What is of the own chunk there has one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels._device_helpers import issued_here_scalar
from wavecast.kernels.async_tp.device_signals import CALL, finish_call, report_failure, take_turn, wait_for_signal
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


@triton.jit
def tile_of_turn(turn, turns, die, tiles, XCDS: tl.constexpr):
    """Number of the tile that is a die's ``turn``-th.

    In a round each die has ``turns`` of them that are behind one another, so that its programs share operands; what is
    left for the last round is shared out among the dies.
    """
    first = turn // turns * (turns * XCDS)
    inside = turn % turns
    whole = first + turns * XCDS <= tiles
    return first + tl.where(whole, die * turns + inside, inside * XCDS + die)


@triton.jit
def signal_of(row, shard_rows, signal_rows, signals):
    """Number of the signal that tells of a row, of which each chunk has ``signals``."""
    chunk = row // shard_rows
    return chunk * signals + (row - chunk * shard_rows) // signal_rows


@triton.jit
def next_by_arrival(visit, place, rank, ranks, shard_rows, signal_rows, BLOCK_M: tl.constexpr):
    """Row of tiles that is visited as ``visit``-th where chunks of all ranks come at once, and where it was found.

    Rows of tiles are visited in groups: the own chunk's, then those of each signal of the others. Visits mostly grow,
    so each is looked for from the group of the last one on.

    Args:
        place: (step, row, visits): a group by the number of ranks from this one on and its first row within the chunk,
            and the visits before it.
    """
    step, row, before = place
    back = visit < before
    step = tl.where(back, 0, step)
    row = tl.where(back, 0, row)
    before = tl.where(back, 0, before)
    first, count = group_of_tiles(step, row, rank, ranks, shard_rows, signal_rows, BLOCK_M)
    while visit - before >= count:
        before += count
        row = tl.where(step == ranks - 1, row + signal_rows, row)
        step = tl.where(step == ranks - 1, 1, step + 1)
        first, count = group_of_tiles(step, row, rank, ranks, shard_rows, signal_rows, BLOCK_M)
    return first + visit - before, (step, row, before)


@triton.jit
def group_of_tiles(step, row, rank, ranks, shard_rows, signal_rows, BLOCK_M: tl.constexpr):
    """First row of tiles that begins in a group, and how many do."""
    chunk = rank + step
    start = tl.where(chunk >= ranks, chunk - ranks, chunk) * shard_rows
    end = start + tl.where(step == 0, shard_rows, tl.minimum(row + signal_rows, shard_rows))
    first = tl.cdiv(start + row, BLOCK_M)
    return first, tl.cdiv(end, BLOCK_M) - first


@triton.jit(
    do_not_specialize=[
        "m", "shard_rows", "signal_rows", "n_units", "k_units", "b_units", "rank", "ranks", "polls", "row_elements",
        "scales_at",
    ]
)  # fmt: skip
def all_gather_matmul_kernel(
    gathered_ptr, shard_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, bias_ptr, words_ptr, signals_ptr, state_ptr,
    failure_ptr, windows_ptr, m, shard_rows, signal_rows, n_units, k_units, b_units, rank, ranks, polls,
    row_elements, scales_at, SCALED: tl.constexpr, A_ROWS: tl.constexpr, B_COLUMNS: tl.constexpr, BIASED: tl.constexpr,
    LAST: tl.constexpr, FETCHERS: tl.constexpr, PEERS: tl.constexpr, FETCH_SCALES: tl.constexpr,
    FETCH_BLOCK: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr, CUT: tl.constexpr, IMPRECISE: tl.constexpr,
    ON_GFX: tl.constexpr, XCDS: tl.constexpr, BAND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (m, n) = gathered (m, k) times b (k, n), scaled, plus bias (n,).

    Args:
        shard_ptr: this rank's rows of the gathered matrix, wherever they are.
        signals_ptr: words for every rank, one for ``signal_rows`` rows of its chunk each: the number of the call from
            when on these are in the gathered matrix. The first of the own ones tells of the whole own chunk, for tiles
            that have rows of others too.
        state_ptr: `CALL` and following.
        failure_ptr: 4 words, see `report_failure`.
        words_ptr, windows_ptr, row_elements, scales_at: for `fetch_chunks`, of which words_ptr is the gathered matrix
            as the widest elements that a row is a multiple of.
        polls: of a signal that does not come.
        A_ROWS, B_COLUMNS: a scale for each row or column, not one for all.
        LAST: whether no further launch waits for the signals of this call.
        FETCHERS: programs that fetch; 0 if something else does.
        PEERS: ranks that chunks come from at a time, 1 or all others.
    """
    call = tl.load(state_ptr + CALL)
    if FETCHERS > 0:
        if tl.program_id(0) < FETCHERS:
            fetch_chunks(words_ptr, a_inverse_ptr, windows_ptr, signals_ptr, state_ptr, call, row_elements, shard_rows,
                         signal_rows, scales_at, rank, ranks, FETCH_SCALES, FETCHERS, PEERS, FETCH_BLOCK,
                         ON_GFX)  # fmt: skip
    n = n_units * N_UNIT
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    place = (rank * 0, rank * 0, rank * 0)
    arrived = tl.full((), 0, tl.int64)
    tiles = tiles_m * tiles_n
    # Programs of a die take turns at its tiles. The first ones are theirs from the start; those that fetch come behind.
    programs = tl.num_programs(0) - FETCHERS
    turns = programs // XCDS
    program = tl.program_id(0) - FETCHERS
    die = (program + FETCHERS) % XCDS
    turn = program // XCDS
    if FETCHERS > 0:
        if program < 0:
            turn = turns + take_turn(state_ptr, die, ON_GFX)
        else:
            die = program % XCDS
    tile = tile_of_turn(turn, turns, die, tiles, XCDS)
    while tile < tiles:
        # What is made of these for each tile takes few instructions. The compiler would make all of it before the first
        # one, reciprocals of divisors above all, and have no scalar registers for it beside the sum's.
        rank = issued_here_scalar(rank, ON_GFX)
        ranks = issued_here_scalar(ranks, ON_GFX)
        polls = issued_here_scalar(polls, ON_GFX)
        shard_rows = issued_here_scalar(shard_rows, ON_GFX)
        signal_rows = issued_here_scalar(signal_rows, ON_GFX)
        tiles_n = issued_here_scalar(tiles_n, ON_GFX)
        turns = issued_here_scalar(turns, ON_GFX)
        n = issued_here_scalar(n_units, ON_GFX) * N_UNIT
        k = issued_here_scalar(k_units, ON_GFX) * UNIT
        own_start = rank * shard_rows
        visit_m, tile_n = tile_position(tile, tiles_m, tiles_n, BAND)
        if PEERS == 1:
            tile_m = rotated(visit_m, tiles_m, shard_rows, rank, BLOCK_M)
        else:
            tile_m, place = next_by_arrival(visit_m, place, rank, ranks, shard_rows, signal_rows, BLOCK_M)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        a_ptr = gathered_ptr + row.to(tl.int64) * k
        end = tl.minimum(row + BLOCK_M, m)
        there = True
        if (row >= own_start) & (end <= own_start + shard_rows):
            a_ptr = shard_ptr + (row - own_start).to(tl.int64) * k
        else:
            signals = tl.cdiv(shard_rows, signal_rows)
            signal = signal_of(row, shard_rows, signal_rows, signals)
            last = signal_of(end - 1, shard_rows, signal_rows, signals)
            while signal <= last:
                if (arrived >> signal) & 1 == 0:
                    chunk = signal // signals
                    told = tl.where(chunk == rank, rank * signals, signal)
                    seen = wait_for_signal(signals_ptr + told, call, polls, ON_GFX)
                    if seen - call < 0:
                        report_failure(failure_ptr, chunk, call, seen, ON_GFX)
                        there = False
                        last = signal
                    arrived |= tl.full((), 1, tl.int64) << signal
                signal += 1
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
            if FETCHERS > 0:
                turn = turns + take_turn(state_ptr, die, ON_GFX)
            else:
                turn += turns
            tile = tile_of_turn(turn, turns, die, tiles, XCDS)
        else:  # what is not there now will not be: the other programs find out by themselves
            tile = tiles
    if LAST or FETCHERS > 0:
        # The grid, from what is kept anyway: whole turns of all dies, and those that fetch.
        programs = turns * XCDS + FETCHERS
        finish_call(state_ptr, call, programs, ON_GFX, LAST, XCDS if FETCHERS > 0 else 0)
