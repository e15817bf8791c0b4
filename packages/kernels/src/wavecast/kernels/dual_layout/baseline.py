"""Both layouts from the two operators that there are for one each: two launches, six bytes a bf16 value.

``two-kernels`` reads the matrix from memory once for the row-wise values and once (for groups longer than a register
tile twice) for the column-wise ones: 2 + 1 + 2 + 1 bytes a value, where one read would do with 4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from wavecast.kernels.colwise_per_group.api import launch_planned
from wavecast.kernels.dual_layout.api import DUAL_LAYOUT, DualLayout, quantize_dual_layout
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.rowwise.api import launch_fused


def launch_two_kernels(x: torch.Tensor, offs: torch.Tensor, out: DualLayout, conversion: Conversion) -> None:
    """The row-wise kernel, then the column-wise one; arguments as `wavecast.kernels.dual_layout.api.launch_both`."""
    launch_fused(x, out.rowwise, conversion)
    launch_planned(x, offs, out.colwise, conversion)


VARIANTS: dict[str, Callable[..., DualLayout]] = {
    "two-kernels": partial(DUAL_LAYOUT.run, launch_two_kernels),
    "wavecast": quantize_dual_layout,
}
"""The variants of ``dual-layout``, the baseline first; all take the arguments of `quantize_dual_layout`."""
