"""The column-wise quantizer per group in plain torch: group by group, obviously right, slow."""

from __future__ import annotations

import torch

from wavecast.kernels.formats import Fp8Format
from wavecast.kernels.reference_ops import finite_abs, inverse_of, quantize, scale_from_amax


def column_major_empty(tokens: int, columns: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Uninitialised ``(tokens, columns)`` with strides ``(1, tokens)``."""
    return torch.empty((columns, tokens), dtype=dtype, device=device).t()


def group_bounds(offs: torch.Tensor, tokens: int) -> list[tuple[int, int]]:
    """``[start, end)`` of each group, clipped to the rows that exist, as the kernels clip them."""
    bounds = []
    ends = [int(e) for e in offs]
    for group, end in enumerate(ends):
        start = min(max(ends[group - 1] if group else 0, 0), tokens)
        bounds.append((start, min(max(end, start), tokens)))
    return bounds


def colwise_per_group_reference(
    x: torch.Tensor, offs: torch.Tensor, *, fmt: Fp8Format, power_of_two: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Quantize each group's columns with a scale of their own.

    Args:
        x: ``(tokens, columns)``, bf16, fp16 or fp32, on the CPU.
        offs: ``(groups,)`` int32 end offsets.
        fmt: format of the result.
        power_of_two: round scales down to powers of two.

    Returns:
        values ``(tokens, columns)`` FP8 with strides ``(1, tokens)``, zero from the last group's end on;
        scale and inverse scale, both ``(groups, columns)`` fp32.
    """
    tokens, columns = x.shape
    values = column_major_empty(tokens, columns, fmt.dtype, x.device)
    values.view(torch.uint8).zero_()
    scale = torch.empty((offs.numel(), columns), dtype=torch.float32, device=x.device)
    for group, (start, end) in enumerate(group_bounds(offs, tokens)):
        rows = x[start:end]
        amax = finite_abs(rows).amax(dim=0) if end > start else torch.zeros(columns, device=x.device)
        scale[group] = scale_from_amax(amax, fmt, power_of_two=power_of_two)
        values[start:end] = quantize(rows, scale[group], fmt)
    return values, scale, inverse_of(scale)
