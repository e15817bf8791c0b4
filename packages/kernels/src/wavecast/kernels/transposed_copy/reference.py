"""The transposing copy in plain torch: the definition."""

from __future__ import annotations

import torch


def copy_transposed_reference(x: torch.Tensor) -> torch.Tensor:
    """``x`` (..., M, N) as contiguous (..., N, M)."""
    return x.transpose(-1, -2).clone(memory_format=torch.contiguous_format)
