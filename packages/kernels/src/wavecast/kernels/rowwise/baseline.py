"""Row-wise quantization as a chain of operators: what eager tensor code launches when nothing is fused.

It stands for the three operators that pytorch/ao#4069 replaced for the activations of a grouped linear layer
(``tensor_to_scale``, multiplication, ``to_fp8_saturated``), without the launches that only change dtypes.

Four launches: amax of each row; scale from the amax; ``x * scale`` into an fp32 intermediate in memory; saturating cast
of the intermediate. Per bf16 value 2 + (2 + 4) + (4 + 1) = 13 bytes move, where the fused kernel needs 3. The
arithmetic is that of the fused kernel, so the results are equal byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from wavecast.kernels._device_helpers import finite_abs, inverse_of, scale_and_saturate, scale_from_amax
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.rowwise.api import ROWWISE, quantize_rowwise

BLOCK = 1024
"""Values a program of an elementwise launch: 4 a lane at 4 waves, one 16-byte access of fp32."""

NUM_WARPS = 4


@triton.jit
def row_amax_kernel(x_ptr, amax_ptr, k, x_row_stride, BLOCK_K: tl.constexpr):
    """amax of the finite values of one row."""
    row = tl.program_id(0).to(tl.int64)
    amax = tl.zeros((BLOCK_K,), tl.float32)
    for start in range(0, k, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        amax = tl.maximum(amax, finite_abs(tl.load(x_ptr + row * x_row_stride + cols, mask=cols < k, other=0.0)))
    tl.store(amax_ptr + row, tl.max(amax, axis=0))


@triton.jit
def scale_kernel(
    amax_ptr,
    scale_ptr,
    inverse_ptr,
    count,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Scale and inverse scale of ``count`` amax values."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    scale = scale_from_amax(tl.load(amax_ptr + index, mask=mask, other=0.0), FP8_MAX, EPS, POWER_OF_TWO)
    tl.store(scale_ptr + index, scale, mask=mask)
    tl.store(inverse_ptr + index, inverse_of(scale), mask=mask)


@triton.jit
def multiply_kernel(x_ptr, scale_ptr, product_ptr, k, x_row_stride, BLOCK: tl.constexpr):
    """One block of one row, times the scale of the row, into the fp32 intermediate."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row_stride + cols, mask=cols < k, other=0.0).to(tl.float32)
    tl.store(product_ptr + row * k + cols, x * tl.load(scale_ptr + row), mask=cols < k)


@triton.jit
def saturating_cast_kernel(product_ptr, values_ptr, count, FP8_MAX: tl.constexpr, BLOCK: tl.constexpr):
    """Clamp and cast ``count`` fp32 values."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    y = scale_and_saturate(tl.load(product_ptr + index, mask=mask, other=0.0), 1.0, FP8_MAX)
    tl.store(values_ptr + index, y.to(values_ptr.dtype.element_ty), mask=mask)


def launch_amax(x: torch.Tensor) -> torch.Tensor:
    """The amax of each row of ``x`` (M, K): (M,) fp32."""
    m, k = x.shape
    amax = torch.empty((m,), dtype=torch.float32, device=x.device)
    row_amax_kernel[(m,)](x, amax, k, x.stride(0), BLOCK_K=BLOCK, num_warps=NUM_WARPS)
    return amax


def launch_multiply_and_cast(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Quantize ``x`` (M, K) with the M scales of ``out`` through an fp32 intermediate in memory: the last launches."""
    m, k = x.shape
    product = torch.empty((m, k), dtype=torch.float32, device=x.device)
    multiply_kernel[(m, triton.cdiv(k, BLOCK))](x, out.scale, product, k, x.stride(0), BLOCK=BLOCK, num_warps=NUM_WARPS)
    saturating_cast_kernel[(triton.cdiv(m * k, BLOCK),)](
        product, out.values, m * k, FP8_MAX=conversion.maximum, BLOCK=BLOCK, num_warps=NUM_WARPS
    )


def launch_separate_kernels(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """The whole chain; arguments as `wavecast.kernels.rowwise.api.launch_fused`."""
    m = x.shape[0]
    scale_kernel[(triton.cdiv(m, BLOCK),)](
        launch_amax(x), out.scale, out.inverse, m, **conversion.scale_constants, BLOCK=BLOCK, num_warps=NUM_WARPS
    )
    launch_multiply_and_cast(x, out, conversion)


VARIANTS: dict[str, Callable[..., Quantized]] = {
    "separate-kernels": partial(ROWWISE.run, launch_separate_kernels),
    "wavecast": quantize_rowwise,
}
"""The variants of the experiment ``rowwise``, the baseline first; all take the arguments of `quantize_rowwise`."""
