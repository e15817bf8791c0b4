"""Matmul+reduce-scatter in plain torch, for every rank's operands at once: obviously right, slow."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.kernels.grouped_gemm.reference import scaled_product


def matmul_reduce_scatter_reference(
    operands: Sequence[tuple[torch.Tensor, torch.Tensor]],
    *,
    scatter_dim: int = 0,
    average: bool = False,
    inverses: Sequence[tuple[torch.Tensor | None, torch.Tensor | None]] | None = None,
    out_dtype: torch.dtype,
) -> list[torch.Tensor]:
    """Every rank's part of the sum of all products, rounded once.

    Args:
        operands: (…, K) and (K, N) of every rank.
        scatter_dim: along which the sum is cut.
        average: whether the sum is divided by the number of ranks.
        inverses: fp32 scales of every rank that broadcast with its product's rows, as a matrix, and columns.
        out_dtype: of the parts.
    """
    ranks = len(operands)
    total = None
    for index, (a, b) in enumerate(operands):
        a_inverse, b_inverse = inverses[index] if inverses is not None else (None, None)
        product = scaled_product(a.reshape(-1, a.shape[-1]), b, a_inverse, b_inverse)
        total = product if total is None else total + product
    assert total is not None
    total = total / ranks if average else total
    whole = total.view(*operands[0][0].shape[:-1], operands[0][1].shape[1])
    return [part.to(out_dtype) for part in whole.chunk(ranks, scatter_dim)]
