"""All-gather+matmul over symmetric memory: what is put on which stream, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from wavecast.kernels.all_gather_matmul.kernel import all_gather_matmul_kernel
from wavecast.kernels.all_gather_matmul.launch_hip import launch_async_mm
from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan
from wavecast.kernels.async_tp.order import fetch_order
from wavecast.kernels.async_tp.symmetric import COMPUTE
from wavecast.kernels.async_tp.workspace import Workspace, scales_offset
from wavecast.kernels.checks import check_fits_int32
from wavecast.kernels.grouped_gemm.api import check_tile_offsets, imprecise_sum
from wavecast.kernels.grouped_gemm.plan import unit_of
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan
from wavecast.kernels.kept_launch import KeptLaunch

FETCH, LOCAL = "fetch", "local"
"""Streams for the others' chunks, the first of as many as come at a time, and for the own one."""

FETCH_BYTES = 16
"""Bytes that a lane of a fetching program loads at once."""


@dataclass(frozen=True)
class Factor:
    """One right operand and what belongs to it.

    Attributes:
        b: (K, N), K contiguous.
        b_inverse: fp32, () or (1, N); None for 16-bit operands.
        bias: (N,) or None.
        out: (ranks * rows, N), contiguous.
        plan: how this product is carried out; all of a call have the same transport.
    """

    b: torch.Tensor
    b_inverse: torch.Tensor | None
    bias: torch.Tensor | None
    out: torch.Tensor
    plan: AllGatherMatmulPlan


@dataclass(frozen=True)
class Gathered:
    """Where chunks go.

    Attributes:
        rows: (ranks * shard rows, K), contiguous.
        a_inverse: fp32 scales of rows: () or (ranks * shard rows, 1); None for 16-bit operands.
        fetch_scales: whether every rank has only its own rows' scales, so that they are gathered too.
        own_rows: whether this rank's chunk is wanted there too.
    """

    rows: torch.Tensor
    a_inverse: torch.Tensor | None
    fetch_scales: bool
    own_rows: bool


