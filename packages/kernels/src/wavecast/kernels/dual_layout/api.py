"""FP8 quantization in both layouts: checks, allocation and launches."""

from __future__ import annotations

from typing import NamedTuple

import torch

from wavecast.kernels.checks import check_fits_int32
from wavecast.kernels.colwise_per_group.api import (
    ColwiseQuantized,
    allocate_colwise,
    check_colwise_arguments,
    colwise_launch,
    launch_planned,
    parts_launch,
)
from wavecast.kernels.colwise_per_group.kernel_split import column_cast_kernel
from wavecast.kernels.dual_layout.kernel import dual_layout_kernel
from wavecast.kernels.dual_layout.kernel_split import largest_partial_kernel, rows_and_column_amax_kernel
from wavecast.kernels.dual_layout.plan import (
    REDUCED_AT_ONCE,
    REDUCED_COLUMNS,
    REDUCED_WARPS,
    SplitRows,
    plan_dual_layout,
)
from wavecast.kernels.dual_layout.reference import quantize_dual_layout_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.rowwise.api import allocate_rowwise, check_rowwise, launch_fused


class DualLayout(NamedTuple):
    """A matrix quantized along its rows and along its columns.

    Attributes:
        rowwise: values (M, K) row-major, scale and inverse (M, 1).
        colwise: values (M, K) column-major, scale and inverse (groups, K).
    """

    rowwise: Quantized
    colwise: ColwiseQuantized


def check_dual_layout(x: torch.Tensor, offs: torch.Tensor) -> None:
    """Check what every variant accepts.

    Raises:
        ValueError: see `quantize_dual_layout`.
    """
    check_colwise_arguments(x, offs)
    check_rowwise(x)


def allocate_dual_layout(x: torch.Tensor, offs: torch.Tensor, dtype: torch.dtype) -> DualLayout:
    """The outputs of both operators."""
    return DualLayout(allocate_rowwise(x, dtype), allocate_colwise(x, offs, dtype))


def dual_layout_result(x: torch.Tensor, offs: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool) -> DualLayout:
    """The reference's result."""
    rowwise, colwise = quantize_dual_layout_reference(x, offs, fmt=fmt, power_of_two=power_of_two)
    return DualLayout(rowwise, ColwiseQuantized(*colwise))


def launch_both(x: torch.Tensor, offs: torch.Tensor, out: DualLayout, conversion: Conversion) -> None:
    """Launch what is planned for ``x``; ``out`` as `allocate_dual_layout` makes it.

    Raises:
        ValueError: a tile spans more than 32-bit offsets can.
    """
    tokens, columns = x.shape
    groups = offs.numel()
    plan = plan_dual_layout(tokens, columns, groups, element_bytes=x.element_size(), arch=conversion.arch)
    if plan.split is not None:
        launch_split(x, offs, out, conversion, plan.split)
        return
    if plan.rows is None:
        launch_fused(x, out.rowwise, conversion)
        launch_planned(x, offs, out.colwise, conversion)
        return
    check_fits_int32("elements between the first and last row of a tile", plan.columns.rows * x.stride(0))
    check_fits_int32("elements between the first and last column of a tile", (plan.columns.columns + 1) * tokens)
    (blocks, _), sizes, constants = colwise_launch(
        x, groups, fmt=conversion.fmt, power_of_two=conversion.power_of_two, plan=plan.columns
    )
    registers = {} if plan.max_registers is None else {"maxnreg": plan.max_registers}
    dual_layout_kernel[(blocks + plan.row_programs, groups)](
        x, *out.rowwise, *out.colwise, offs, *sizes, blocks,
        BLOCK_M=plan.rows.block_m, BLOCK_K=plan.rows.block_k, ROW_PIECES=plan.rows.pieces, VECTOR=plan.rows.vector,
        **constants, **registers,
    )  # fmt: skip


def launch_split(x: torch.Tensor, offs: torch.Tensor, out: DualLayout, conversion: Conversion, plan: SplitRows) -> None:
    """Launch rows with the amax of their columns, its maximum over programs, and the cast of the columns."""
    tokens, columns = x.shape
    groups = offs.numel()
    fmt, power_of_two = conversion.fmt, conversion.power_of_two
    grid, sizes, constants = parts_launch(x, groups, fmt=fmt, power_of_two=power_of_two, plan=plan.columns)
    partial = torch.empty((groups, plan.programs, columns), dtype=torch.float32, device=x.device)
    amax = torch.empty((groups, columns), dtype=torch.float32, device=x.device)
    rows = plan.rows
    rows_and_column_amax_kernel[(plan.programs, groups)](
        x, offs, partial, *out.rowwise, tokens, *sizes[1:], COLUMNS_UNIT=constants["COLUMNS_UNIT"],
        BLOCK_M=rows.block_m, BLOCK_K=rows.block_k, PIECES=rows.pieces, VECTOR=rows.vector,
        num_warps=plan.num_warps, **conversion.scale_constants,
    )  # fmt: skip
    largest_partial_kernel[(-(-columns // REDUCED_COLUMNS), groups)](
        partial, amax, plan.programs, columns, BLOCK_P=REDUCED_AT_ONCE, BLOCK_N=REDUCED_COLUMNS, num_warps=REDUCED_WARPS
    )
    column_cast_kernel[grid](x, offs, amax, *out.colwise, 1, *sizes, **constants)


DUAL_LAYOUT = Quantizer(check=check_dual_layout, allocate=allocate_dual_layout, reference=dual_layout_result)


def quantize_dual_layout(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> DualLayout:
    """Quantize a matrix row by row and, per group of rows, column by column: what both directions of a layer need.

    One launch, in which each value is read twice, the second time from a cache if that holds its group; where
    `plan_dual_layout` says so, a launch for each layout. Groups that no cache holds, and those that are too few to fill
    the device, take three: the first quantizes rows and finds the amax of the columns, so that memory is read twice and
    not three times. No synchronisation with the host, deterministic, right for any group sizes. Bytes equal those of
    `quantize_rowwise` and `colwise_per_group`.

    Args:
        x: (M, K) bf16, fp16 or fp32; rows contiguous, any row stride.
        offs: (groups,) int32 end offsets, non-decreasing; group g is rows ``offs[g-1]`` to ``offs[g]``.
        format: FP8 format; None takes the native one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        ``rowwise``: values (M, K) row-major, scale and inverse (M, 1), all rows. ``colwise``: values (M, K)
        column-major, strides (1, M), zero from row ``offs[-1]`` on, scale and inverse (groups, K).

    Raises:
        ValueError: wrong rank, dtype, layout, size or device; no format known.
    """
    return DUAL_LAYOUT.run(launch_both, x, offs, format=format, power_of_two=power_of_two)
