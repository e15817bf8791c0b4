"""All-gather+matmul by messages: each chunk is multiplied when it has come, while the next ones are under way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from wavecast.kernels.all_gather_matmul.operands import Rows, RowScales
from wavecast.kernels.async_tp.messages import received_chunks
from wavecast.kernels.async_tp.products import sum_in_fp32, with_bias


def decomposed_all_gather_matmul(
    rows: Rows,
    bs: Sequence[torch.Tensor],
    scales: RowScales,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    group: dist.ProcessGroup,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The gathered matrix and the products.

    Returns:
        (ranks * rows, K), or (rows, ranks * K) where that is the summed dimension, and (…, N) for each right operand.
    """
    ranks, (count, k) = group.size(), rows.shard.shape
    chunks = torch.empty((ranks, count, k), dtype=rows.shard.dtype, device=rows.shard.device)
    if rows.along_sum:
        return _along_sum(rows, chunks, bs, scales, b_inverses, biases, out_dtypes, group)
    a_inverse = scales.every
    if scales.own is not None:
        own = scales.own
        a_inverse = torch.empty((ranks, *own.shape), dtype=own.dtype, device=own.device)
        for _ in received_chunks(own, a_inverse, group):
            pass
        a_inverse = a_inverse.view(-1, 1)
    outs = [
        torch.empty((ranks * count, b.shape[1]), dtype=out_dtype, device=b.device)
        for b, out_dtype in zip(bs, out_dtypes, strict=True)
    ]
    for source in received_chunks(rows.shard, chunks, group):
        part = slice(source * count, (source + 1) * count)
        inverse = a_inverse[part] if a_inverse is not None and a_inverse.ndim else a_inverse
        for b, b_inverse, bias, out in zip(bs, b_inverses, biases, outs, strict=True):
            out[part] = with_bias(sum_in_fp32(chunks[source], b, inverse, b_inverse), bias, out.dtype)
    return chunks.view(-1, k), outs


def _along_sum(
    rows: Rows,
    chunks: torch.Tensor,
    bs: Sequence[torch.Tensor],
    scales: RowScales,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    group: dist.ProcessGroup,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Every chunk's part of the sum is added when it has come."""
    ranks, count, k = chunks.shape
    sums = [torch.zeros((count, b.shape[1]), dtype=torch.float32, device=b.device) for b in bs]
    for source in received_chunks(rows.shard, chunks, group):
        for b, b_inverse, total in zip(bs, b_inverses, sums, strict=True):
            total += sum_in_fp32(chunks[source], b[source * k : (source + 1) * k], scales.every, b_inverse)
    outs = [with_bias(*given) for given in zip(sums, biases, out_dtypes, strict=True)]
    return chunks.transpose(0, 1).reshape(count, ranks * k), outs
