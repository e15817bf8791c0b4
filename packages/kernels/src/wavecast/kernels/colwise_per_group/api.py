"""Column-wise FP8 quantization per group: checks, allocation and launch."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import torch

from wavecast.kernels.checks import check_fits_int32, check_grid_rows, check_offsets, check_row_major, check_tensor
from wavecast.kernels.colwise_per_group.kernel import colwise_per_group_kernel
from wavecast.kernels.colwise_per_group.kernel_split import column_amax_kernel, column_cast_kernel
from wavecast.kernels.colwise_per_group.launch_hip import launch_colwise_hip
from wavecast.kernels.colwise_per_group.launch_tma import choose_tma, launch_tma
from wavecast.kernels.colwise_per_group.plan import Plan, plan
from wavecast.kernels.colwise_per_group.plan_split import SplitPlan, plan_split
from wavecast.kernels.colwise_per_group.plan_tma import LEAST_TMA_VALUES
from wavecast.kernels.colwise_per_group.reference import column_major_empty, colwise_per_group_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantizer
from wavecast.kernels.reference_ops import EPS


class ColwiseQuantized(NamedTuple):
    """A matrix quantized column by column and group by group.

    Attributes:
        values: ``(tokens, columns)`` FP8, column-major: strides ``(1, tokens)``.
        scale: ``(groups, columns)`` fp32, the factor that was multiplied in.
        inverse: ``(groups, columns)`` fp32, ``1 / scale``, what a GEMM multiplies its result by; None from the variants
            that stand for earlier practice, which computed it in another launch.
    """

    values: torch.Tensor
    scale: torch.Tensor
    inverse: torch.Tensor | None


def check_colwise_arguments(x: torch.Tensor, offs: torch.Tensor) -> None:
    """Check what every variant of the operator accepts.

    Raises:
        ValueError: see `colwise_per_group`.
    """
    check_tensor("x", x, ndim=2)
    check_row_major("x", x, column_major_way="quantize_rowwise_per_group(x.t(), offs) has values.t()")
    check_offsets(offs)
    check_grid_rows("offs", "groups", offs.numel())


def allocate_colwise(x: torch.Tensor, offs: torch.Tensor, dtype: torch.dtype) -> ColwiseQuantized:
    """Column-major values, and ``(groups, columns)`` scales and inverses."""
    tokens, columns = x.shape
    return ColwiseQuantized(
        values=column_major_empty(tokens, columns, dtype, x.device),
        scale=torch.empty((offs.numel(), columns), dtype=torch.float32, device=x.device),
        inverse=torch.empty((offs.numel(), columns), dtype=torch.float32, device=x.device),
    )


def colwise_result(x: torch.Tensor, offs: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool) -> ColwiseQuantized:
    """The reference's result."""
    return ColwiseQuantized(*colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two))


def launch_planned(x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion) -> None:
    """Launch what is planned for ``x``; ``out`` as `allocate_colwise` makes it."""
    values, scale, inverse = out
    assert inverse is not None
    tokens, columns = x.shape
    groups = offs.numel()
    fmt, power_of_two = conversion.fmt, conversion.power_of_two
    of_input = {"element_bytes": x.element_size(), "arch": conversion.arch}
    chosen = plan(tokens, groups, **of_input)
    if tokens > groups * chosen.rows and x.numel() >= LEAST_TMA_VALUES:
        tma = choose_tma(x, values.t(), groups, conversion)
        if tma is not None:
            launch_tma(x, offs, values.t(), scale, inverse, conversion, tma)
            return
    parts = plan_split(tokens, columns, groups, **of_input) if columns else None
    if parts is not None:
        launch_parts(x, offs, values, scale, inverse, fmt=fmt, power_of_two=power_of_two, plan=parts)
        return
    launch_colwise(x, offs, values, scale, inverse, fmt=fmt, power_of_two=power_of_two, plan=chosen)


ONLY_CAST = ("FP8_MAX", "EPS", "POWER_OF_TWO", "ON_GFX")
"""Constexprs that the amax of parts does not need."""

COLWISE = Quantizer(check=check_colwise_arguments, allocate=allocate_colwise, reference=colwise_result)


