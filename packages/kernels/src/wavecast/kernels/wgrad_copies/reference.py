"""The operands of the grouped weight gradient in plain torch."""

from __future__ import annotations

import torch

from wavecast.kernels.colwise_per_group.reference import colwise_per_group_reference
from wavecast.kernels.formats import Fp8Format

Colwise = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def wgrad_operands_reference(
    grad_output: torch.Tensor, a: torch.Tensor, offs: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool
) -> tuple[Colwise, Colwise]:
    """``(values, scale, inverse scale)`` of grad_output and of a, as `colwise_per_group_reference` gives them."""
    return (
        colwise_per_group_reference(grad_output, offs, fmt=fmt, power_of_two=power_of_two),
        colwise_per_group_reference(a, offs, fmt=fmt, power_of_two=power_of_two),
    )
