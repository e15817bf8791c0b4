"""Blocks and layouts that the block-wise quantizer takes and makes."""

from __future__ import annotations

import torch

Block = tuple[int, int]
"""Rows and columns of the values that share a scale."""

SIDE = 128
"""Longest side of a block: what FP8 matrix multiplications with block scales take."""


def is_row_major(x: torch.Tensor) -> bool:
    """Whether the last dimension of ``x`` is the contiguous one."""
    return x.shape[-1] <= 1 or x.stride(-1) == 1


def row_major(x: torch.Tensor, block: Block) -> tuple[torch.Tensor, Block]:
    """``x`` and ``block`` with the last two dimensions exchanged where ``x`` is not row-major."""
    return (x, block) if is_row_major(x) else (x.mT, (block[1], block[0]))


def values_empty(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Uninitialised values in the shape of ``x``, row-major or column-major as it is, without gaps."""
    rows, _ = row_major(x, (SIDE, SIDE))
    values = torch.empty(rows.shape, dtype=dtype, device=x.device)
    return values if is_row_major(x) else values.mT


def scales_empty(x: torch.Tensor, block: Block) -> torch.Tensor:
    """Uninitialised fp32 scales of ``x`` (..., M, K): (..., ceil(M / block[0]), ceil(K / block[1])).

    Those of square blocks are row-major or column-major as ``x`` is. Those of vectors lie the other way round, so that
    the scales of neighbouring vectors are neighbours: a matrix multiplication reads them together.
    """
    rows, (height, width) = row_major(x, block)
    blocks = (*rows.shape[:-2], -(-rows.shape[-2] // height), -(-rows.shape[-1] // width))
    if height == 1:
        scales = torch.empty((*blocks[:-2], blocks[-1], blocks[-2]), dtype=torch.float32, device=x.device).mT
    else:
        scales = torch.empty(blocks, dtype=torch.float32, device=x.device)
    return scales if is_row_major(x) else scales.mT
