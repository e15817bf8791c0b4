"""Transposing FP8 quantization of expert weights: checks, allocation and launch."""

from __future__ import annotations

import torch
import triton.language as tl

from wavecast.kernels.checks import INT32_MAX, check_weight
from wavecast.kernels.colwise_per_group.launch_tma import choose_tma, launch_tma
from wavecast.kernels.colwise_per_group.plan_tma import LEAST_TMA_VALUES
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.weight_transpose.kernel import transpose_strip_kernel
from wavecast.kernels.weight_transpose.plan import plan_weight_transpose
from wavecast.kernels.weight_transpose.reference import quantize_weight_transpose_reference

KEYS = {torch.bfloat16: tl.int16, torch.float16: tl.int16, torch.float32: tl.int32}
"""Integer type of a value's magnitude key, as wide as the value."""


def allocate_weight_transpose(weight: torch.Tensor, dtype: torch.dtype) -> Quantized:
    """(E, N, K) values with N contiguous, and (E, K) scales and inverses."""
    experts, k, n = weight.shape
    return Quantized(
        values=torch.empty((experts, k, n), dtype=dtype, device=weight.device).transpose(1, 2),
        scale=torch.empty((experts, k), dtype=torch.float32, device=weight.device),
        inverse=torch.empty((experts, k), dtype=torch.float32, device=weight.device),
    )


def launch_transposed(weight: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Launch what reads ``weight`` once, if there is one; ``out`` as `allocate_weight_transpose` makes it.

    On sm_90 that is the column-wise quantizer's kernel, to which an expert is a group of N rows of K.
    """
    experts, k, n = weight.shape
    if weight.numel() >= LEAST_TMA_VALUES and experts * n <= INT32_MAX:
        rows, lines = weight.transpose(1, 2).view(experts * n, k), out.values.transpose(1, 2)
        tma = choose_tma(rows, lines, experts, conversion)
        if tma is not None:
            offs = torch.arange(n, (experts + 1) * n, n, dtype=torch.int32, device=weight.device)
            launch_tma(rows, offs, lines, out.scale, out.inverse, conversion, tma)
            return
    plan = plan_weight_transpose(experts, k, n, dtype=weight.dtype, arch=conversion.arch)
    packed = plan.pack == 4
    words = out.values.transpose(1, 2).view(torch.int32 if packed else torch.uint8)
    transpose_strip_kernel[(plan.programs,)](
        weight, words, out.scale, out.inverse, k, n, plan.programs,
        **conversion.scale_constants,
        FP8=conversion.fmt.triton_dtype,
        WORD=tl.int32 if packed else tl.uint8,
        KEY=KEYS[weight.dtype],
        BLOCK_N=plan.block_n, BLOCK_K=plan.block_k,
        RESIDENT_BLOCKS=plan.resident_blocks, STREAMED=plan.streamed, PACK=plan.pack,
        SHARERS=plan.sharers, XCDS=plan.xcds, num_warps=plan.num_warps, num_stages=1,
    )  # fmt: skip


WEIGHT_TRANSPOSE = Quantizer(
    check=check_weight, allocate=allocate_weight_transpose, reference=quantize_weight_transpose_reference
)


def quantize_weight_transpose(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize expert weights with one scale per expert and k, and transpose them in memory, in one launch.

    Deterministic: no sum by atomics. Reads each value once for N up to 5,120 of bf16 and 2,560 of fp32 (4,096 and 2,048
    on NVIDIA); of a longer N, the rows beyond are read twice, the second time from the caches; see
    `TransposePlan.read_bytes`. On sm_90 weights of 16-bit values, large enough and with K a multiple of 8 and N of 16,
    have a kernel that reads any N once, after two small launches.
    Loads are wide where K is a multiple of 16, stores where N is; other sizes are right, but slower.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (E, N, K) with strides (N * K, 1, N), N contiguous; scale and inverse (E, K). NaN stays NaN, +-Inf
        saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return WEIGHT_TRANSPOSE.run(launch_transposed, weight, format=format, power_of_two=power_of_two)
