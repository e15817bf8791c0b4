"""The preparation of the weight gradient as it was done before pytorch/ao#3972, and right after it.

* ``transpose-copies``: ``t().contiguous().t()`` makes both tensors column-major in a copy (2 bytes read, 2 written an
  element), which the two-pass quantizer then reads twice: 9 bytes an element.
* ``strided-read``: the copies are gone; the two-pass quantizer reads the row-major tensors by their strides: 5 bytes.

The copy is a Triton kernel here, with contiguous accesses on both sides, as the copy of the framework has. After it the
quantizer sees unit strides along the tokens, so its loads and stores are contiguous: the form most favourable to it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton

from wavecast.kernels.colwise_per_group.api import ColwiseQuantized
from wavecast.kernels.colwise_per_group.baseline import (
    allocate,
    launch_two_pass,
    launch_two_pass_unit_stride,
    reference_result,
)
from wavecast.kernels.device import Path, Route, launch_device, route
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.wgrad_copies.api import WgradOperands, check_wgrad_arguments, wgrad_operands
from wavecast.kernels.wgrad_copies.kernel import transpose_copy_kernel
from wavecast.kernels.wgrad_copies.plan import copy_plan

STRIDED_BLOCK_COLS, STRIDED_BLOCK_ROWS, STRIDED_WAVES = 128, 128, 8
"""The first of the three configurations that #3972 left."""


def column_major_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of row-major ``x`` ``(tokens, columns)`` with strides ``(1, tokens)``, made on the device."""
    tokens, columns = x.shape
    out = torch.empty((columns, tokens), dtype=x.dtype, device=x.device)
    plan = copy_plan(element_bytes=x.element_size())
    grid = (triton.cdiv(columns, plan.columns), triton.cdiv(tokens, plan.rows))
    transpose_copy_kernel[grid](
        x, out, tokens, columns, x.stride(0), out.stride(0), ROWS=plan.rows, COLS=plan.columns, num_warps=plan.waves
    )
    return out.t()


def _copied(x: torch.Tensor, offs: torch.Tensor, where: Route, *, power_of_two: bool) -> ColwiseQuantized:
    values, scale = allocate(x, offs, where)
    copy = column_major_copy(x)
    launch_two_pass_unit_stride(copy, offs, values, scale, fmt=where.format, power_of_two=power_of_two)
    return ColwiseQuantized(values, scale, None)


def _strided(x: torch.Tensor, offs: torch.Tensor, where: Route, *, power_of_two: bool) -> ColwiseQuantized:
    values, scale = allocate(x, offs, where)
    launch_two_pass(
        x, offs, values, scale, fmt=where.format, power_of_two=power_of_two, block_cols=STRIDED_BLOCK_COLS,
        block_rows=STRIDED_BLOCK_ROWS, waves=STRIDED_WAVES,
    )  # fmt: skip
    return ColwiseQuantized(values, scale, None)


def _variant(one: Callable[..., ColwiseQuantized], doc: str) -> Callable[..., WgradOperands]:
    def operator(
        grad_output: torch.Tensor,
        a: torch.Tensor,
        *,
        offs: torch.Tensor,
        format: Fp8Format | None = None,  # noqa: A002 - what users call it
        power_of_two: bool = False,
    ) -> WgradOperands:
        check_wgrad_arguments(grad_output, a, offs)
        where = route(grad_output, a, offs, format=format)
        prepare = reference_result if where.path is Path.REFERENCE else one
        with launch_device(grad_output):
            return WgradOperands(
                prepare(grad_output, offs, where, power_of_two=power_of_two),
                prepare(a, offs, where, power_of_two=power_of_two),
            )

    operator.__doc__ = f"{doc} Arguments as `wgrad_operands`; the numerics are `colwise_per_group.baseline`'s."
    return operator


transpose_copies = _variant(_copied, "A column-major copy of each operand, then two passes over it.")
strided_read = _variant(_strided, "Two passes over each row-major operand, read by its strides.")

VARIANTS: dict[str, Callable[..., WgradOperands]] = {
    "transpose-copies": transpose_copies,
    "strided-read": strided_read,
    "wavecast": wgrad_operands,
}
"""The variants of the experiment ``wgrad-copies``, the baseline first."""
