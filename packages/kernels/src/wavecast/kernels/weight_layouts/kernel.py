"""Device code of both layouts of expert weights in one launch: the programs of the two quantizers, expert by expert.

As in the dual-layout launch: what reads an expert's values second finds them in a cache, if that holds the expert. A
weight (E, K, N) with K contiguous is, in memory, N rows of K values for each expert; its own layout with a scale per
expert and n is row-wise quantization of these rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wavecast.kernels.dual_layout.kernel import row_program
from wavecast.kernels.weight_transpose.kernel import transpose_strip_kernel


@triton.jit
def weight_layouts_kernel(
    w_ptr, row_values_ptr, row_scale_ptr, row_inverse_ptr, words_ptr, scale_ptr, inverse_ptr, k, n, strips,
    FP8: tl.constexpr, FP8_MAX: tl.constexpr, EPS: tl.constexpr, POWER_OF_TWO: tl.constexpr, WORD: tl.constexpr,
    KEY: tl.constexpr, BLOCK_N: tl.constexpr, STRIP_K: tl.constexpr, RESIDENT_BLOCKS: tl.constexpr,
    STREAMED: tl.constexpr, PACK: tl.constexpr, SHARERS: tl.constexpr, XCDS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, ROW_PIECES: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    """Program (item, expert): the first ``strips`` items transpose a strip of K each, the others share the N rows."""
    expert = tl.program_id(1).to(tl.int64)
    w_ptr += expert * n * k
    if tl.program_id(0) < strips:
        transpose_strip_kernel(
            w_ptr, words_ptr + expert * k * (n // PACK), scale_ptr + expert * k, inverse_ptr + expert * k, k, n, strips,
            FP8, FP8_MAX, EPS, POWER_OF_TWO, WORD, KEY, BLOCK_N, STRIP_K, RESIDENT_BLOCKS, STREAMED, PACK, SHARERS,
            XCDS,
        )  # fmt: skip
    else:
        row_program(
            w_ptr, row_values_ptr + expert * n * k, row_scale_ptr + expert * n, row_inverse_ptr + expert * n, 0, n,
            tl.program_id(0) - strips, tl.num_programs(0) - strips, k, k,
            FP8_MAX, EPS, POWER_OF_TWO, BLOCK_M, BLOCK_K, ROW_PIECES, VECTOR,
        )  # fmt: skip