def colwise_per_group(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ColwiseQuantized:
    """Quantize ``x`` to FP8 with one scale per group of rows and column, stored column-major.

    One launch, no synchronisation with the host, deterministic, right for any group sizes. A group that fits the tile
    (`Plan.rows`) is read from memory once; of a longer one all but the last tile is read twice. On sm_90, groups whose
    mean is longer have a kernel that reads them once (`plan_tma`, after a launch that zeroes what its programs share).
    Else long groups that are too few to fill the device, as the one of a linear layer, are cut into parts and read
    twice by two launches (`plan_split`). The bytes are the same.

    Args:
        x: ``(tokens, columns)``, bf16, fp16 or fp32; rows contiguous, any row stride.
        offs: ``(groups,)`` int32 end offsets, non-decreasing; group g is rows ``offs[g-1]`` to ``offs[g]``.
        format: FP8 format; None takes the native one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values, scale and inverse scale; rows from ``offs[-1]`` on are zero. ``docs/concepts/numerics.md`` has the
        policy for zero, tiny, infinite and NaN inputs.

    Raises:
        ValueError: wrong rank, dtype, layout or device; sizes beyond 32-bit offsets in a tile.
    """
    return COLWISE.run(launch_planned, x, offs, format=format, power_of_two=power_of_two)


def colwise_per_group_hip(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> ColwiseQuantized:
    """`colwise_per_group` by a kernel in HIP: the same bytes, on gfx942 and gfx950.

    It takes bf16 and fp16 to the E4M3 format of the architecture, rows and columns in multiples of 8.

    Raises:
        ValueError: as `colwise_per_group`, or what the kernel does not take, with the reason.
        RuntimeError: there is neither hipcc nor ziglang to compile it.
    """
    return COLWISE.run(_launch_hip, x, offs, format=format, power_of_two=power_of_two)


def _launch_hip(x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion) -> None:
    values, scale, inverse = out
    assert inverse is not None
    launch_colwise_hip(
        x, offs, values, scale, inverse, fmt=conversion.fmt, power_of_two=conversion.power_of_two, arch=conversion.arch
    )


def launch_colwise(
    x: torch.Tensor,
    offs: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    plan: Plan,
) -> None:
    """Launch the kernel into outputs that the caller has allocated.

    Args:
        x, offs: as in `colwise_per_group`.
        values: ``(tokens, columns)``, strides ``(1, tokens)``; of ``fmt``'s dtype (or fp32, to see what is cast).
        scale, inverse: ``(groups, columns)`` fp32, contiguous.
        fmt: the format whose maximum the scales map to.
        power_of_two: round scales down to powers of two.
        plan: the tile.

    Raises:
        ValueError: a tile spans more than 32-bit offsets can.
    """
    if x.shape[1] == 0:
        return
    check_fits_int32("elements between the first and last row of a tile", plan.rows * x.stride(0))
    check_fits_int32("elements between the first and last column of a tile", (plan.columns + 1) * x.shape[0])
    grid, arguments, constants = colwise_launch(x, offs.numel(), fmt=fmt, power_of_two=power_of_two, plan=plan)
    colwise_per_group_kernel[grid](x, offs, values, scale, inverse, *arguments, **constants)


def launch_parts(
    x: torch.Tensor,
    offs: torch.Tensor,
    values: torch.Tensor,
    scale: torch.Tensor,
    inverse: torch.Tensor,
    *,
    fmt: Fp8Format,
    power_of_two: bool,
    plan: SplitPlan,
) -> None:
    """Launch the amax of parts, then their cast; arguments and errors as those of `launch_colwise`."""
    grid, sizes, constants = parts_launch(x, offs.numel(), fmt=fmt, power_of_two=power_of_two, plan=plan)
    of_amax = {key: value for key, value in constants.items() if key not in ONLY_CAST}
    partial = torch.empty((offs.numel(), plan.parts, x.shape[1]), dtype=torch.float32, device=x.device)
    column_amax_kernel[grid](x, offs, partial, *sizes, **of_amax)
    column_cast_kernel[grid](x, offs, partial, values, scale, inverse, plan.parts, *sizes, **constants)


def parts_launch(
    x: torch.Tensor, groups: int, *, fmt: Fp8Format, power_of_two: bool, plan: SplitPlan
) -> tuple[tuple[int, int, int], tuple[int, ...], dict[str, Any]]:
    """Grid, sizes and constexprs of ``column_cast_kernel``.

    Raises:
        ValueError: a tile spans more than 32-bit offsets can.
    """
    tile = plan.tile
    check_fits_int32("elements between the first and last row of a tile", tile.rows * x.stride(0))
    check_fits_int32("elements between the first and last column of a tile", (tile.columns + 1) * x.shape[0])
    (blocks, _), sizes, constants = colwise_launch(x, groups, fmt=fmt, power_of_two=power_of_two, plan=tile)
    del constants["PIECES"]
    return (blocks, plan.parts, groups), sizes, constants


def colwise_launch(
    x: torch.Tensor, groups: int, *, fmt: Fp8Format, power_of_two: bool, plan: Plan
) -> tuple[tuple[int, int], tuple[int, ...], dict[str, Any]]:
    """Grid, scalar arguments and constexprs of a launch: pure, so that tests can compile what is launched."""
    tokens, columns = x.shape
    tokens_unit = gcd(tokens, plan.chunk)
    columns_unit = gcd(columns, x.stride(0), plan.lane_cols)
    constants = {
        "TOKENS_UNIT": tokens_unit,
        "COLUMNS_UNIT": columns_unit,
        "FP8_MAX": fmt.max,
        "EPS": EPS,
        "POWER_OF_TWO": power_of_two,
        "ON_GFX": plan.on_gfx,
        "PIECES": plan.pieces,
        "CHUNK": plan.chunk,
        "WAVES": plan.waves,
        "ROW_LANES": plan.row_lanes,
        "COL_LANES": plan.col_lanes,
        "LANE_COLS": plan.lane_cols,
        "num_warps": plan.waves,
    }
    arguments = (tokens // tokens_unit, columns // columns_unit, x.stride(0) // columns_unit, groups)
    return (-(-columns // plan.columns), groups), arguments, constants
