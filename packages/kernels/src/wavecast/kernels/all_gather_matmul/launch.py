"""All-gather+matmul over symmetric memory: what is put on which stream, in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from wavecast.kernels.all_gather_matmul.kernel import all_gather_matmul_kernel
from wavecast.kernels.all_gather_matmul.launch_hip import launch_async_mm
from wavecast.kernels.all_gather_matmul.plan import AllGatherMatmulPlan
from wavecast.kernels.async_tp.order import fetch_order
from wavecast.kernels.async_tp.plan_hip import HipPlan
from wavecast.kernels.async_tp.symmetric import COMPUTE, Publication, Stream
from wavecast.kernels.async_tp.transport import COPIED_AT_ONCE_BYTES, TransportPlan
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


@dataclass(slots=True)
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


@dataclass(slots=True)
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


class GatherLaunch:
    """Launches of calls that are alike in all but what their tensors hold and where they are.

    Tensors of later calls have the first one's sizes, strides, dtypes and forms, and begin where Triton compiles the
    same for. Nothing is waited for on the host, and nothing that is put on a stream depends on the call's number.

    Args:
        workspace: of this rank.
        shard, gathered, factors: of the first call, see `__call__`.

    Raises:
        ValueError: sizes beyond what the kernel's 32-bit numbers or the windows hold.
    """

    def __init__(
        self, workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factors: Sequence[Factor]
    ) -> None:
        memory, (rows, k) = workspace.memory, shard.shape
        for factor in factors:
            _check(factor, rows * memory.ranks, k)
        awaited = any(
            _straddled(memory.rank, memory.ranks, rows, factor.plan.block_m)
            for factor in factors
            if factor.out.shape[1]
        )
        self._workspace, self._memory = workspace, memory
        self._transfers = Transfers(
            workspace, rows, k, shard.dtype, factors[0].plan.transport, scaled=gathered.fetch_scales,
            own_rows=gathered.own_rows, awaited=awaited,
        )  # fmt: skip
        self._products = [
            product_launch(
                workspace, shard, gathered, factor, self._transfers.scales_at, first=factor is factors[0],
                last=factor is factors[-1],
            )
            for factor in factors
        ]  # fmt: skip

    def __call__(
        self, shard: torch.Tensor, shard_inverse: torch.Tensor | None, gathered: Gathered, factors: Sequence[Factor]
    ) -> None:
        """Put a call on the streams.

        Args:
            shard: (rows, K) of this rank, contiguous.
            shard_inverse: (rows, 1) fp32 of this rank if ``gathered.fetch_scales``.
            gathered: where chunks go.
            factors: one or more products.
        """
        memory = self._memory
        compute = memory.stream(COMPUTE)
        used = self._transfers.begin(compute, shard, shard_inverse, gathered)
        with memory.launching(compute):
            for launch, factor in zip(self._products, factors, strict=True):
                launch(shard, gathered, factor)
        for stream in used:
            memory.wait_stream(compute, stream)
        # Others may still read this rank's window. The next call waits for them before it writes there; the caller not.
        if self._workspace.lent:
            memory.barrier(compute)


class Transfers:
    """How chunks of a size come to a rank: windows, signals and what is copied when, looked up once for all calls.

    Args:
        workspace: of this rank.
        rows, k, dtype: of a shard.
        transport: how its chunk moves.
        scaled: whether scales of rows come too.
        own_rows: whether this rank's chunk is wanted in the gathered matrix.
        awaited: whether the kernel waits for it there.

    Attributes:
        scales_at: byte of a window from which on scales are.
    """

    def __init__(
        self, workspace: Workspace, rows: int, k: int, dtype: torch.dtype, transport: TransportPlan, *, scaled: bool,
        own_rows: bool, awaited: bool,
    ) -> None:  # fmt: skip
        memory = workspace.memory
        chunk_bytes = rows * k * dtype.itemsize
        self.scales_at = scales_offset(chunk_bytes)
        self._memory, self._number, self._rows = memory, workspace.call_number, rows
        self._awaited, self._places = awaited, own_rows or awaited
        self._aside = self._places and chunk_bytes > COPIED_AT_ONCE_BYTES
        self._signals = -(-rows // transport.signal_rows)
        self._own = memory.window(memory.rank, (rows, k), dtype)
        self._own_address = self._own.data_ptr()
        self._own_scales = memory.window(memory.rank, (rows, 1), torch.float32, self.scales_at) if scaled else None
        lanes: list[list[_Fetch]] = [[] for _ in range(transport.peers if transport.fetchers == 0 else 0)]
        for place, source in enumerate(fetch_order(memory.rank, memory.ranks) if lanes else ()):
            window = memory.window(source, (rows, k), dtype)
            parts = []
            for number, part in enumerate(_slices(0, rows, transport.signal_rows)):
                pieces = _pieces(part, rows, chunk_bytes, transport.piece_bytes)
                whole = pieces == [slice(0, rows)]
                copies = [(None, window)] if whole else [(piece, window[piece]) for piece in pieces]
                parts.append((source * self._signals + number, copies))
            scales = memory.window(source, (rows, 1), torch.float32, self.scales_at) if scaled else None
            lanes[place % transport.peers].append(_Fetch(source, scales, parts))
        self._lanes = [(FETCH if lane == 0 else f"{FETCH} {lane + 1}", fetches) for lane, fetches in enumerate(lanes)]

    def begin(
        self, compute: Stream, shard: torch.Tensor, shard_inverse: torch.Tensor | None, gathered: Gathered
    ) -> list[Stream]:
        """Publish this rank's rows, and fetch the others' once all have.

        Returns:
            The streams beside ``compute`` that something was put on.
        """
        memory, rank, used = self._memory, self._memory.rank, []
        # Before the meeting: a copy within the GPU is a kernel on CUDA, and once the product fills the GPU, one
        # multiprocessor is left for it, which takes a millisecond for what all of them copy in 40 us.
        targets = [] if shard.data_ptr() == self._own_address else [(self._own, 0)]
        if self._aside:
            local = memory.stream(LOCAL)
            used.append(local)
            memory.wait_stream(local, compute)
            memory.copy(self._chunk(gathered.rows, rank), shard, local)
            self._tell_own(local)
        elif self._places:
            targets.append((gathered.rows, rank * self._rows))
        publications = [Publication(shard, targets)] if targets else []
        if self._own_scales is not None and gathered.a_inverse is not None and shard_inverse is not None:
            places = (self._own_scales, 0), (gathered.a_inverse, rank * self._rows)
            publications.append(Publication(shard_inverse, places))
        memory.publish(publications, compute)
        if self._places and not self._aside:
            self._tell_own(compute)
        if self._lanes:
            self._fetch(compute, gathered, used)
        return used

    def _chunk(self, matrix: torch.Tensor, rank: int) -> torch.Tensor:
        return matrix.narrow(0, rank * self._rows, self._rows)

    def _tell_own(self, stream: Stream) -> None:
        """Signal the own chunk, if that is awaited: else nothing would keep the number of the call until then."""
        if self._awaited:
            rank = self._memory.rank
            self._memory.write_signal(rank, rank * self._signals, self._number, stream)

    def _fetch(self, compute: Stream, gathered: Gathered, used: list[Stream]) -> None:
        """Copy the others' chunks, and signal them; the streams on which that is done are added to ``used``."""
        memory = self._memory
        fetching = [(memory.stream(name), fetches) for name, fetches in self._lanes]
        for stream, _ in fetching:
            used.append(stream)
            memory.wait_stream(stream, compute)
        for stream, fetches in fetching:
            for fetch in fetches:
                if fetch.scales is not None and gathered.a_inverse is not None:
                    memory.copy(self._chunk(gathered.a_inverse, fetch.source), fetch.scales, stream)
                chunk = self._chunk(gathered.rows, fetch.source)
                for signal, copies in fetch.parts:
                    for piece, window in copies:
                        memory.copy(chunk if piece is None else chunk[piece], window, stream)
                    memory.write_signal(memory.rank, signal, self._number, stream)


