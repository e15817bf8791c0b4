"""FP8 quantization in both layouts: checks, allocation and launches."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import torch

from wavecast.kernels.checks import check_fits_int32
from wavecast.kernels.colwise_per_group.api import ColwiseQuantized, allocate_colwise, check_colwise_arguments
from wavecast.kernels.dual_layout.kernel import convert_kernel, measure_kernel, prepare_kernel
from wavecast.kernels.dual_layout.plan import PREPARE_BLOCK, TILE_ROWS, plan_dual_layout
from wavecast.kernels.dual_layout.reference import quantize_dual_layout_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.rowwise.api import allocate_rowwise, check_rowwise


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
    """Launch the kernels that are planned for ``x``; ``out`` as `allocate_dual_layout` makes it."""
    launch_batches(x, offs, tuple(out.rowwise), tuple(out.colwise), conversion, batches=1)


def launch_batches(
    x: torch.Tensor,
    offs: torch.Tensor | None,
    rowwise: tuple[torch.Tensor, ...],
    colwise: tuple[torch.Tensor | None, ...],
    conversion: Conversion,
    *,
    batches: int,
) -> None:
    """Quantize ``batches`` matrices that lie one below the other.

    Args:
        x: (batches * rows, columns), rows contiguous.
        offs: (groups,) int32 end offsets for the one batch, or None: each batch is one group.
        rowwise: values, scale and inverse; batches * rows * columns values, row-major, and batches * rows scales.
        colwise: likewise; each batch's values column-major, one batch after the other, and (batches * groups, columns)
            scales.
        conversion: see `Conversion`.
        batches: number of matrices.

    Raises:
        ValueError: a tile spans more than 32-bit offsets can.
    """
    rows, columns = x.shape[0] // max(batches, 1), x.shape[1]
    groups = 1 if offs is None else offs.numel()
    plan = plan_dual_layout(batches, rows, columns, element_bytes=x.element_size(), arch=conversion.arch)
    check_fits_int32("elements between the first and last row of a tile", plan.tile_rows * x.stride(0))
    check_fits_int32("elements between the first and last column of a tile", (plan.tile_cols + 1) * rows)
    check_fits_int32("the number of tiles", plan.tiles)

    # One buffer: keys, which are zeroed; bounds of the groups; first and last group of each row tile.
    row_keys, column_keys = _rounded(batches * rows), _rounded(batches * groups * columns)
    bounds = _rounded(groups + 2)
    workspace = torch.empty(
        row_keys + column_keys + bounds + 2 * plan.row_tiles, dtype=torch.int32, device=x.device
    ).split([row_keys, column_keys, bounds, 2 * plan.row_tiles])
    zeros = row_keys + column_keys
    prepare_kernel[(max(-(-zeros // PREPARE_BLOCK), groups + 2, plan.row_tiles),)](
        workspace[0], zeros, workspace[0] if offs is None else offs, workspace[2], workspace[3],
        rows, groups, plan.row_tiles, TILE_ROWS=TILE_ROWS, GROUPED=offs is not None, BLOCK=PREPARE_BLOCK, num_warps=4,
    )  # fmt: skip

    rows_unit = gcd(rows, plan.chunk)
    columns_unit = gcd(columns, x.stride(0), plan.chunk)
    sizes = (
        rows // rows_unit, columns // columns_unit, x.stride(0) // columns_unit, groups, plan.row_tiles,
        plan.column_tiles,
    )  # fmt: skip
    shared = {
        "ROWS_UNIT": rows_unit,
        "COLUMNS_UNIT": columns_unit,
        "GROUPED": offs is not None,
        "TILE_ROWS": plan.tile_rows,
        "TILE_COLS": plan.tile_cols,
        "num_warps": plan.num_warps,
    }
    measure_kernel[(plan.tiles,)](x, *workspace, *sizes, PIECES=plan.pieces, **shared)
    convert_kernel[(plan.tiles,)](
        x, *_bytes(rowwise), *_bytes(colwise), *workspace, *sizes,
        FP8=conversion.fmt.triton_dtype, PACK=plan.pack, CHUNK=plan.chunk, **conversion.scale_constants, **shared,
    )  # fmt: skip


def _rounded(words: int) -> int:
    """At least one, and a multiple of 32, so that what follows is aligned as a buffer of its own would be."""
    return max(-(-words // 32), 1) * 32


def _bytes(out: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor, ...]:
    """Values, scale and inverse, the values as bytes."""
    values, scale, inverse = out
    assert values is not None and scale is not None and inverse is not None  # noqa: PT018 - one fact
    return values.view(torch.uint8), scale, inverse


DUAL_LAYOUT = Quantizer(check=check_dual_layout, allocate=allocate_dual_layout, reference=dual_layout_result)


def quantize_dual_layout(
    x: torch.Tensor,
    offs: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> DualLayout:
    """Quantize a matrix row by row and, per group of rows, column by column: what both directions of a layer need.

    No synchronisation with the host, deterministic, right for any group sizes. Bytes equal those of `quantize_rowwise`
    and `colwise_per_group`.

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
