"""Device code: the transposing copy that earlier practice made before it quantized."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def transpose_copy_kernel(
    x_ptr, out_ptr, rows, columns, x_row_stride, out_row_stride, ROWS: tl.constexpr, COLS: tl.constexpr
):
    """out[c, r] = x[r, c]; program (column block, row block); both sides are contiguous along their last axis."""
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    mask = (r < rows) & (c < columns)
    x = tl.load(x_ptr + r.to(tl.int64) * x_row_stride + c, mask=mask)
    tl.store(out_ptr + c.to(tl.int64) * out_row_stride + r, x, mask=mask)
