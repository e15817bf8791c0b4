"""Tensor-wise FP8 quantization: checks, allocation and launch."""

from __future__ import annotations

import torch

from wavecast.kernels.checks import INPUT_DTYPES, check_tensor
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Quantized, Quantizer
from wavecast.kernels.tensorwise.kernel import cast_kernel, partial_amax_kernel
from wavecast.kernels.tensorwise.layout import rows_of, values_like
from wavecast.kernels.tensorwise.plan import PARTIALS_BLOCK, plan_tensorwise
from wavecast.kernels.tensorwise.reference import quantize_tensorwise_reference


def check_tensorwise(x: torch.Tensor) -> None:
    """Check rank, dtype and layout.

    Raises:
        ValueError: see `quantize_tensorwise`.
    """
    if x.ndim == 0:
        raise ValueError("x has no dimension; at least 1 is wanted; reshape it to (1,)")
    check_tensor("x", x, ndim=x.ndim, dtypes=INPUT_DTYPES)
    if rows_of(x) is None:
        raise ValueError(
            f"x has strides {x.stride()} for shape {tuple(x.shape)}; wanted is a tensor without gaps, or a matrix with "
            "contiguous rows that do not overlap; call .contiguous()"
        )


def allocate_tensorwise(x: torch.Tensor, dtype: torch.dtype) -> Quantized:
    """Values in the shape and order of ``x`` without gaps, and () scale and inverse."""
    return Quantized(
        values=values_like(x, dtype),
        scale=torch.empty((), dtype=torch.float32, device=x.device),
        inverse=torch.empty((), dtype=torch.float32, device=x.device),
    )


def launch_tensorwise(x: torch.Tensor, out: Quantized, conversion: Conversion) -> None:
    """Launch both kernels; arguments as `check_tensorwise` takes and `allocate_tensorwise` makes them."""
    rows = rows_of(x)
    assert rows is not None
    plan = plan_tensorwise(rows, itemsize=x.element_size(), arch=conversion.arch)
    partial = torch.empty((plan.partials,), dtype=torch.float32, device=x.device)
    sizes = (plan.rows, plan.vectors, plan.row_stride, plan.tail)
    blocks = {
        "TILE_ROWS": plan.tile_rows,
        "TILE_VECTORS": plan.tile_vectors,
        "VECTOR": plan.vector,
        "num_warps": plan.num_warps,
    }
    partial_amax_kernel[(plan.partials,)](x, partial, *sizes, **blocks)
    cast_kernel[(plan.tiles,)](
        x,
        *out,
        partial,
        *sizes,
        plan.partials,
        PARTIALS_BLOCK=PARTIALS_BLOCK,
        **conversion.scale_constants,
        **blocks,
    )


TENSORWISE = Quantizer(check=check_tensorwise, allocate=allocate_tensorwise, reference=quantize_tensorwise_reference)


def quantize_tensorwise(
    x: torch.Tensor,
    *,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> Quantized:
    """Quantize a whole tensor with one scale, in two launches, without atomics and without waiting for the device.

    The scale needs every value before the first can be cast, so each value is read twice. The second reading goes
    backwards, and finds in the caches what the first read last: all of a tensor that fits, such as one of up to
    256 MB in the Infinity Cache of MI300X.

    Args:
        x: bf16, fp16 or fp32 of any rank from 1 on, without gaps; its dimensions may be in any order in memory
            (contiguous, transposed, experts' weights with K contiguous). A matrix with contiguous rows may have padded
            rows.
        format: FP8 format; None takes the one of the active device.
        power_of_two: round the scale down to a power of two.

    Returns:
        values in the shape of ``x`` and with its dimensions in the same order in memory, without gaps; scale and
        inverse, both of shape (). NaN stays NaN, +-Inf saturates and does not enter the amax.

    Raises:
        ValueError: wrong rank, dtype, layout or device; no format known.
    """
    return TENSORWISE.run(launch_tensorwise, x, format=format, power_of_two=power_of_two)
