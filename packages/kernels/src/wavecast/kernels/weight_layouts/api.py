"""FP8 quantization of expert weights in both layouts: checks, allocation and launches."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton.language as tl

from wavecast.kernels.checks import check_grid_rows, check_weight
from wavecast.kernels.expert_weights.api import allocate_expert_weights, launch_rows
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.weight_layouts.kernel import weight_layouts_kernel
from wavecast.kernels.weight_layouts.plan import plan_weight_layouts
from wavecast.kernels.weight_layouts.reference import quantize_weight_layouts_reference
from wavecast.kernels.weight_transpose.api import KEYS, allocate_weight_transpose, launch_transposed


class WeightLayouts(NamedTuple):
    """Expert weights quantized for both directions of a layer.

    Attributes:
        columns: values (E, K, N) with K contiguous, scale and inverse (E, 1, N).
        transposed: values (E, N, K) with N contiguous, scale and inverse (E, K).
    """

    columns: Quantized
    transposed: Quantized


def allocate_weight_layouts(weight: torch.Tensor, dtype: torch.dtype) -> WeightLayouts:
    """The outputs of both operators."""
    return WeightLayouts(allocate_expert_weights(weight, dtype), allocate_weight_transpose(weight, dtype))


def weight_layouts_result(weight: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool) -> WeightLayouts:
    """The reference's result."""
    return WeightLayouts(*quantize_weight_layouts_reference(weight, fmt, power_of_two=power_of_two))


def check_weight_layouts(weight: torch.Tensor) -> None:
    """Check what every variant accepts.

    Raises:
        ValueError: see `check_weight`; or more experts than a grid has rows.
    """
    check_weight(weight)
    check_grid_rows("weight", "experts", weight.shape[0])


def launch_weights(weight: torch.Tensor, out: WeightLayouts, conversion: Conversion) -> None:
    """Launch what is planned for the weight; ``out`` as `allocate_weight_layouts` makes it."""
    experts, k, n = weight.shape
    plan = plan_weight_layouts(experts, k, n, dtype=weight.dtype, arch=conversion.arch)
    if plan.rows is None:
        launch_rows(weight, out.columns, conversion)
        launch_transposed(weight, out.transposed, conversion)
        return
    packed = plan.strips.pack == 4
    transposed, scale, inverse = out.transposed
    words = transposed.transpose(1, 2).view(torch.int32 if packed else torch.uint8)
    weight_layouts_kernel[(plan.strips_of_expert + plan.row_programs, experts)](
        weight, *out.columns, words, scale, inverse, k, n, plan.strips_of_expert,
        **conversion.scale_constants,
        FP8=conversion.fmt.triton_dtype,
        WORD=tl.int32 if packed else tl.uint8,
        KEY=KEYS[weight.dtype],
        BLOCK_N=plan.strips.block_n, STRIP_K=plan.strips.block_k,
        RESIDENT_BLOCKS=plan.strips.resident_blocks, STREAMED=plan.strips.streamed, PACK=plan.strips.pack,
        SHARERS=plan.strips.sharers, XCDS=plan.strips.xcds,
        BLOCK_M=plan.rows.block_m, BLOCK_K=plan.rows.block_k, ROW_PIECES=plan.rows.pieces, VECTOR=plan.rows.vector,
        num_warps=plan.strips.num_warps, num_stages=1,
    )  # fmt: skip


WEIGHT_LAYOUTS = Quantizer(
    check=check_weight_layouts, allocate=allocate_weight_layouts, reference=weight_layouts_result
)


def quantize_weight_layouts(
    weight: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> WeightLayouts:
    """Quantize expert weights with one scale per expert and n, and, transposed, with one per expert and k.

    One launch, in which each value is read twice, the second time from a cache if that holds its expert; where
    `plan_weight_layouts` says so, a launch for each layout. Deterministic, no synchronisation with the host. Bytes
    equal those of `quantize_expert_weights` and `quantize_weight_transpose`.

    Args:
        weight: (E, K, N) bf16, fp16 or fp32 with K contiguous, strides (K * N, 1, K).
        format: FP8 format; None takes the native one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        ``columns``: values (E, K, N) with the strides of the weight, scale and inverse (E, 1, N). ``transposed``:
        values (E, N, K) with strides (N * K, 1, N), scale and inverse (E, K).

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return WEIGHT_LAYOUTS.run(launch_weights, weight, format=format, power_of_two=power_of_two)
