"""All-gather+matmul over a group: checks, the choice of a path, allocation and launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from wavecast.kernels.all_gather_matmul.decomposed import decomposed_all_gather_matmul
from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, launch_all_gather_matmul
from wavecast.kernels.all_gather_matmul.operands import (
    Rows,
    RowScales,
    as_row_scales,
    as_rows,
    check_factors,
    flat,
)
from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.all_gather_matmul.plan_hip import PIECE_BYTES, Layout
from wavecast.kernels.async_tp.checked import CheckedCalls, CheckedWay, described
from wavecast.kernels.async_tp.groups import group_of, is_symmetric, workspace_of
from wavecast.kernels.async_tp.products import column_major
from wavecast.kernels.async_tp.selection import (
    Code,
    Facts,
    Setting,
    Way,
    code_from,
    select_way,
    setting_from,
)
from wavecast.kernels.async_tp.transport import Engine
from wavecast.kernels.async_tp.workspace import Workspace, keep, scales_offset
from wavecast.kernels.device import active_arch, active_arch_and_units, launch_device
from wavecast.kernels.grouped_gemm.operands import route_operands
from wavecast.kernels.tma import is_aligned

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
    rows = as_rows(a_shard, gather_dim)
    scales = as_row_scales(a_inverse, a_shard, rows, ranks)
    b_inverses = [None] * given if b_inverses is None else [flat(b_inverse) for b_inverse in b_inverses]
    biases = [None] * given if biases is None else [None if bias is None else bias.contiguous() for bias in biases]
    default = torch.bfloat16 if a_shard.dtype.itemsize == 1 else a_shard.dtype
    out_dtypes = [default] * given if out_dtypes is None else list(out_dtypes)
    asked = setting_from() if setting is None else Setting(setting)
    signature = (
        group.group_name, ranks, asked, gather_dim, described(a_shard), described(a_inverse),
        tuple(map(described, bs)), tuple(map(described, b_inverses)), tuple(map(described, biases)), *out_dtypes,
    )  # fmt: skip
    way = _checked.get(signature)
    if way is None:
        check_factors(rows, ranks, bs, a_inverse, b_inverses, biases, out_dtypes)
        facts = facts_of(rows.shard, max(b.shape[1] for b in bs), group, along_sum=rows.along_sum)
        chosen = select_way(facts, asked)
        route = None
        if chosen.way is Way.OVERLAPPED:
            route = route_operands(rows.shard, *bs, scales.own, scales.every, *b_inverses, *biases)
        way = _checked.keep(signature, CheckedWay(chosen, route))
    way.tell("all_gather_matmul")
    given_all = (rows, bs, scales, b_inverses, biases, out_dtypes, group)
    if way.chosen.way is Way.OVERLAPPED:
        gathered, outs = _overlapped(*given_all, own_rows=return_gathered)
    else:
        gathered, outs = decomposed_all_gather_matmul(*given_all)
    return (
        rows.unfolded(gathered, ranks) if return_gathered else None,
        [rows.unfolded(out, ranks) for out in outs],
    )


def facts_of(shard: torch.Tensor, columns: int, group: dist.ProcessGroup, *, along_sum: bool = False) -> Facts:
    """What the choice of a path depends on: of the GPU that has the shard, which need not be the current one."""
    device = shard.device
    with launch_device(shard):
        arch = active_arch() if device.type != "cpu" else None
    return Facts(
        device=device.type,
        arch=arch,
        ranks=group.size(),
        symmetric=is_symmetric(group, device),
        rows=shard.shape[0],
        columns=columns,
        length=shard.shape[1],
        along_sum=along_sum,
    )


def _overlapped(
    rows: Rows,
    bs: Sequence[torch.Tensor],
    scales: RowScales,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    group: dist.ProcessGroup,
    *,
    own_rows: bool,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    shard = rows.shard
    chunk_bytes = shard.numel() * shard.element_size()
    with launch_device(shard):
        workspace = workspace_of(group, scales_offset(chunk_bytes) + 4 * shard.shape[0])
        return overlapped_all_gather_matmul(
            workspace, shard, bs, scales, b_inverses, biases, out_dtypes, own_rows=own_rows
        )


def overlapped_all_gather_matmul(
    workspace: Workspace,
    shard: torch.Tensor,
    bs: Sequence[torch.Tensor],
    scales: RowScales,
    b_inverses: Sequence[torch.Tensor | None],
    biases: Sequence[torch.Tensor | None],
    out_dtypes: Sequence[torch.dtype],
    *,
    engine: Engine | None = None,
    code: Code | None = None,
    own_rows: bool = True,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The call over any symmetric memory, on checked arguments: the gathered matrix and the products, as matrices.

    Args:
        workspace: of this rank.
        shard, bs, scales, b_inverses, biases, out_dtypes: as `all_gather_matmul` has checked them.
        engine: what is to move chunks; None leaves it to the plan.
        own_rows: whether the gathered matrix is to have this rank's rows too.
        code: whose kernel; None takes what the environment variable ``WAVECAST_ASYNC_TP_CODE`` says.

    Raises:
        ValueError: the kernel in HIP is asked for and cannot do it.
    """
    code = code_from() if code is None else code
    ranks, (count, k) = workspace.memory.ranks, shard.shape
    gathered = shard.new_empty((ranks * count, k))
    a_inverse = scales.every
    if scales.own is not None:
        a_inverse = torch.empty((ranks * count, 1), dtype=torch.float32, device=shard.device)
    factors, call_columns = [], sum(b.shape[1] for b in bs)
    for given, b_inverse, bias, out_dtype in zip(bs, b_inverses, biases, out_dtypes, strict=True):
        b, n = column_major(given), given.shape[1]
        out = torch.empty((ranks * count, n), dtype=out_dtype, device=shard.device)
        aligned = bias is None and is_aligned(shard, gathered, b, out)
        layout = None
        if code == "hip":
            tensors = [t for t in (shard, gathered, b, out, bias, b_inverse) if t is not None]
            layout = Layout(
                dtype=shard.dtype,
                out_dtype=out_dtype,
                bias_dtype=None if bias is None else bias.dtype,
                b_stride=b.stride(1),
                aligned=all(t.data_ptr() % PIECE_BYTES == 0 for t in tensors),
            )
        key = (count, n, call_columns, k, shard.dtype, b.stride(1), out_dtype, aligned, layout, engine)
        plan = workspace.plans.get(key)
        if plan is None:
            arch, units = active_arch_and_units()
            plan = plan_all_gather_matmul(
                shard_rows=count,
                columns=n,
                length=k,
                ranks=ranks,
                element_bytes=shard.element_size(),
                arch=arch,
                full_mesh=workspace.memory.full_mesh,
                call_columns=call_columns,
                engine=engine,
                tma_bytes=(out.element_size(), b.stride(1) * b.element_size()) if aligned else None,
                hip=layout,
                units=units,
            )
            keep(workspace.plans, key, plan)
        factors.append(Factor(b, b_inverse, bias, out, plan))
    where = Gathered(gathered, a_inverse, scales.own is not None, own_rows=own_rows)
    launch_all_gather_matmul(workspace, shard, scales.own, where, factors)
    return gathered, [factor.out for factor in factors]
