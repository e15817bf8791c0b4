"""The operators over a process group as ``torch.library`` custom operators in the namespace ``wavecast``.

As in `wavecast.kernels.ops`: each is one opaque call to compiled code, whose results' shapes, dtypes and strides are
known without running it, and none has a derivative; `wavecast.kernels.training.tensor_parallel` has the functions that
do. A module of its own, since it needs ``torch.distributed``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wavecast.kernels.all_gather_matmul import api as _gather
from wavecast.kernels.all_gather_matmul.operands import as_rows
from wavecast.kernels.async_tp.groups import group_of
from wavecast.kernels.matmul_reduce_scatter import api as _scatter
from wavecast.kernels.ops import register


def _all_gather_matmul(
    a_shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    group_name: str,
    gather_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    return_gathered: bool,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    return _gather.all_gather_matmul(
        a_shard,
        bs,
        group_name,
        gather_dim=gather_dim,
        a_inverse=a_inverse,
        b_inverses=b_inverses,
        biases=biases,
        out_dtypes=out_dtypes,
        return_gathered=return_gathered,
    )


def _fake_all_gather_matmul(
    a_shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    group_name: str,
    gather_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    return_gathered: bool,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    rows, ranks = as_rows(a_shard, gather_dim), group_of(group_name).size()
    count, k = rows.shard.shape
    gathered = (count, ranks * k) if rows.along_sum else (ranks * count, k)
    outs = [
        rows.unfolded(a_shard.new_empty((gathered[0], b.shape[1]), dtype=out_dtype), ranks)
        for b, out_dtype in zip(bs, out_dtypes, strict=True)
    ]
    return rows.unfolded(a_shard.new_empty(gathered), ranks) if return_gathered else None, outs


all_gather_matmul = register(
    "all_gather_matmul",
    _all_gather_matmul,
    _fake_all_gather_matmul,
    schema="(Tensor a_shard, Tensor[] bs, str group_name, int gather_dim, Tensor? a_inverse, Tensor?[] b_inverses, "
    "Tensor?[] biases, ScalarType[] out_dtypes, bool return_gathered) -> (Tensor?, Tensor[])",
)
"""The gathered matrix, or None, and the products of `wavecast.kernels.all_gather_matmul`."""


def _matmul_reduce_scatter(
    a: torch.Tensor,
    b: torch.Tensor,
    group_name: str,
    reduce_op: str,
    scatter_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    return _scatter.matmul_reduce_scatter(
        a,
        b,
        group_name,
        reduce_op=reduce_op,
        scatter_dim=scatter_dim,
        a_inverse=a_inverse,
        b_inverse=b_inverse,
        out_dtype=out_dtype,
    )


def _fake_matmul_reduce_scatter(
    a: torch.Tensor,
    b: torch.Tensor,
    group_name: str,
    reduce_op: str,
    scatter_dim: int,
    a_inverse: torch.Tensor | None,
    b_inverse: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    dim = scatter_dim % a.ndim
    moved = a.movedim(dim, 0)
    shape = (moved.shape[0] // group_of(group_name).size(), *moved.shape[1:-1], b.shape[1])
    return a.new_empty(shape, dtype=out_dtype).movedim(0, dim)


matmul_reduce_scatter = register(
    "matmul_reduce_scatter",
    _matmul_reduce_scatter,
    _fake_matmul_reduce_scatter,
    schema="(Tensor a, Tensor b, str group_name, str reduce_op, int scatter_dim, Tensor? a_inverse, Tensor? b_inverse, "
    "ScalarType out_dtype) -> Tensor",
)
"""The part of the sum of `wavecast.kernels.matmul_reduce_scatter`."""