@dataclass(frozen=True)
class _Fetch:
    """One rank's chunk.

    Attributes:
        source: the rank.
        scales: its rows' scales in its window, if they come too.
        parts: signal, and what is copied before it: rows of the chunk (None: all) and where they are in the window.
    """

    source: int
    scales: torch.Tensor | None
    parts: Sequence[tuple[int, Sequence[tuple[slice | None, torch.Tensor]]]]


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


def product_launch(
    workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factor: Factor, scales_at: int, *, first: bool,
    last: bool,
) -> Callable[[torch.Tensor, Gathered, Factor], None]:  # fmt: skip
    """Launches of one product of calls like this one; the first one's programs fetch, where programs do."""
    if factor.plan.tma is not None:
        return _tma_launch(workspace, shard, gathered, factor, factor.plan.tma, last=last)
    if factor.plan.hip is not None:
        return _hip_launch(workspace, factor.plan, factor.plan.hip, scales_at, first=first, last=last)
    return _triton_launch(workspace, shard, gathered, factor, scales_at, first=first, last=last)


def _tma_launch(
    workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factor: Factor, tma: TmaPlan, *, last: bool
) -> Callable[[torch.Tensor, Gathered, Factor], None]:
    """Through the tensor memory accelerator."""
    from wavecast.kernels.all_gather_matmul.kernel_tma import all_gather_matmul_tma_kernel
    from wavecast.kernels.grouped_gemm.launch_tma import per_line
    from wavecast.kernels.tma import descriptor

    memory, (rows, k), n = workspace.memory, shard.shape, factor.out.shape[1]
    a_inverse, b_inverse = gathered.a_inverse, factor.b_inverse
    kept = KeptLaunch(
        all_gather_matmul_tma_kernel,
        tma.programs,
        describe=lambda gathered, shard, b, out: (
            descriptor(gathered, k, tma.block_m, tma.block_k), descriptor(shard, k, tma.block_m, tma.block_k),
            descriptor(b.t(), k, tma.block_n, tma.block_k), descriptor(out, n, tma.block_m // 2, tma.block_n // 4),
        ),
        stay=(memory.signals(memory.rank), workspace.state, workspace.failure),
        sizes=(rows * memory.ranks, n, k, n, rows, memory.rank, factor.plan.polls),
        constants={
            "FORM": (
                False, False, a_inverse is not None, per_line(a_inverse), per_line(b_inverse), gathered.fetch_scales
            ),
            "TILE": (tma.block_m, tma.block_n, tma.block_k, tma.stages, tma.band, tma.k_alignment),
            "OUT_STAGES": tma.out_stages,
            "LAST": last,
            "num_warps": 4,
        },
    )  # fmt: skip

    def launch(shard: torch.Tensor, gathered: Gathered, factor: Factor) -> None:
        matrices = (gathered.rows, shard, factor.b, factor.out)
        kept(matrices, (factor.out, gathered.a_inverse, factor.b_inverse))

    return launch


def _hip_launch(
    workspace: Workspace, plan: AllGatherMatmulPlan, hip: HipPlan, scales_at: int, *, first: bool, last: bool
) -> Callable[[torch.Tensor, Gathered, Factor], None]:
    """By the kernel in HIP."""
    memory, fetchers = workspace.memory, plan.transport.fetchers if first else 0
    windows = memory.window_addresses() if fetchers else None

    def launch(shard: torch.Tensor, gathered: Gathered, factor: Factor) -> None:
        launch_async_mm(
            hip, gathered=gathered.rows, shard=shard, b=factor.b, out=factor.out, a_inverse=gathered.a_inverse,
            b_inverse=factor.b_inverse, bias=factor.bias, signals=memory.signals(memory.rank), state=workspace.state,
            failure=workspace.failure, windows=windows, rank=memory.rank, ranks=memory.ranks, polls=plan.polls,
            transport=plan.transport, fetchers=fetchers, fetch_scales=gathered.fetch_scales, scales_at=scales_at,
            last=last,
        )  # fmt: skip

    return launch


def _triton_launch(
    workspace: Workspace, shard: torch.Tensor, gathered: Gathered, factor: Factor, scales_at: int, *, first: bool,
    last: bool,
) -> Callable[[torch.Tensor, Gathered, Factor], None]:  # fmt: skip
    """By Triton's kernel for every architecture."""
    memory, plan, gemm = workspace.memory, factor.plan, factor.plan.gemm
    (rows, k), n, b_stride = shard.shape, factor.out.shape[1], factor.b.stride(1)
    fetchers = plan.transport.fetchers if first else 0
    word = _widest(k * shard.element_size())
    unit, n_unit = unit_of(k, b_stride), unit_of(n)
    a_inverse, b_inverse = gathered.a_inverse, factor.b_inverse
    kept = KeptLaunch(
        all_gather_matmul_kernel,
        gemm.programs + fetchers,
        stay=(
            memory.signals(memory.rank), workspace.state, workspace.failure,
            memory.window_addresses() if fetchers else None,
        ),
        sizes=(
            rows * memory.ranks, rows, plan.transport.signal_rows, n // n_unit, k // unit, b_stride // unit,
            memory.rank, memory.ranks, plan.polls, k * shard.element_size() // word.itemsize, scales_at,
        ),
        constants={
            "SCALED": a_inverse is not None,
            "A_ROWS": a_inverse is not None and a_inverse.ndim > 0,
            "B_COLUMNS": b_inverse is not None and b_inverse.ndim > 0,
            "BIASED": factor.bias is not None,
            "LAST": last,
            "FETCHERS": fetchers,
            "PEERS": plan.transport.peers,
            "FETCH_SCALES": gathered.fetch_scales,
            "FETCH_BLOCK": gemm.num_warps * gemm.lanes * FETCH_BYTES // word.itemsize,
            "UNIT": unit,
            "N_UNIT": n_unit,
            "CUT": k % gemm.block_k != 0,
            "IMPRECISE": imprecise_sum(shard.dtype, gemm),
            **gemm.constants,
        },
    )  # fmt: skip

    def launch(shard: torch.Tensor, gathered: Gathered, factor: Factor) -> None:
        rows = gathered.rows
        words = None
        if fetchers:
            words = rows if kept.has_kernel else rows.view(word)  # of which only the address counts once it is compiled
        tensors = rows, shard, factor.b, factor.out, gathered.a_inverse, factor.b_inverse, factor.bias, words
        kept((), tensors)

    return launch


def _widest(row_bytes: int) -> torch.dtype:
    """The widest integers that a row is a multiple of."""
    return next(dtype for dtype in (torch.int32, torch.int16, torch.int8) if row_bytes % dtype.itemsize == 0)
