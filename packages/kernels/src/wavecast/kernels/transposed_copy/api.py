"""Transposing copy: checks, allocation and launch."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import MOVED_DTYPES, UNITS, check_fits_int32, check_row_major, check_tensor
from wavecast.kernels.device import launch_device, route
from wavecast.kernels.formats import E4M3FN
from wavecast.kernels.transposed_copy.kernel import transpose_kernel
from wavecast.kernels.transposed_copy.plan import plan_transposed_copy
from wavecast.kernels.transposed_copy.reference import copy_transposed_reference


def check_transposed_copy(x: torch.Tensor) -> None:
    """Check rank, dtype and layout.

    Raises:
        ValueError: see `copy_transposed`.
    """
    check_tensor("x", x, ndim=3 if x.ndim == 3 else 2, dtypes=MOVED_DTYPES)
    check_row_major("x", x)


def allocate_transposed_copy(x: torch.Tensor) -> torch.Tensor:
    """The output, uninitialised."""
    return torch.empty((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype=x.dtype, device=x.device)


def launch_transposed_copy(x: torch.Tensor, out: torch.Tensor) -> None:
    """Launch on checked tensors; ``out`` as `allocate_transposed_copy` makes it.

    Raises:
        ValueError: offsets within a tile beyond 32 bits.
    """
    rows, columns = x.shape[-2:]
    batch, batch_stride = (x.shape[0], x.stride(0)) if x.ndim == 3 else (1, 0)
    row_stride = x.stride(-2)
    plan = plan_transposed_copy(batch, rows, columns, strides=(batch_stride, row_stride), itemsize=x.element_size())
    check_fits_int32("elements between the first and last row of a tile", plan.tile_rows * row_stride)
    check_fits_int32("elements between the first and last column of a tile", plan.tile_cols * rows)
    check_fits_int32("the number of tiles", plan.programs)
    unit = UNITS[x.element_size()]
    transpose_kernel[(plan.programs,)](
        x.view(unit),
        out.view(unit),
        batch_stride,
        rows // plan.rows_unit,
        columns // plan.columns_unit,
        row_stride // plan.columns_unit,
        plan.row_tiles,
        plan.column_tiles,
        **plan.constants,
    )


def copy_transposed(x: torch.Tensor) -> torch.Tensor:
    """Copy a matrix, or each of a batch, to where its other dimension is contiguous; one launch, each value read once.

    Accesses are wide where sizes and strides are multiples of 16 bytes, and narrower where not.

    Args:
        x: (M, N) or (B, M, N), bf16, fp16, fp32 or FP8, whose bytes are kept; rows contiguous, any other strides.

    Returns:
        (N, M) or (B, N, M), contiguous.

    Raises:
        ValueError: wrong rank, dtype, layout or device; strides beyond 32-bit offsets in a tile.
    """
    check_transposed_copy(x)
    way = route(x, format=E4M3FN)  # no value is converted: a format that every device has
    with torch.no_grad():
        if way.path.is_plain_torch:
            return copy_transposed_reference(x)
        out = allocate_transposed_copy(x)
        if out.numel():
            with launch_device(x):
                launch_transposed_copy(x, out)
    return out
