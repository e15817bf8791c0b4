"""Both layouts of expert weights from the two operators that there are for one each.

``two-kernels`` reads the weight for its own layout and again for the transposed one: 2 + 1 + 2 + 1 bytes a bf16 value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from wavecast.kernels.expert_weights.api import launch_rows
from wavecast.kernels.quantizer import Conversion
from wavecast.kernels.weight_layouts.api import WEIGHT_LAYOUTS, WeightLayouts, quantize_weight_layouts
from wavecast.kernels.weight_transpose.api import launch_transposed


def launch_two_kernels(weight: torch.Tensor, out: WeightLayouts, conversion: Conversion) -> None:
    """One layout, then the other; arguments as `wavecast.kernels.weight_layouts.api.launch_weights`."""
    launch_rows(weight, out.columns, conversion)
    launch_transposed(weight, out.transposed, conversion)


VARIANTS: dict[str, Callable[..., WeightLayouts]] = {
    "two-kernels": partial(WEIGHT_LAYOUTS.run, launch_two_kernels),
    "wavecast": quantize_weight_layouts,
}
"""The variants of ``weight-layouts``, the baseline first; all take the arguments of `quantize_weight_layouts`."""
