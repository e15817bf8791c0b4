"""All-gather+matmul over a group: checks, the choice of a path, allocation and launch."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from functools import partial

import torch
import torch.distributed as dist

from wavecast.kernels.all_gather_matmul.call import GatherCall
from wavecast.kernels.all_gather_matmul.decomposed import decomposed_all_gather_matmul
from wavecast.kernels.all_gather_matmul.operands import RowScales, as_row_scales, as_rows, check_factors, flat
from wavecast.kernels.async_tp.checked import CheckedCalls, CheckedWay, described
from wavecast.kernels.async_tp.groups import group_of, is_symmetric, workspace_of
from wavecast.kernels.async_tp.products import column_major
from wavecast.kernels.async_tp.selection import (
    CODE_VARIABLE,
    VARIABLE,
    Facts,
    Setting,
    Way,
    code_from,
    select_way,
    setting_from,
)
from wavecast.kernels.async_tp.workspace import scales_offset
from wavecast.kernels.device import active_arch, launch_device
from wavecast.kernels.grouped_gemm.operands import route_operands

_checked = CheckedCalls()


def all_gather_matmul(
    a_shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    group: dist.ProcessGroup | str,
    *,
    gather_dim: int = 0,
    a_inverse: torch.Tensor | None = None,
    b_inverses: Sequence[torch.Tensor | None] | None = None,
    biases: Sequence[torch.Tensor | None] | None = None,
    out_dtypes: Sequence[torch.dtype] | None = None,
    return_gathered: bool = True,
    setting: Setting | str | None = None,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Gather a matrix from all ranks and multiply it, each rank's part as soon as it is there.

    Products are summed in fp32 (see `grouped_gemm` for FP8 on sm_90), multiplied by the inverse scales, a bias added,
    and rounded once. Any sizes are right. Every rank of the group makes the call with equal shapes. Right operands in
    which K is not contiguous are copied first.

    Args:
        a_shard: this rank's part, (…, K): bf16, fp16 or FP8.
        bs: (K, N) each, dtype of ``a_shard``.
        group: process group, or its name.
        gather_dim: along which dimension of ``a_shard`` parts follow each other in the order of ranks.
        a_inverse: fp32 inverse scales of FP8 operands: () for all rows, a_shard's shape with K = 1 for this rank's
            rows, or that of the gathered matrix for all.
        b_inverses: fp32 inverse scales of FP8 operands, () or (1, N) each.
        biases: (N,) each, added to every row.
        out_dtypes: bf16, fp16 or fp32 each; by default a_shard's, for FP8 bf16.
        return_gathered: whether the gathered matrix is wanted.
        setting: ``0`` (decomposed), ``1`` (overlapped, or an error), ``auto``; by default that of the environment
            variable ``WAVECAST_ASYNC_TP``.

    Returns:
        The gathered matrix or None, and the products, in ``a_shard``'s dimensions; of a gather dimension other than the
        first they are views.

    Raises:
        ValueError: wrong rank, dtype, shape or device; FP8 without scales, or scales without FP8.
            (`WAVECAST_ASYNC_TP_CODE` asks for the kernel in HIP: the same where that cannot do it.)
        RuntimeError: the overlapped path is asked for and not possible.
        SignalTimeoutError: a kernel of an earlier call has given up waiting for a rank.
    """
    group = group_of(group)
    ranks, given = group.size(), len(bs)
    # Else their copies in the window, which is kept, would be part of a graph.
    if a_shard.requires_grad:
        a_shard = a_shard.detach()
    if a_inverse is not None and a_inverse.requires_grad:
        a_inverse = a_inverse.detach()
    b_inverses = (None,) * given if b_inverses is None else b_inverses
    biases = (None,) * given if biases is None else biases
    environment = os.environ.get
    signature = (
        id(group), ranks, environment(VARIABLE) if setting is None else setting, environment(CODE_VARIABLE), gather_dim,
        return_gathered, described(a_shard), described(a_inverse),
        tuple(map(described, bs)), tuple(map(described, b_inverses)), tuple(map(described, biases)),
        None if out_dtypes is None else tuple(out_dtypes),
    )  # fmt: skip
    way = _checked.get(signature)
    if way is not None and way.plain:
        way.tell("all_gather_matmul")
        scales = RowScales(a_inverse, None) if way.own_scales else RowScales(None, a_inverse)
        gathered, outs = _overlapped(way, group, a_shard, bs, scales, b_inverses, biases)
        return gathered if return_gathered else None, outs
    rows = as_rows(a_shard, gather_dim)
    scales = as_row_scales(a_inverse, a_shard, rows, ranks)
    as_given = (a_shard, a_inverse, *b_inverses, *biases)
    b_inverses = [flat(b_inverse) for b_inverse in b_inverses]
    biases = [None if bias is None else bias.contiguous() for bias in biases]
    default = torch.bfloat16 if a_shard.dtype.itemsize == 1 else a_shard.dtype
    out_dtypes = [default] * given if out_dtypes is None else list(out_dtypes)
    if way is None:
        asked = setting_from() if setting is None else Setting(setting)
        code = code_from()
        check_factors(rows, ranks, bs, a_inverse, b_inverses, biases, out_dtypes)
        facts = facts_of(rows.shard, max(b.shape[1] for b in bs), group, along_sum=rows.along_sum)
        chosen = select_way(facts, asked)
        way = CheckedWay(chosen, None)
        if chosen.way is Way.OVERLAPPED:
            way.route = route_operands(rows.shard, *bs, scales.own, scales.every, *b_inverses, *biases)
            way.make = partial(GatherCall, out_dtypes=tuple(out_dtypes), code=code, own_rows=return_gathered)
            found = (rows.shard, scales.every if scales.own is None else scales.own, *b_inverses, *biases)
            way.plain = all(map(operator.is_, found, as_given)) and all(column_major(b) is b for b in bs)
            way.own_scales = scales.own is not None
            way.window_bytes = scales_offset(rows.shard.nbytes) + 4 * rows.shard.shape[0]
        _checked.keep(signature, way)
    way.tell("all_gather_matmul")
    if way.chosen.way is Way.OVERLAPPED:
        columns = [column_major(b) for b in bs]
        gathered, outs = _overlapped(way, group, rows.shard, columns, scales, b_inverses, biases)
    else:
        gathered, outs = decomposed_all_gather_matmul(rows, bs, scales, b_inverses, biases, out_dtypes, group)
    return (
        rows.unfolded(gathered, ranks) if return_gathered else None,
        [rows.unfolded(out, ranks) for out in outs],
    )


def _overlapped(
    way: CheckedWay,
    group: dist.ProcessGroup,
    shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    scales: RowScales,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The overlapped call over the group's own memory."""
    with launch_device(shard):
        call: GatherCall = way.call_over(workspace_of(group, way.window_bytes))
        return call(shard, bs, scales, b_inverses, biases)


def facts_of(shard: torch.Tensor, columns: int, group: dist.ProcessGroup, *, along_sum: bool = False) -> Facts:
    """What the choice of a path depends on: of the GPU that has the shard, which need not be the current one."""
    device = shard.device
    with launch_device(shard):
        arch = active_arch() if device.type != "cpu" else None
        symmetric = is_symmetric(group, device)
    return Facts(
        device=device.type,
        arch=arch,
        ranks=group.size(),
        symmetric=symmetric,
        rows=shard.shape[0],
        columns=columns,
        length=shard.shape[1],
        along_sum=along_sum,
    )
