"""The preparation of the weight gradient as it was done before pytorch/ao#3972, and right after it.

* ``transpose-copies``: ``t().contiguous().t()`` makes both tensors column-major in a copy (2 bytes read, 2 written an
  element), which the two-pass quantizer then reads twice: 9 bytes an element.
* ``strided-read``: the copies are gone; the two-pass quantizer reads the row-major tensors by their strides: 5 bytes.

The copy is a Triton kernel here, with contiguous accesses on both sides, as the copy of the framework has. After it the
quantizer sees unit strides along the tokens, so its loads and stores are contiguous: the form most favourable to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton

from wavecast.kernels.colwise_per_group.api import ColwiseQuantized
from wavecast.kernels.colwise_per_group.baseline import launch_two_pass, launch_two_pass_unit_stride
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Launch
from wavecast.kernels.wgrad_copies.api import WGRAD, WgradOperands, for_both, wgrad_operands
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


def launch_copied(x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion) -> None:
    """A column-major copy of one operand, then two passes over it."""
    launch_two_pass_unit_stride(column_major_copy(x), offs, out, conversion)


launch_strided = partial(
    launch_two_pass, block_cols=STRIDED_BLOCK_COLS, block_rows=STRIDED_BLOCK_ROWS, waves=STRIDED_WAVES
)
"""Two passes over one row-major operand, read by its strides."""


def earlier(
    grad_output: torch.Tensor,
    a: torch.Tensor,
    offs: torch.Tensor,
    *,
    launch: Launch,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> WgradOperands:
    """The operator in an earlier form: ``launch`` quantizes one operand and leaves the inverse scale alone."""
    both = WGRAD.run(for_both(launch), grad_output, a, offs, format=format, power_of_two=power_of_two)
    return WgradOperands(*(one._replace(inverse=None) for one in both))


VARIANTS: dict[str, Callable[..., WgradOperands]] = {
    "transpose-copies": partial(earlier, launch=launch_copied),
    "strided-read": partial(earlier, launch=launch_strided),
    "wavecast": wgrad_operands,
}
"""The variants of the experiment ``wgrad-copies``, the baseline first; all take the arguments of `wgrad_operands`."""
