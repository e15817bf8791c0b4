"""How all-gather+matmul is carried out for a shape on an architecture: tiles, grid, order and transport. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wavecast.kernels.all_gather_matmul.plan_hip import plan_hip
from wavecast.kernels.async_tp.order import band_within
from wavecast.kernels.async_tp.plan_hip import HipPlan, Layout, check_possible, hip_obstacle
from wavecast.kernels.async_tp.transport import TIMEOUT_POLLS, Engine, TransportPlan, plan_transport
from wavecast.kernels.grouped_gemm.plan import GemmPlan, candidates, plan_gemm
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan, plan_tma_grouped, tma_obstacle
from wavecast.kernels.tma import ALIGNMENT

SHORT_FLOP = 1 << 34
"""A product of so many operations takes an H200 about 25 us, less than the host takes to put copies, signals and waits
on other streams: there the kernel fetches, though copy engines take no SM on CUDA."""


@dataclass(frozen=True, slots=True)
class AllGatherMatmulPlan:
    """How a call is carried out.

    Attributes:
        gemm: tiles of the product; its grid without the fetchers.
        transport: how chunks come.
        polls: after how many polls of a signal the kernel gives up.
        tma: tiles of the product for the tensor memory accelerator, which then are used instead of ``gemm``'s.
        hip: the kernel in HIP, which then is used instead of Triton's.
    """

    gemm: GemmPlan
    transport: TransportPlan
    polls: int = TIMEOUT_POLLS
    tma: TmaPlan | None = None
    hip: HipPlan | None = None

    @property
    def block_m(self) -> int:
        """Rows of a tile."""
        return (self.hip or self.tma or self.gemm).block_m

    @property
    def programs(self) -> int:
        """Programs of the grid."""
        return (self.hip or self.tma or self.gemm).programs + self.transport.fetchers

    @property
    def reason(self) -> str:
        """Why, in a few sentences."""
        return f"{(self.hip or self.tma or self.gemm).reason}; {self.transport.reason}"


@lru_cache
def plan_all_gather_matmul(
    *,
    shard_rows: int,
    columns: int,
    length: int,
    ranks: int,
    element_bytes: int,
    arch: str | None,
    full_mesh: bool = False,
    call_columns: int | None = None,
    engine: Engine | None = None,
    tma_bytes: tuple[int, int] | None = None,
    hip: Layout | None = None,
    units: int | None = None,
) -> AllGatherMatmulPlan:
    """The plan of (ranks * shard_rows, length) times (length, columns).

    Args:
        shard_rows: rows of every rank.
        columns, length: N and K.
        ranks: size of the group.
        element_bytes: of an operand's element, 1 or 2.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None.
        full_mesh: see `plan_transport`.
        call_columns: N of all products of a call together, which have one transport; None: of this one alone.
        engine: what is to move the chunks; None leaves it to the plan.
        tma_bytes: bytes of an element of the result, and between columns of b, of operands that begin at multiples of
            16 bytes and a product without bias: what the tensor memory accelerator can then do is left to it. None: it
            cannot.
        hip: tensors for which the kernel in HIP is asked for.
        units: see `plan_transport`.

    Raises:
        ValueError: an engine that is none on this architecture; the kernel in HIP is asked for and cannot do it.
    """
    transport = plan_transport(
        arch=arch,
        ranks=ranks,
        shard_rows=shard_rows,
        full_mesh=full_mesh,
        short=2 * ranks * shard_rows * (call_columns or columns) * length <= SHORT_FLOP,
        engine=engine,
        units=units,
    )
    gemm = plan_gemm(ranks * shard_rows, columns, length, element_bytes=element_bytes, arch=arch)
    tma = None
    if tma_bytes is not None and transport.fetchers == 0:
        tma = _plan_tma(shard_rows, columns, length, ranks, element_bytes, arch, tma_bytes, transport)
    hip_plan = None
    if hip is not None:
        obstacle = hip_obstacle(
            arch=arch, rows=shard_rows, columns=columns, length=length, ranks=ranks, layout=hip,
            programs=transport.most_units,
        )  # fmt: skip
        check_possible(obstacle)
        hip_plan = plan_hip(shard_rows=shard_rows, columns=columns, ranks=ranks, transport=transport)
    gemm = limited(gemm, transport, element_bytes=element_bytes, arch=arch)
    return AllGatherMatmulPlan(gemm, transport, tma=tma, hip=hip_plan)


def _plan_tma(
    shard_rows: int, columns: int, length: int, ranks: int, element_bytes: int, arch: str | None,
    tma_bytes: tuple[int, int], transport: TransportPlan,
) -> TmaPlan | None:  # fmt: skip
    """Tiles for the tensor memory accelerator; None where something is in its way."""
    out_bytes, b_stride_bytes = tma_bytes
    obstacle = tma_obstacle(
        arch=arch, rows=ranks * shard_rows, columns=columns, summed=length, groups=1, sum_form=False,
        strides=(length, b_stride_bytes // element_bytes, 0), out_stride=columns, element_bytes=element_bytes,
        out_bytes=out_bytes, aligned=b_stride_bytes % ALIGNMENT == 0,
    )  # fmt: skip
    if obstacle is not None:
        return None
    tma = plan_tma_grouped(element_bytes=element_bytes, out_bytes=out_bytes)
    tiles = -(-ranks * shard_rows // tma.block_m) * -(-columns // tma.block_n)
    programs = max(min(transport.most_units, tma.programs, tiles), 1)
    return replace(tma, programs=programs, band=band_within(transport.signal_rows, tma.block_m, tma.band))


def limited(gemm: GemmPlan, transport: TransportPlan, *, element_bytes: int, arch: str | None) -> GemmPlan:
    """The GEMM's plan within the grid that a transport allows, with bands that stay within what one signal tells of."""
    (tile,) = (t for t in candidates(arch, element_bytes) if (t.m, t.n) == (gemm.block_m, gemm.block_n))
    slots = transport.most_units * tile.per_unit - transport.fetchers
    programs = max(min(gemm.programs, slots // gemm.xcds * gemm.xcds), gemm.xcds)
    return replace(gemm, programs=programs, band=band_within(transport.signal_rows, gemm.block_m, gemm.band))
