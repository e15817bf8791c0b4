"""Device code of the grouped GEMM.

Of rows in groups, the group of a tile is found on the device, from the end offsets; the host knows neither them nor the
number of tiles, and persistent programs walk over the tiles of all groups. A program looks at as many groups at once as
a wave has lanes, so that no exchange between waves is needed, and goes on to the next groups when its tiles are beyond
these: 256 groups are four loads.

Of sums over groups, the host knows the tiles, and each has a program: one that went on to further tiles would keep what
they have in common in registers, beside a sum that leaves few.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.grouped_gemm.tiles import (
    column_scales,
    first_tile,
    index_here,
    row_scales,
    store_tile,
    sum_of_products,
    tile_position,
)


@triton.jit
def group_bounds(offs_ptr, group, groups, rows):
    """[start, end) of a group (or of each of several), clipped to the rows that exist; empty beyond the last group."""
    start = tl.load(offs_ptr + group - 1, mask=(group > 0) & (group < groups), other=0)
    end = tl.load(offs_ptr + group, mask=group < groups, other=0)
    start = tl.minimum(tl.maximum(start, 0), rows)
    return start, tl.maximum(tl.minimum(end, rows), start)


# Sizes are not specialised: a new number of tokens must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["m", "n_units", "k_units", "groups", "a_units", "b_group_units", "b_units"])
def grouped_rows_kernel(
    a_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, offs_ptr, m, n_units, k_units, groups, a_units, b_group_units,
    b_units, SCALED: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr, CUT: tl.constexpr,
    IMPRECISE: tl.constexpr, LANES: tl.constexpr, ON_GFX: tl.constexpr, XCDS: tl.constexpr, BAND: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (m, n): rows of group g are those of a (m, k) times b[g] (k, n); rows that no group owns are zero."""
    n = n_units * N_UNIT
    k = k_units * UNIT
    tiles_n = tl.cdiv(n, BLOCK_N)
    tile = first_tile(XCDS)
    for first_group in range(0, groups, LANES):
        lane = tl.arange(0, LANES)
        start, end = group_bounds(offs_ptr, first_group + lane, groups, m)
        tiles = tl.cdiv(end - start, BLOCK_M) * tiles_n
        upto = tl.cumsum(tiles, 0)
        here = tl.max(upto, 0)
        while tile < here:
            passed = upto <= tile
            group = first_group + tl.sum(passed.to(tl.int32), 0)
            group_start, group_end = group_bounds(offs_ptr, group, groups, m)
            tile_m, tile_n = tile_position(tile - tl.max(tl.where(passed, upto, 0), 0),
                                           tl.cdiv(group_end - group_start, BLOCK_M), tiles_n, BAND)  # fmt: skip
            row = group_start + tile_m * BLOCK_M
            column = tile_n * BLOCK_N
            rows_left = group_end - row
            columns_left = n - column
            rows = tl.minimum(index_here(BLOCK_M, rows_left, 64, ON_GFX), rows_left - 1)
            columns = tl.minimum(index_here(BLOCK_N, columns_left, 64, ON_GFX), columns_left - 1)
            acc = sum_of_products(
                a_ptr + row.to(tl.int64) * (a_units * UNIT),
                b_ptr + group.to(tl.int64) * b_group_units * UNIT + column.to(tl.int64) * (b_units * UNIT),
                rows * (a_units * UNIT), columns * (b_units * UNIT), 0, k, UNIT, False, CUT, BLOCK_K, IMPRECISE,
            )  # fmt: skip
            if SCALED:
                acc *= row_scales(a_inverse_ptr + row, BLOCK_M, rows_left)
                acc *= column_scales(b_inverse_ptr + group.to(tl.int64) * n + column, BLOCK_N, columns_left)
            store_tile(out_ptr + row.to(tl.int64) * n + column, acc, n_units, N_UNIT, rows_left, columns_left, ON_GFX)
            tile += tl.num_programs(0)
        tile -= here
    owned = tl.minimum(tl.maximum(tl.load(offs_ptr + groups - 1), 0), m)
    tiles_m = tl.cdiv(m - owned, BLOCK_M)
    while tile < tiles_m * tiles_n:
        row = owned + tile % tiles_m * BLOCK_M
        column = tile // tiles_m * BLOCK_N
        zero = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        store_tile(out_ptr + row.to(tl.int64) * n + column, zero, n_units, N_UNIT, m - row, n - column, ON_GFX)
        tile += tl.num_programs(0)


@triton.jit(do_not_specialize=["p", "q_units", "t", "groups", "a_units", "b_units"])
def grouped_sum_kernel(
    a_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, offs_ptr, p, q_units, t, groups, a_units, b_units,
    SCALED: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr, IMPRECISE: tl.constexpr, ON_GFX: tl.constexpr,
    XCDS: tl.constexpr, BAND: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (groups, p, q): out[g] is a (p, t) times b (t, q) over the part of t that group g owns; zero if none."""
    q = q_units * N_UNIT
    tiles_m = tl.cdiv(p, BLOCK_M)
    tiles_n = tl.cdiv(q, BLOCK_N)
    tile = first_tile(XCDS)
    if tile < groups * tiles_m * tiles_n:
        group = tile // (tiles_m * tiles_n)
        start, end = group_bounds(offs_ptr, group, groups, t)
        tile_m, tile_n = tile_position(tile - group * (tiles_m * tiles_n), tiles_m, tiles_n, BAND)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        rows = tl.minimum(tl.arange(0, BLOCK_M), p - row - 1)
        columns = tl.minimum(tl.arange(0, BLOCK_N), q - column - 1)
        acc = sum_of_products(
            a_ptr + row.to(tl.int64) * (a_units * UNIT), b_ptr + column.to(tl.int64) * (b_units * UNIT),
            rows * (a_units * UNIT), columns * (b_units * UNIT), start, end, UNIT, True, True, BLOCK_K, IMPRECISE,
        )  # fmt: skip
        if SCALED:
            acc *= row_scales(a_inverse_ptr + group.to(tl.int64) * p + row, BLOCK_M, p - row)
            acc *= column_scales(b_inverse_ptr + group.to(tl.int64) * q + column, BLOCK_N, q - column)
        out = out_ptr + (group.to(tl.int64) * p + row) * q + column
        store_tile(out, acc, q_units, N_UNIT, p - row, q - column, ON_GFX)
