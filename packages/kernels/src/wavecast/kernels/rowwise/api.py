"""Row-wise FP8 quantization: checks, allocation and launch."""

from __future__ import annotations

from typing import Any

import torch

from wavecast.kernels.checks import check_blocks_fit_int32, check_row_major, check_tensor
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.rowwise.kernel import rowwise_resident_kernel, rowwise_streaming_kernel
from wavecast.kernels.rowwise.plan import RowwisePlan, plan_rowwise
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference


def check_rowwise(x: torch.Tensor) -> None:
    """Check what every variant accepts.

    Raises:
        ValueError: see `quantize_rowwise`.
    """
    check_tensor("x", x, ndim=2)
    check_row_major("x", x, column_major_way="colwise_per_group(x.t(), offs) with the one end K has values.t()")
    check_blocks_fit_int32("K", x.shape[1])


def allocate_rowwise(x: torch.Tensor, dtype: torch.dtype) -> Quantized:
    """Row-major (M, K) values, and (M, 1) scales and inverses."""
    m, k = x.shape
    return Quantized(
        values=torch.empty((m, k), dtype=dtype, device=x.device),
        scale=torch.empty((m, 1), dtype=torch.float32, device=x.device),
        inverse=torch.empty((m, 1), dtype=torch.float32, device=x.device),
    )


def launch_fused(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Launch the kernel that is planned for the shape of ``x``.

    Args:
        x: (M, K), rows contiguous, any row stride.
        out: M * K values, M scales and M inverses, all contiguous; their shapes are not looked at.
        conversion: see `Conversion`.
    """
    m, k = x.shape
    launch_planned(x, out, conversion, plan_rowwise(m, k, dtype=x.dtype, arch=conversion.arch))


def launch_planned(x: torch.Tensor, out: Quantized, conversion: Conversion, plan: RowwisePlan) -> None:
    """Launch the kernel that ``plan`` says; the other arguments as in `launch_fused`."""
    m, k = x.shape
    constants: dict[str, Any] = conversion.scale_constants | {
        "BLOCK_K": plan.block_k, "VECTOR": plan.vector, "num_warps": plan.num_warps
    }  # fmt: skip
    if plan.resident:
        rows = {"BLOCK_M": plan.block_m, "PIECES": plan.pieces}
        rowwise_resident_kernel[(plan.programs,)](x, *out, m, k, x.stride(0), **rows, **constants)
    else:
        rowwise_streaming_kernel[(plan.programs,)](x, *out, k, x.stride(0), **constants)


ROWWISE = Quantizer(check=check_rowwise, allocate=allocate_rowwise, reference=quantize_rowwise_reference)


def quantize_rowwise(
    x: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize each row of a matrix with its own scale, in one launch.

    Reads each value once for rows of up to 65,536 values (32,768 on NVIDIA), twice beyond. Accesses are wide where K
    and the row stride are multiples of 16, and value by value where not.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values (M, K), row-major; scale and inverse (M, 1). NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return ROWWISE.run(launch_fused, x, format=format, power_of_two=power_of_two)
