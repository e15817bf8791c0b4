"""How a tensor lies in memory, as rows that the kernels walk."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Rows(NamedTuple):
    """Equally long rows of values that are contiguous in memory.

    Attributes:
        number: of rows.
        length: values of a row.
        stride: values from the start of one row to that of the next.
    """

    number: int
    length: int
    stride: int


def order_in_memory(x: torch.Tensor) -> list[int]:
    """The dimensions of ``x``, the one with the largest stride first."""
    return sorted(range(x.ndim), key=x.stride, reverse=True)


def rows_of(x: torch.Tensor) -> Rows | None:
    """The rows of ``x``: one if it has no gaps, in whatever order its dimensions are; None if it has no such rows.

    A matrix whose rows are contiguous but padded has as many as it has rows.
    """
    if x.permute(order_in_memory(x)).is_contiguous():
        return Rows(1, x.numel(), x.numel())
    if x.ndim == 2 and x.stride(1) == 1 and x.stride(0) >= x.shape[1]:
        return Rows(x.shape[0], x.shape[1], x.stride(0))
    return None


def values_like(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Uninitialised, shaped like ``x``, its dimensions in the same order in memory, and without gaps."""
    order = order_in_memory(x)
    dense = torch.empty([x.shape[dim] for dim in order], dtype=dtype, device=x.device)
    return dense.permute([order.index(dim) for dim in range(x.ndim)])
