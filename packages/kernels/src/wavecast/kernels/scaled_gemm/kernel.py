"""Device code of the dense scaled GEMM: persistent programs over the tiles of one output."""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.grouped_gemm.tiles import (
    column_scales,
    first_tile,
    row_scales,
    store_tile,
    sum_of_products,
    tile_position,
)


@triton.jit(do_not_specialize=["m", "n_units", "k_units", "a_units", "b_units"])
def scaled_gemm_kernel(
    a_ptr, b_ptr, out_ptr, a_inverse_ptr, b_inverse_ptr, m, n_units, k_units, a_units, b_units,
    A_ROWS: tl.constexpr, B_COLUMNS: tl.constexpr, UNIT: tl.constexpr, N_UNIT: tl.constexpr, CUT: tl.constexpr,
    IMPRECISE: tl.constexpr, ON_GFX: tl.constexpr, XCDS: tl.constexpr, BAND: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out (m, n) = a (m, k) times b (k, n); A_ROWS, B_COLUMNS: a scale for each row or column, not one for all."""
    n = n_units * N_UNIT
    k = k_units * UNIT
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    for tile in range(first_tile(XCDS), tiles_m * tiles_n, tl.num_programs(0)):
        tile_m, tile_n = tile_position(tile, tiles_m, tiles_n, BAND)
        row = tile_m * BLOCK_M
        column = tile_n * BLOCK_N
        rows = tl.minimum(tl.arange(0, BLOCK_M), m - row - 1)
        columns = tl.minimum(tl.arange(0, BLOCK_N), n - column - 1)
        acc = sum_of_products(
            a_ptr + row.to(tl.int64) * (a_units * UNIT), b_ptr + column.to(tl.int64) * (b_units * UNIT),
            rows * (a_units * UNIT), columns * (b_units * UNIT), 0, k, UNIT, False, CUT, BLOCK_K, IMPRECISE,
        )  # fmt: skip
        if A_ROWS:
            acc *= row_scales(a_inverse_ptr + row, BLOCK_M, m - row)
        else:
            acc *= tl.load(a_inverse_ptr)
        if B_COLUMNS:
            acc *= column_scales(b_inverse_ptr + column, BLOCK_N, n - column)
        else:
            acc *= tl.load(b_inverse_ptr)
        store_tile(out_ptr + row.to(tl.int64) * n + column, acc, n_units, N_UNIT, m - row, n - column, ON_GFX)