def launch_all_gather_matmul(
    workspace: Workspace, shard: torch.Tensor, shard_inverse: torch.Tensor | None, gathered: Gathered,
    factors: Sequence[Factor],
) -> None:  # fmt: skip
    """Put one call on the streams. Nothing is waited for on the host, and nothing depends on the number of the call.

    Args:
        workspace: of this rank.
        shard: (rows, K) of this rank, contiguous.
        shard_inverse: (rows, 1) fp32 of this rank if ``gathered.fetch_scales``.
        gathered: where chunks go.
        factors: one or more products.

    Raises:
        ValueError: sizes beyond what the kernel's 32-bit numbers or the windows hold.
    """
    memory, transport = workspace.memory, factors[0].plan.transport
    (rows, k), rank = shard.shape, memory.rank
    for factor in factors:
        _check(factor, rows * memory.ranks, k)
    compute, local = memory.stream(COMPUTE), memory.stream(LOCAL)
    signals = -(-rows // transport.signal_rows)
    chunk_bytes = rows * k * shard.element_size()
    scales_at = scales_offset(chunk_bytes)
    chunks = gathered.rows.view(memory.ranks, rows, k)
    scales = None if gathered.a_inverse is None else gathered.a_inverse.view(-1)
    scale_chunks = scales.view(memory.ranks, rows) if gathered.fetch_scales and scales is not None else None

    own = memory.window(rank, (rows, k), shard.dtype)
    if own.data_ptr() != shard.data_ptr():
        memory.copy(own, shard, compute)
    if scale_chunks is not None and shard_inverse is not None:
        memory.copy(memory.window(rank, (rows,), torch.float32, scales_at), shard_inverse.view(-1), compute)
        memory.copy(scale_chunks[rank], shard_inverse.view(-1), compute)
    used = []
    awaited = any(_straddled(rank, memory.ranks, rows, factor.plan.block_m) for factor in factors)
    if gathered.own_rows or awaited:
        # Before the barrier: a copy within the GPU is a kernel on CUDA, and once the product fills the GPU, one
        # multiprocessor is left for it, which takes a millisecond for what all of them copy in 40 us.
        used.append(local)
        memory.wait_stream(local, compute)
        with memory.launching(local):
            memory.copy(chunks[rank], shard, local)
            if awaited:  # else nothing would keep the number of the call from being raised before it is written
                memory.write_signal(rank, rank * signals, workspace.call_number, local)
    memory.barrier(compute)
    if transport.fetchers == 0:
        fetches = [memory.stream(FETCH if lane == 0 else f"{FETCH} {lane + 1}") for lane in range(transport.peers)]
        used += fetches
        for fetch in fetches:
            memory.wait_stream(fetch, compute)
        told = _slices(0, rows, transport.signal_rows)
        for place, source in enumerate(fetch_order(rank, memory.ranks)):
            fetch = fetches[place % transport.peers]
            window = memory.window(source, (rows, k), shard.dtype)
            with memory.launching(fetch):
                if scale_chunks is not None:
                    source_scales = memory.window(source, (rows,), torch.float32, scales_at)
                    memory.copy(scale_chunks[source], source_scales, fetch)
                for number, part in enumerate(told):
                    for piece in _pieces(part, rows, chunk_bytes, transport.piece_bytes):
                        memory.copy(chunks[source, piece], window[piece], fetch)
                    memory.write_signal(rank, source * signals + number, workspace.call_number, fetch)
    with memory.launching(compute):
        for factor in factors:
            launch_factor(workspace, shard, gathered, factor, scales_at, first=factor is factors[0],
                    last=factor is factors[-1])  # fmt: skip
    for stream in used:
        memory.wait_stream(compute, stream)
    memory.barrier(compute)


def _check(factor: Factor, rows: int, k: int) -> None:
    """Check that what the kernel keeps in 32 bits fits.

    Raises:
        ValueError: it does not.
    """
    if factor.plan.tma is not None or factor.plan.hip is not None:  # their obstacles have been looked at
        return
    gemm, n = factor.plan.gemm, factor.out.shape[1]
    check_tile_offsets(gemm, k, factor.b.stride(1), n, k)
    check_fits_int32("rows of the gathered matrix, rounded up to whole tiles,", rows + gemm.block_m)
    tiles = -(-rows // gemm.block_m) * -(-n // gemm.block_n)
    check_fits_int32("tiles of the output", tiles + factor.plan.programs)


def _straddled(rank: int, ranks: int, rows: int, block_m: int) -> bool:
    """Whether some tile has rows of this rank's chunk and of another's."""
    start, end = rank * rows, (rank + 1) * rows
    return start % block_m != 0 or (end % block_m != 0 and rank + 1 < ranks)


def _pieces(part: slice, rows: int, chunk_bytes: int, piece_bytes: int | None) -> list[slice]:
    """Rows that are copied at a time, of a part of a chunk."""
    if piece_bytes is None:
        return [part]
    return _slices(part.start, part.stop, max(piece_bytes * rows // chunk_bytes, 1))


def _slices(start: int, stop: int, step: int) -> list[slice]:
    return [slice(at, min(at + step, stop)) for at in range(start, stop, step)]


def _launch_tma(
    workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factor: Factor, tma: TmaPlan, *, last: bool
) -> None:
    """Launch one product through the tensor memory accelerator."""
    from wavecast.kernels.all_gather_matmul.kernel_tma import all_gather_matmul_tma_kernel
    from wavecast.kernels.grouped_gemm.launch_tma import per_line
    from wavecast.kernels.tma import descriptor, is_aligned

    memory, (rows, k), n = workspace.memory, shard.shape, factor.out.shape[1]
    a_inverse, b_inverse, b, polls = gathered.a_inverse, factor.b_inverse, factor.b, factor.plan.polls
    form = (False, False, a_inverse is not None, per_line(a_inverse), per_line(b_inverse), gathered.fetch_scales)
    key = (
        tma, rows, n, k, b.stride(1), shard.dtype, factor.out.dtype, form, last, polls, is_aligned(a_inverse),
        is_aligned(b_inverse),
    )  # fmt: skip
    launch = workspace.launches.get(key)
    if launch is None:
        launch = workspace.launches[key] = KeptLaunch(
            all_gather_matmul_tma_kernel,
            tma.programs,
            describe=lambda gathered, shard, b, out: (
                descriptor(gathered, k, tma.block_m, tma.block_k), descriptor(shard, k, tma.block_m, tma.block_k),
                descriptor(b, k, tma.block_n, tma.block_k), descriptor(out, n, tma.block_m // 2, tma.block_n // 4),
            ),
            sizes=(rows * memory.ranks, n, k, n, rows, memory.rank, polls),
            constants={
                "FORM": form,
                "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
                "OUT_STAGES": tma.out_stages,
                "LAST": last,
            },
            options={"num_warps": 4},
        )  # fmt: skip
    launch(
        (gathered.rows, shard, b.t(), factor.out),
        (factor.out, a_inverse, b_inverse, memory.signals(memory.rank), workspace.state, workspace.failure),
    )


def launch_factor(
    workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factor: Factor, scales_at: int, *, first: bool,
    last: bool,
) -> None:  # fmt: skip
    """Launch one product; the first one's programs fetch, where programs do."""
    memory, plan = workspace.memory, factor.plan
    if plan.tma is not None:
        _launch_tma(workspace, shard, gathered, factor, plan.tma, last=last)
        return
    gemm, (rows, k), n = plan.gemm, shard.shape, factor.out.shape[1]
    fetchers = plan.transport.fetchers if first else 0
    words = gathered.rows.view(_widest(k * shard.element_size()))
    windows = memory.window_addresses() if fetchers else None
    if plan.hip is not None:
        launch_async_mm(
            plan.hip, gathered=gathered.rows, shard=shard, b=factor.b, out=factor.out, a_inverse=gathered.a_inverse,
            b_inverse=factor.b_inverse, bias=factor.bias, signals=memory.signals(memory.rank), state=workspace.state,
            failure=workspace.failure, windows=windows, rank=memory.rank, ranks=memory.ranks, polls=plan.polls,
            transport=plan.transport, fetchers=fetchers, fetch_scales=gathered.fetch_scales, scales_at=scales_at,
            last=last,
        )  # fmt: skip
        return
    unit, n_unit = unit_of(k, factor.b.stride(1)), unit_of(n)
    a_inverse, b_inverse = gathered.a_inverse, factor.b_inverse
    all_gather_matmul_kernel[(gemm.programs + fetchers,)](
        gathered.rows, shard, factor.b, factor.out, a_inverse, b_inverse, factor.bias, memory.signals(memory.rank),
        workspace.state, workspace.failure, words, windows, rows * memory.ranks, rows, plan.transport.signal_rows,
        n // n_unit, k // unit, factor.b.stride(1) // unit, memory.rank, memory.ranks, plan.polls, words.shape[1],
        scales_at, SCALED=a_inverse is not None, A_ROWS=a_inverse is not None and a_inverse.ndim > 0,
        B_COLUMNS=b_inverse is not None and b_inverse.ndim > 0, BIASED=factor.bias is not None, LAST=last,
        FETCHERS=fetchers, PEERS=plan.transport.peers, FETCH_SCALES=gathered.fetch_scales,
        FETCH_BLOCK=gemm.num_warps * gemm.lanes * FETCH_BYTES // words.element_size(), UNIT=unit, N_UNIT=n_unit,
        CUT=k % gemm.block_k != 0, IMPRECISE=imprecise_sum(shard.dtype, gemm), **gemm.constants,
    )  # fmt: skip


def _widest(row_bytes: int) -> torch.dtype:
    """The widest integers that a row is a multiple of."""
    return next(dtype for dtype in (torch.int32, torch.int16, torch.int8) if row_bytes % dtype.itemsize == 0)
