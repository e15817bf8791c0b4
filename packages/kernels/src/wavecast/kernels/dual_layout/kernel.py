"""Device code of both layouts in one launch: the programs of the two quantizers, group by group.

Nothing is shared between them but the caches. The programs of a group's columns and those of its rows follow each
other in the grid, so that what reads a value first takes it from HBM, and what reads it second, moments later, from
NVIDIA's L2 or the Infinity Cache. No program waits for another, so that the result depends on no order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.colwise_per_group.kernel import colwise_per_group_kernel
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel


@triton.jit
def row_program(
    x_ptr, values_ptr, scale_ptr, inverse_ptr, start, end, index, step, columns, row_stride,
    FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
    ROW_PIECES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Blocks ``index``, ``index + step``, ... of BLOCK_M of the rows [start, end), by the row-wise kernel.

    That kernel takes its rows from its place in the grid; the pointers are moved by what is between those and ours.
    """
    for first in range(start + index * BLOCK_M, end, step * BLOCK_M):
        shift = (first - tl.program_id(0) * BLOCK_M).to(tl.int64)
        rowwise_resident_kernel(
            x_ptr + shift * row_stride, values_ptr + shift * columns, scale_ptr + shift, inverse_ptr + shift,
            end - shift, columns, row_stride, FP8_MAX, EPS, POWER_OF_TWO, BLOCK_M, BLOCK_K, ROW_PIECES, VECTOR,
        )  # fmt: skip


# Sizes are not specialised: a new number of tokens must not compile anew. What matters is in the UNIT constexprs.
@triton.jit(do_not_specialize=["tokens_units", "columns_units", "row_stride_units", "groups", "column_blocks"])
def dual_layout_kernel(
    x_ptr, row_values_ptr, row_scale_ptr, row_inverse_ptr, values_ptr, scale_ptr, inverse_ptr, offs_ptr,
    tokens_units, columns_units, row_stride_units, groups, column_blocks,
    TOKENS_UNIT: tl.constexpr, COLUMNS_UNIT: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr, ON_GFX: tl.constexpr, PIECES: tl.constexpr, CHUNK: tl.constexpr, WAVES: tl.constexpr,
    ROW_LANES: tl.constexpr, COL_LANES: tl.constexpr, LANE_COLS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, ROW_PIECES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Program (item, group): the first ``column_blocks`` items are blocks of columns, the others share the rows.

    The rows behind the last group are the last group's, for its row programs.
    """
    if tl.program_id(0) < column_blocks:
        colwise_per_group_kernel(
            x_ptr, offs_ptr, values_ptr, scale_ptr, inverse_ptr, tokens_units, columns_units, row_stride_units, groups,
            TOKENS_UNIT, COLUMNS_UNIT, FP8_MAX, EPS, POWER_OF_TWO, ON_GFX, PIECES, CHUNK, WAVES, ROW_LANES, COL_LANES,
            LANE_COLS,
        )  # fmt: skip
    else:
        tokens = tokens_units * TOKENS_UNIT
        group = tl.program_id(1)
        start = tl.load(offs_ptr + group - 1, mask=group > 0, other=0)
        end = tl.load(offs_ptr + group)
        start = tl.minimum(tl.maximum(start, 0), tokens)
        end = tl.where(group == groups - 1, tokens, tl.minimum(tl.maximum(end, start), tokens))
        row_program(
            x_ptr, row_values_ptr, row_scale_ptr, row_inverse_ptr, start, end, tl.program_id(0) - column_blocks,
            tl.num_programs(0) - column_blocks, columns_units * COLUMNS_UNIT, row_stride_units * COLUMNS_UNIT,
            FP8_MAX, EPS, POWER_OF_TWO, BLOCK_M, BLOCK_K, ROW_PIECES, VECTOR,
        )  # fmt: skip
