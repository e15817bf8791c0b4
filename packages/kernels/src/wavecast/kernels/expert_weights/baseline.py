"""Two slower forms of expert weight quantization that practice used, written anew from pytorch/ao.

*five-kernels*: what pytorch/ao#4311 replaced, an operator chain over the E * N columns: amax of absolute values;
division of the maximum by the clamped amax; rounding to a power of two; multiplication into an fp32 copy of the weight;
saturating cast. 13 bytes a bf16 value. (The chain computes its inverse scales where it rounds.)

*fused*: what #4311 put there, ``triton_fp8_colwise_3d_scale_and_cast`` of pytorch/ao@36027d82: one launch, a program
for BLOCK_N columns of one expert, that walks over K twice in tiles of BLOCK_K: 5 bytes a value are asked for. A program
comes back to a value only after BLOCK_N * K others. Upstream tunes over BLOCK_K of 128 and 256, BLOCK_N of 64 and 128,
and 4 and 8 waves, with 2 stages on AMD GPUs; this is the first of these, and which one wins is not published.

The chain computes as everywhere here. The fused form has upstream's numerics (fp64 division, log2, NaN becomes -max)
and, beyond it, writes the inverse scales.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

from wavecast.kernels._device_helpers import floor_to_power_of_two, inverse_of, scale_from_amax
from wavecast.kernels._earlier_numerics import scale_and_clamp, scale_in_fp64
from wavecast.kernels.expert_weights.api import EXPERT_WEIGHTS, columns_as_rows, quantize_expert_weights
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.reference_ops import EPS
from wavecast.kernels.rowwise.baseline import BLOCK, NUM_WARPS, launch_amax, launch_multiply_and_cast

FUSED_BLOCK_K = 128
FUSED_BLOCK_N = 64
FUSED_NUM_WARPS = 4
FUSED_NUM_STAGES = 2


@triton.jit
def divide_kernel(amax_ptr, scale_ptr, count, FP8_MAX: tl.constexpr, EPS: tl.constexpr, BLOCK: tl.constexpr):
    """``count`` scales from their amax values, not rounded."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    amax = tl.load(amax_ptr + index, mask=index < count, other=0.0)
    tl.store(scale_ptr + index, scale_from_amax(amax, FP8_MAX, EPS, False), mask=index < count)


@triton.jit
def round_kernel(scale_ptr, inverse_ptr, count, POWER_OF_TWO: tl.constexpr, BLOCK: tl.constexpr):
    """Round ``count`` scales down to powers of two in place, if asked for, and invert them."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + index, mask=index < count, other=1.0)
    if POWER_OF_TWO:
        scale = floor_to_power_of_two(scale)
    tl.store(scale_ptr + index, scale, mask=index < count)
    tl.store(inverse_ptr + index, inverse_of(scale), mask=index < count)


@triton.jit
def two_pass_kernel(
    w_ptr,
    stride_e: tl.int64,
    stride_k,
    stride_n,
    values_ptr,
    out_stride_e: tl.int64,
    out_stride_k,
    out_stride_n,
    scale_ptr,
    inverse_ptr,
    k,
    n,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Quantize BLOCK_N columns of one expert: one walk over K for the amax, another for the cast."""
    expert = tl.program_id(0)
    ns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    n_mask = ns < n
    amax = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        mask = (ks[:, None] < k) & n_mask[None, :]
        offsets = expert * stride_e + ks[:, None] * stride_k + ns[None, :] * stride_n
        w = tl.load(w_ptr + offsets, mask=mask, other=0.0)
        amax = tl.maximum(amax, tl.max(tl.abs(w), axis=0).to(tl.float32))
    scale = scale_in_fp64(amax, FP8_MAX, EPS, POWER_OF_TWO)
    tl.store(scale_ptr + expert * n + ns, scale, mask=n_mask)
    tl.store(inverse_ptr + expert * n + ns, inverse_of(scale), mask=n_mask)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        mask = (ks[:, None] < k) & n_mask[None, :]
        offsets = expert * stride_e + ks[:, None] * stride_k + ns[None, :] * stride_n
        y = scale_and_clamp(tl.load(w_ptr + offsets, mask=mask, other=0.0), scale[None, :], FP8_MAX)
        out_offsets = expert * out_stride_e + ks[:, None] * out_stride_k + ns[None, :] * out_stride_n
        tl.store(values_ptr + out_offsets, y.to(values_ptr.dtype.element_ty), mask=mask)


def launch_five_kernels(weight: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """The operator chain; arguments as `wavecast.kernels.expert_weights.api.launch_rows`."""
    rows = columns_as_rows(weight)
    count = rows.shape[0]
    grid = (triton.cdiv(count, BLOCK),)
    blocks = {"BLOCK": BLOCK, "num_warps": NUM_WARPS}
    amax = launch_amax(rows)
    divide_kernel[grid](amax, out.scale, count, FP8_MAX=conversion.maximum, EPS=EPS, **blocks)
    round_kernel[grid](out.scale, out.inverse, count, POWER_OF_TWO=conversion.power_of_two, **blocks)
    launch_multiply_and_cast(rows, out, conversion)


def launch_two_pass(weight: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """The fused two-pass form; arguments as `wavecast.kernels.expert_weights.api.launch_rows`."""
    experts, k, n = weight.shape
    two_pass_kernel[(experts, triton.cdiv(n, FUSED_BLOCK_N))](
        weight, *weight.stride(), out.values, *out.values.stride(), out.scale, out.inverse, k, n,
        **conversion.scale_constants, BLOCK_K=FUSED_BLOCK_K, BLOCK_N=FUSED_BLOCK_N,
        num_warps=FUSED_NUM_WARPS, num_stages=FUSED_NUM_STAGES,
    )  # fmt: skip


VARIANTS: dict[str, Callable[..., Quantized]] = {
    "five-kernels": partial(EXPERT_WEIGHTS.run, launch_five_kernels),
    "fused": partial(EXPERT_WEIGHTS.run, launch_two_pass),
    "wavecast": quantize_expert_weights,
}
"""The variants of ``expert-weights``, the baseline first; all take the arguments of `quantize_expert_weights`."""
