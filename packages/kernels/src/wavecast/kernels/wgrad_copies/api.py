"""Both operands of the grouped weight gradient ``grad_output^T @ a``, quantized along the tokens that it sums over."""

from __future__ import annotations

from typing import NamedTuple

import torch

from wavecast.kernels.checks import check_same_size
from wavecast.kernels.colwise_per_group.api import ColwiseQuantized, check_colwise_arguments, colwise_per_group
from wavecast.kernels.formats import Fp8Format


class WgradOperands(NamedTuple):
    """The quantized operands.

    Attributes:
        grad_output: ``(tokens, n)`` FP8 column-major with ``(groups, n)`` scales.
        a: ``(tokens, k)`` FP8 column-major with ``(groups, k)`` scales.
    """

    grad_output: ColwiseQuantized
    a: ColwiseQuantized


def check_wgrad_arguments(grad_output: torch.Tensor, a: torch.Tensor, offs: torch.Tensor) -> None:
    """Check what every variant accepts.

    Raises:
        ValueError: wrong rank, dtype or layout, or different numbers of tokens.
    """
    check_colwise_arguments(grad_output, offs)
    check_colwise_arguments(a, offs)
    check_same_size("the number of tokens in grad_output", grad_output.shape[0], "that in a", a.shape[0])


def wgrad_operands(
    grad_output: torch.Tensor,
    a: torch.Tensor,
    *,
    offs: torch.Tensor,
    format: Fp8Format | None = None,  # noqa: A002 - what users call it
    power_of_two: bool = False,
) -> WgradOperands:
    """Quantize both operands straight from their row-major form: two launches, 3 bytes an element, no copy.

    Args:
        grad_output: ``(tokens, n)``, bf16, fp16 or fp32; rows contiguous.
        a: ``(tokens, k)``, likewise.
        offs: ``(groups,)`` int32 end offsets.
        format: FP8 format; None takes the native one of the active device.
        power_of_two: round scales down to powers of two.

    Raises:
        ValueError: see `colwise_per_group`; also if the numbers of tokens differ.
    """
    check_wgrad_arguments(grad_output, a, offs)
    return WgradOperands(
        colwise_per_group(grad_output, offs, format=format, power_of_two=power_of_two),
        colwise_per_group(a, offs, format=format, power_of_two=power_of_two),
    )
