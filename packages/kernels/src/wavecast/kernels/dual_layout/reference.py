"""Both layouts in plain torch: the two references that exist, side by side."""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.quantizer import Quantized
from wavecast.kernels.rowwise.reference import quantize_rowwise_reference

Colwise = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def quantize_dual_layout_reference(
    x: torch.Tensor, offs: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool
) -> tuple[Quantized, Colwise]:
    """Quantize ``x`` (M, K) row-wise, all its rows, and column-wise per group.

    Returns:
        what `quantize_rowwise_reference` and `colwise_per_group_reference` return.
    """
    return (
        quantize_rowwise_reference(x, fmt, power_of_two=power_of_two),
        colwise_per_group_reference(x, offs, fmt=fmt, power_of_two=power_of_two),
    )
