"""Block-wise FP8 quantization: checks, allocation and launch."""

from __future__ import annotations

from functools import partial

import torch

from wavecast.kernels.blockwise.kernel import blockwise_kernel
from wavecast.kernels.blockwise.layout import SIDE, Block, is_row_major, row_major, scales_empty, values_empty
from wavecast.kernels.blockwise.plan import plan_blockwise
from wavecast.kernels.blockwise.reference import quantize_blockwise_reference
from wavecast.kernels.checks import check_fits_int32, check_row_major, check_tensor
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer


def sides_of(block: int | Block) -> Block:
    """The sides of a block as they are given: one number for a square.

    Raises:
        ValueError: another block than 128 x 128, 1 x 128 or 128 x 1.
    """
    sides = (block, block) if isinstance(block, int) else tuple(block)
    if sides not in ((SIDE, SIDE), (1, SIDE), (SIDE, 1)):
        raise ValueError(
            f"block is {block!r}; wanted is {SIDE}, ({SIDE}, {SIDE}), (1, {SIDE}) or ({SIDE}, 1): what matrix "
            "multiplications with block scales take; for other scales see quantize_rowwise and quantize_tensorwise"
        )
    return sides


def check_blockwise(x: torch.Tensor, *, block: Block) -> None:
    """Check rank, dtype, layout and what is indexed in 32 bits.

    Raises:
        ValueError: see `quantize_blockwise`.
    """
    check_tensor("x", x, ndim=3 if x.ndim == 3 else 2)
    rows, (_, width) = row_major(x, block)
    check_row_major("x", rows)
    if width != SIDE:
        order = "row-major" if is_row_major(x) else "column-major"
        raise ValueError(
            f"block is {block} and x of shape {tuple(x.shape)} is {order}; the {SIDE} values of a block must be "
            f"contiguous; wanted is block={(block[1], block[0])}, or the other layout, which .mT.contiguous().mT makes"
        )
    check_fits_int32("values between the first and last row of a tile", SIDE * max(rows.stride(-2), rows.shape[-1]))


def allocate_blockwise(x: torch.Tensor, dtype: torch.dtype, *, block: Block) -> Quantized:
    """Values in the layout of ``x`` without gaps, and scales and inverses as `scales_empty` makes them."""
    return Quantized(values_empty(x, dtype), scales_empty(x, block), scales_empty(x, block))


def launch_blockwise(x: torch.Tensor, out: Quantized, conversion: Conversion, *, block: Block) -> None:
    """Launch the kernel; arguments as `check_blockwise` takes and `allocate_blockwise` makes them."""
    rows, (height, _) = row_major(x, block)
    m, k = rows.shape[-2:]
    batch, batch_stride = (1, 0) if x.ndim == 2 else (rows.shape[0], rows.stride(0))
    strides = (batch_stride, rows.stride(-2))
    plan = plan_blockwise(
        batch, m, k, strides=strides, square=height == SIDE, itemsize=x.element_size(), arch=conversion.arch
    )
    vector = plan.vector
    blockwise_kernel[(plan.programs,)](
        x,
        *out,
        m,
        k // vector,
        rows.stride(-2) // vector,
        batch_stride // vector,
        **conversion.scale_constants,
        SQUARE=plan.square,
        TILE_ROWS=plan.tile_rows,
        SIDE=SIDE,
        VECTOR=vector,
        num_warps=plan.num_warps,
    )


def quantizer(block: Block) -> Quantizer[Quantized]:
    """The operator for one block."""
    return Quantizer(
        check=partial(check_blockwise, block=block),
        allocate=partial(allocate_blockwise, block=block),
        reference=partial(quantize_blockwise_reference, block=block),
    )


def quantize_blockwise(
    x: torch.Tensor,
    block: int | Block = SIDE,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize each block of a matrix, or of a batch of matrices, with its own scale; one launch, each value read once.

    Weights have blocks of 128 x 128, in either layout; activations of 1 x 128, along K, where they are row-major, and
    the right operand of a weight gradient of 128 x 1 where it is column-major. Blocks at the ends of a matrix may be
    smaller. Accesses are wide where the row length and the strides are multiples of 16 bytes, and narrower where not.

    Args:
        x: (M, K) or (E, M, K) bf16, fp16 or fp32; row-major, or column-major such as experts' weights with K
            contiguous; rows (or columns) contiguous, any stride from one to the next.
        block: 128 or (128, 128); (1, 128) for row-major ``x``; (128, 1) for column-major ``x``.
        format: FP8 format; None takes the one of the active device.
        power_of_two: round each scale down to a power of two.

    Returns:
        values in the shape and layout of ``x``, without gaps; scale and inverse
        (..., ceil(M / block[0]), ceil(K / block[1])), those of square blocks in the layout of ``x``, those of (1, 128)
        column-major and those of (128, 1) row-major. NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout, block, size or device; no format known.
    """
    sides = sides_of(block)
    launch = partial(launch_blockwise, block=sides)
    return quantizer(sides).run(launch, x, format=format, power_of_two=power_of_two)
