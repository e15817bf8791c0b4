"""Transposing weight quantization in two launches and a fill, joined by an atomic minimum over scales.

The form that the backward pass of torchao's FP8 grouped matrix multiplication uses:
``triton_fp8_rowwise_3d_transpose_rhs`` of pytorch/ao@36027d82 with its one configuration (tiles of 128 x 128, 4 waves,
4 stages), written anew with its numerics (fp64 division, log2, NaN becomes -max). Scales are filled with +Inf; one
launch takes the amax of each tile and lowers the scale of each k by an atomic minimum; a second launch reads the weight
again, transposes each tile, scales, clamps and stores. The minimum over the scales of tiles is the scale of the whole,
since the map from amax to scale is monotone, also when it is rounded to a power of two.

The memory order is the only difference between the variants: ``acq_rel``, Triton's default, orders all memory around
every atomic, ``relaxed`` (pytorch/ao#3945) does not. Relaxed is enough, because the scales are read by a later launch
only.

The cast launch also writes the inverse scales, a value for each row of a tile; upstream has another launch for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import triton
import triton.language as tl

from wavecast.kernels._device_helpers import inverse_of
from wavecast.kernels._earlier_numerics import scale_and_clamp, scale_in_fp64
from wavecast.kernels.quantizer import Conversion, Quantized
from wavecast.kernels.weight_transpose.api import WEIGHT_TRANSPOSE, quantize_weight_transpose

BLOCK_K = 128
BLOCK_N = 128
NUM_WARPS = 4
NUM_STAGES = 4
FILL_BLOCK = 1024


@triton.jit
def fill_kernel(ptr, count, VALUE: tl.constexpr, BLOCK: tl.constexpr):
    """Write ``VALUE`` to ``count`` fp32 values."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(ptr + index, tl.full((BLOCK,), VALUE, tl.float32), mask=index < count)


@triton.jit
def tile_scale_kernel(
    w_ptr,
    stride_e: tl.int64,
    stride_k,
    stride_n,
    scale_ptr,
    k,
    n,
    FP8_MAX: tl.constexpr,
    EPS: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
    SEMANTICS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Lower the scales of one tile's BLOCK_K values of k to what the tile needs."""
    expert = tl.program_id(0)
    ks = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    ns = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (ks[:, None] < k) & (ns[None, :] < n)
    # Offsets inside an expert fit in 32 bits (the launcher checks), as in the code this stands for.
    tile = tl.load(w_ptr + expert * stride_e + ks[:, None] * stride_k + ns[None, :] * stride_n, mask=mask, other=0.0)
    scale = scale_in_fp64(tl.max(tl.abs(tile), axis=1).to(tl.float32), FP8_MAX, EPS, POWER_OF_TWO)
    # Read by tile_cast_kernel, a later launch; reset by fill_kernel at the next call.
    tl.atomic_min(scale_ptr + expert * k + ks, scale, mask=ks < k, sem=SEMANTICS, scope="gpu")


@triton.jit
def tile_cast_kernel(
    w_ptr,
    stride_e: tl.int64,
    stride_k,
    stride_n,
    values_ptr,
    out_stride_e: tl.int64,
    out_stride_n,
    out_stride_k,
    scale_ptr,
    inverse_ptr,
    k,
    n,
    FP8_MAX: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Transpose, scale and cast one tile; the programs of the first tiles of N also write the inverse scales."""
    expert = tl.program_id(0)
    ks = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    ns = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (ks[:, None] < k) & (ns[None, :] < n)
    tile = tl.load(w_ptr + expert * stride_e + ks[:, None] * stride_k + ns[None, :] * stride_n, mask=mask, other=0.0)
    scale = tl.load(scale_ptr + expert * k + ks, mask=ks < k, other=1.0)
    y = scale_and_clamp(tl.trans(tile), scale[None, :], FP8_MAX).to(values_ptr.dtype.element_ty)
    out_mask = (ns[:, None] < n) & (ks[None, :] < k)
    out_offsets = expert * out_stride_e + ns[:, None] * out_stride_n + ks[None, :] * out_stride_k
    tl.store(values_ptr + out_offsets, y, mask=out_mask)
    if tl.program_id(2) == 0:
        tl.store(inverse_ptr + expert * k + ks, inverse_of(scale), mask=ks < k)


def launch_atomic(
    semantics: Literal["acq_rel", "relaxed"], weight: torch.Tensor, out: Quantized, conversion: Conversion
) -> None:
    """Fill, tile scales, cast; arguments as `wavecast.kernels.weight_transpose.api.launch_transposed`.

    Args:
        semantics: memory order of the atomic minimum.
        weight, out, conversion: as there.
    """
    experts, k, n = weight.shape
    fill_kernel[(triton.cdiv(experts * k, FILL_BLOCK),)](
        out.scale, experts * k, VALUE=float("inf"), BLOCK=FILL_BLOCK, num_warps=NUM_WARPS
    )
    # One tile of N at least: without values, too, a k has a scale.
    grid = (experts, triton.cdiv(k, BLOCK_K), max(triton.cdiv(n, BLOCK_N), 1))
    blocks = {"BLOCK_K": BLOCK_K, "BLOCK_N": BLOCK_N, "num_warps": NUM_WARPS, "num_stages": NUM_STAGES}
    tile_scale_kernel[grid](
        weight, *weight.stride(), out.scale, k, n, **conversion.scale_constants, SEMANTICS=semantics, **blocks
    )
    tile_cast_kernel[grid](
        weight, *weight.stride(), out.values, *out.values.stride(), out.scale, out.inverse, k, n,
        FP8_MAX=conversion.maximum, **blocks,
    )  # fmt: skip


VARIANTS: dict[str, Callable[..., Quantized]] = {
    "atomic-acq-rel": partial(WEIGHT_TRANSPOSE.run, partial(launch_atomic, "acq_rel")),
    "atomic-relaxed": partial(WEIGHT_TRANSPOSE.run, partial(launch_atomic, "relaxed")),
    "wavecast": quantize_weight_transpose,
}
"""The variants of ``weight-transpose``, the baseline first; all take the arguments of `quantize_weight_transpose`."""
