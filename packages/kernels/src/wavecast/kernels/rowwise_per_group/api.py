"""Row-wise FP8 quantization per group of columns: checks, allocation and launch."""

from __future__ import annotations

from math import gcd
from typing import Any

import torch

from wavecast.kernels.checks import (
    check_blocks_fit_int32,
    check_fits_int32,
    check_offsets,
    check_row_major,
    check_tensor,
)
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.rowwise_per_group.kernel import rowwise_per_group_kernel
from wavecast.kernels.rowwise_per_group.plan import RowwisePerGroupPlan, plan_rowwise_per_group
from wavecast.kernels.rowwise_per_group.reference import quantize_rowwise_per_group_reference


def check_rowwise_per_group(x: torch.Tensor, offs: torch.Tensor) -> None:
    """Check the arguments.

    Raises:
        ValueError: see `quantize_rowwise_per_group`.
    """
    check_tensor("x", x, ndim=2)
    check_row_major("x", x, column_major_way="colwise_per_group(x.t(), offs) has values.t()")
    check_offsets(offs)
    check_blocks_fit_int32("K", x.shape[1])
    check_fits_int32("the number of rows times groups", x.shape[0] * offs.numel())


def allocate_rowwise_per_group(x: torch.Tensor, offs: torch.Tensor, dtype: torch.dtype) -> Quantized:
    """Row-major (M, K) values, and (G, M) scales and inverses."""
    m, k = x.shape
    return Quantized(
        values=torch.empty((m, k), dtype=dtype, device=x.device),
        scale=torch.empty((offs.numel(), m), dtype=torch.float32, device=x.device),
        inverse=torch.empty((offs.numel(), m), dtype=torch.float32, device=x.device),
    )


def rowwise_per_group_launch(
    x: torch.Tensor, groups: int, conversion: Conversion, plan: RowwisePerGroupPlan
) -> tuple[tuple[int], tuple[int, ...], dict[str, Any]]:
    """Grid, scalar arguments and constexprs of a launch: pure, so that tests can compile what is launched."""
    m, k = x.shape
    unit = gcd(k, x.stride(0), plan.vector)
    blocks = {"BLOCK_M": plan.block_m, "BLOCK_K": plan.block_k, "VECTOR": plan.vector, "num_warps": plan.num_warps}
    return (
        (plan.programs,),
        (m, k // unit, x.stride(0) // unit, groups),
        conversion.scale_constants | blocks | {"UNIT": unit},
    )


def launch_groups(x: torch.Tensor, offs: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Launch the kernel with the planned blocks; ``out`` as `allocate_rowwise_per_group` makes it."""
    m, k = x.shape
    plan = plan_rowwise_per_group(m, k, offs.numel(), dtype=x.dtype, arch=conversion.arch)
    grid, sizes, constants = rowwise_per_group_launch(x, offs.numel(), conversion, plan)
    rowwise_per_group_kernel[grid](x, offs, *out, *sizes, **constants)


ROWWISE_PER_GROUP = Quantizer(
    check=check_rowwise_per_group, allocate=allocate_rowwise_per_group, reference=quantize_rowwise_per_group_reference
)


def quantize_rowwise_per_group(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize each row of each group of columns with its own scale, in one launch.

    The left operand of a weight gradient that sums over the tokens of each group, where it lies with the tokens
    contiguous: `colwise_per_group` makes the same of a token-major one.

    One launch, no synchronisation with the host, deterministic, right for any group sizes. A group that fits the block
    (`RowwisePerGroupPlan.block_k`: on AMD the mean group rounded up to a power of two, up to 65,536 columns; on NVIDIA
    rounded down, up to 1,024) is loaded once; of a longer one all but the last block is loaded again, soon after.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        offs: (G,) int32 end offsets along K, non-decreasing; group g is the columns ``offs[g-1]`` to ``offs[g]``.
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (M, K), row-major, zero in columns from ``offs[-1]`` on; scale and inverse (G, M). NaN stays NaN, +-Inf
        saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return ROWWISE_PER_GROUP.run(launch_groups, x, offs, format=format, power_of_two=power_of_two)
