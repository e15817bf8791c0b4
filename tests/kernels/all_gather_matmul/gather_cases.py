"""What the tests of all-gather+matmul share: one call as one rank makes it, and what its result is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from gemms import exact_and_size, fill_nan, scales, values
from symmetric import ImmediateMemory

from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, GatherLaunch
from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan, plan_all_gather_matmul
from wavecast.kernels.async_tp.plan_hip import Layout
from wavecast.kernels.async_tp.transport import Engine, TransportPlan
from wavecast.kernels.async_tp.workspace import Workspace, make_workspace


@dataclass(frozen=True)
class Call:
    """One call, with every rank's shard.

    Attributes:
        a: (ranks * rows, K), the gathered matrix.
        bs: (K, N) each.
        a_inverse: of all rows, or () for all, or None.
        b_inverses, biases: one a factor.
        ranks: of the group.
    """

    a: torch.Tensor
    bs: tuple[torch.Tensor, ...]
    a_inverse: torch.Tensor | None
    b_inverses: tuple[torch.Tensor | None, ...]
    biases: tuple[torch.Tensor | None, ...]
    ranks: int

    @property
    def rows(self) -> int:
        return self.a.shape[0] // self.ranks

    def exact_and_size(self, index: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        exact, size = exact_and_size(self.a, self.bs[index], self.a_inverse, self.b_inverses[index])
        bias = self.biases[index]
        return (exact, size) if bias is None else (exact + bias.double(), size + bias.double().abs())


def make_call(
    rows: int, ns: Collection[int], k: int, ranks: int, dtype: torch.dtype, *, scaled_rows: bool = False,
    biased: bool = False, exact: bool = True, seed: int = 0,
) -> Call:  # fmt: skip
    fp8 = dtype.itemsize == 1
    a = values(rows * ranks, k, dtype=dtype, exact=exact, seed=seed)
    bs = tuple(values(n, k, dtype=dtype, exact=exact, seed=seed + n).t() for n in ns)
    a_inverse = scales(*([rows * ranks, 1] if scaled_rows else []), exact=exact, seed=3) if fp8 else None
    b_inverses = tuple(scales(*([1, n] if scaled_rows else []), exact=exact, seed=n) if fp8 else None for n in ns)
    biases = tuple(values(n, dtype=torch.bfloat16, exact=exact, seed=n) if biased else None for n in ns)
    return Call(a, bs, a_inverse, b_inverses, biases, ranks)


def small_plans(
    call: Call, arch: str, engine: Engine, *, polls: int, signal_rows: int | None = None, full_mesh: bool = False,
    **tiles: int,
) -> list[AllGatherMatmulPlan]:  # fmt: skip
    """Plans with small tiles and few programs, so that each program has several tiles.

    Args:
        signal_rows: rows of a signal, where it is not to be the plan's.
    """
    plans = []
    for b in call.bs:
        plan = plan_all_gather_matmul(
            shard_rows=call.rows, columns=b.shape[1], length=call.a.shape[1], ranks=call.ranks,
            element_bytes=call.a.element_size(), arch=arch, engine=engine, full_mesh=full_mesh,
        )  # fmt: skip
        gemm = replace(plan.gemm, **{"programs": 8, "block_m": 64, "block_n": 128, "num_warps": 4, **tiles})
        transport = with_signals(plan.transport, 8, signal_rows)
        plans.append(replace(plan, gemm=gemm, transport=transport, polls=polls))
    return plans


def with_signals(transport: TransportPlan, fetchers: int, signal_rows: int | None) -> TransportPlan:
    """With other signals, and at most ``fetchers`` programs that fetch, as many from each peer."""
    fetchers = fetchers // transport.peers * transport.peers if transport.fetchers else 0
    return replace(transport, fetchers=fetchers, signal_rows=signal_rows or transport.signal_rows)


def memory_of(call: Call, rank: int, **options: object) -> ImmediateMemory:
    """Symmetric memory in which every other rank's window holds its shard."""
    rows_bytes = call.rows * call.a.shape[1] * call.a.element_size()
    memory = ImmediateMemory(rank, call.ranks, rows_bytes + 4 * call.rows + 512, **options)
    fill_windows(memory, call)
    return memory


@dataclass(frozen=True)
class OneRank:
    """The one rank of a virtual node, which is the active device."""

    arch: str
    rank: Any

    def workspace(self, call: Call, rank: int, **options: object) -> Workspace:
        """Of one rank of a group whose others' windows are full; a call has ended when it returns."""
        device = self.rank.device
        return make_workspace(
            memory_of(call, rank, address_of=device.address_of, synchronize=self.rank.synchronize, **options)
        )


def fill_windows(memory: ImmediateMemory, call: Call) -> None:
    rows_bytes = call.rows * call.a.shape[1] * call.a.element_size()
    for source in range(call.ranks):
        part = slice(source * call.rows, (source + 1) * call.rows)
        if source == memory.rank:
            continue
        memory.window(source, (call.rows, call.a.shape[1]), call.a.dtype).copy_(call.a[part])
        if call.a_inverse is not None and call.a_inverse.ndim:
            at = -(-rows_bytes // 256) * 256
            memory.window(source, (call.rows,), torch.float32, at).copy_(call.a_inverse[part, 0])


def run_rank(
    call: Call, workspace: Workspace, plans: list[AllGatherMatmulPlan], *, out_dtype: torch.dtype = torch.float32,
    own_rows: bool = False,
) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
    """Make the call on the rank of a workspace: the gathered matrix, and the products; both begin as NaN."""
    rank = workspace.memory.rank
    part = slice(rank * call.rows, (rank + 1) * call.rows)
    gathered = torch.empty_like(call.a)
    fill_nan(gathered)
    outs = [torch.full((call.a.shape[0], b.shape[1]), float("nan"), dtype=out_dtype) for b in call.bs]
    per_row = call.a_inverse is not None and call.a_inverse.ndim > 0
    a_inverse = torch.full_like(call.a_inverse, float("nan")) if per_row else call.a_inverse
    factors = [Factor(*given) for given in zip(call.bs, call.b_inverses, call.biases, outs, plans, strict=True)]
    shard, where = call.a[part].clone(), Gathered(gathered, a_inverse, per_row, own_rows)
    launch = GatherLaunch(workspace, shard, where, factors)
    launch(shard, call.a_inverse[part] if per_row else None, where, factors)
    workspace.memory.barrier("compute")
    return gathered, outs


def hip_plans(
    call: Call, arch: str, *, polls: int, engine: Engine = "copy-engine", out_dtype: torch.dtype = torch.float32,
    signal_rows: int | None = None, full_mesh: bool = False,
) -> list[AllGatherMatmulPlan]:  # fmt: skip
    """Plans of the kernel in HIP with few workgroups, so that each has several tiles."""
    plans = []
    for b, bias in zip(call.bs, call.biases, strict=True):
        layout = Layout(call.a.dtype, out_dtype, None if bias is None else bias.dtype, b.stride(1), aligned=True)
        plan = plan_all_gather_matmul(
            shard_rows=call.rows, columns=b.shape[1], length=call.a.shape[1], ranks=call.ranks,
            element_bytes=call.a.element_size(), arch=arch, engine=engine, hip=layout, full_mesh=full_mesh,
        )  # fmt: skip
        assert plan.hip is not None
        transport = with_signals(plan.transport, 3, signal_rows)
        plans.append(replace(plan, hip=replace(plan.hip, programs=2, xcds=2), transport=transport, polls=polls))
    return plans
