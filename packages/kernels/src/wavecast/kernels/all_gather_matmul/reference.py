"""All-gather+matmul in plain torch, on every rank's shard at once: obviously right, slow."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.kernels.async_tp.products import with_bias
from wavecast.kernels.grouped_gemm.reference import scaled_product


def all_gather_matmul_reference(
    shards: Sequence[torch.Tensor],
    b: torch.Tensor,
    *,
    gather_dim: int = 0,
    a_inverse: torch.Tensor | None = None,
    b_inverse: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gathered matrix, and its product with one right operand.

    Args:
        shards: of every rank, (…, K).
        b: (K, N).
        gather_dim: along which shards follow each other.
        a_inverse, b_inverse: fp32 that broadcast with the rows of the gathered matrix, in its order, and its columns.
        bias: (N,).
        out_dtype: of the product.
    """
    gathered = torch.cat(
        [shard.view(torch.uint8) if shard.dtype.itemsize == 1 else shard for shard in shards], gather_dim
    )
    gathered = gathered.view(shards[0].dtype)
    rows = gathered.reshape(-1, gathered.shape[-1])
    product = with_bias(scaled_product(rows, b, a_inverse, b_inverse), bias, out_dtype)
    return gathered, product.view(*gathered.shape[:-1], b.shape[1])
