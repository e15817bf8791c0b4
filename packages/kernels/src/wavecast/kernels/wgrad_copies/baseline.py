"""The preparation of the weight gradient as it was done before pytorch/ao#3972, and right after it.

* ``transpose-copies``: ``t().contiguous().t()`` makes both tensors column-major in a copy (2 bytes read, 2 written an
  element), which the two-pass quantizer then reads twice: 9 bytes an element.
* ``strided-read``: the copies are gone; the two-pass quantizer reads the row-major tensors by their strides: 5 bytes.

The quantizer is the same on both sides, in commit 7bb7f061 of that pull request and in the one before it: strides are
run-time values (Triton does not specialise on a stride of 1 where the argument is annotated), so that it does not see
along which axis the tensor is contiguous. They are 64-bit here, as from #4016 on, and were 32-bit then. Its tile was
one of 16 that were tuned over before (`COPIED` is one of them; which one won is not published) and of three after. The
copy is a Triton kernel here, with contiguous accesses on both sides, as the copy of the framework has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton

from wavecast.kernels.colwise_per_group.api import ColwiseQuantized
from wavecast.kernels.colwise_per_group.baseline import launch_two_pass
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Conversion, Launch
from wavecast.kernels.wgrad_copies.api import WGRAD, WgradOperands, for_both, wgrad_operands
from wavecast.kernels.wgrad_copies.kernel import transpose_copy_kernel
from wavecast.kernels.wgrad_copies.plan import copy_plan

COPIED = {"block_cols": 32, "block_rows": 128, "waves": 4}
"""One of the 16 configurations of #3952: 32 or 64 columns, 64 or 128 rows, 4 or 8 waves, 2 or 3 stages."""

STRIDED = {"block_cols": 128, "block_rows": 128, "waves": 8}
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
    launch_two_pass(column_major_copy(x), offs, out, conversion, **COPIED)


def launch_strided(x: torch.Tensor, offs: torch.Tensor, out: ColwiseQuantized, conversion: Conversion) -> None:
    """Two passes over one row-major operand, read by its strides."""
    launch_two_pass(x, offs, out, conversion, **STRIDED)


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
