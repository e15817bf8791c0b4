"""How matmul+reduce-scatter is carried out for a shape on an architecture: tiles, grid and order. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from wavecast.kernels.async_tp.order import band_within
from wavecast.kernels.async_tp.plan_hip import BAND, TILE, HipPlan, Layout, check_possible, hip_obstacle
from wavecast.kernels.async_tp.transport import TIMEOUT_POLLS
from wavecast.kernels.device import compute_units
from wavecast.kernels.grouped_gemm.plan import XCDS, GemmPlan, candidates, plan_gemm
from wavecast.kernels.grouped_gemm.plan_tma import TmaPlan, plan_tma_grouped, tma_obstacle
from wavecast.kernels.tma import ALIGNMENT

PART_BYTES = 4
"""Of a value that ranks send each other, fp32."""

LARGEST_TILE = 256 * 128
"""Values of a tile at most: a sum of 256 x 256 leaves no registers for what the others have computed."""


@dataclass(frozen=True, slots=True)
class MatmulReduceScatterPlan:
    """How a call is carried out.

    Attributes:
        gemm: tiles of the product, of which each is of one rank's part; its grid.
        polls: after how many polls of a signal the kernel gives up.
        reason: why, in a few sentences.
        peers: ranks whose parts are computed at a time: one, or all others in turns.
        tma: tiles of the product for the tensor memory accelerator, which then are used instead of ``gemm``'s.
        hip: the kernel in HIP, which then is used instead of Triton's.
    """

    gemm: GemmPlan
    polls: int
    reason: str
    peers: int = 1
    tma: TmaPlan | None = None
    hip: HipPlan | None = None


@lru_cache
def plan_matmul_reduce_scatter(
    *,
    rows: int,
    columns: int,
    length: int,
    ranks: int,
    element_bytes: int,
    arch: str | None,
    full_mesh: bool = False,
    tma_stride_bytes: int | None = None,
    hip: Layout | None = None,
    units: int | None = None,
) -> MatmulReduceScatterPlan:
    """The plan of (ranks * rows, length) times (length, columns), of which every rank keeps ``rows`` rows.

    Args:
        rows: of a rank's part.
        columns, length: N and K.
        ranks: size of the group.
        element_bytes: of an operand's element, 1 or 2.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None.
        full_mesh: see `plan_transport`.
        tma_stride_bytes: bytes between columns of b, of operands that begin at multiples of 16 bytes: what the tensor
            memory accelerator can then do is left to it. None: it cannot.
        hip: tensors for which the kernel in HIP is asked for.
        units: compute units of the device, see `plan_transport`.

    Raises:
        ValueError: the kernel in HIP is asked for and cannot do it.
    """
    gemm = plan_gemm(rows, columns, length, ranks, element_bytes=element_bytes, arch=arch, largest=LARGEST_TILE)
    units = compute_units(arch) if units is None else units
    (tile,) = (t for t in candidates(arch, element_bytes) if (t.m, t.n) == (gemm.block_m, gemm.block_n))
    programs = max(min(gemm.programs, units * tile.per_unit // gemm.xcds * gemm.xcds), gemm.xcds)
    gemm = replace(gemm, programs=programs, band=band_within(rows, gemm.block_m, gemm.band))
    tma = None
    if tma_stride_bytes is not None:
        tma = _plan_tma(rows, columns, length, ranks, element_bytes, arch, tma_stride_bytes, units)
    hip_plan = None if hip is None else _plan_hip(rows, columns, length, ranks, arch, hip, units)
    tiles, peers, order = hip_plan or tma or gemm, 1, "the farthest first"
    if full_mesh and tma is None and ranks > 2:
        peers = ranks - 1
        order = f"in turns, since each of {peers} peers has a link of its own"
    return MatmulReduceScatterPlan(
        gemm, TIMEOUT_POLLS,
        f"{tiles.reason}; programs write fp32 sums into the windows of the ranks that they are for, {order}, and "
        "signal them: nothing else moves data, no unit is left free",
        peers, tma, hip_plan,
    )  # fmt: skip


def _plan_tma(
    rows: int,
    columns: int,
    length: int,
    ranks: int,
    element_bytes: int,
    arch: str | None,
    stride_bytes: int,
    units: int,
) -> TmaPlan | None:
    """Tiles for the tensor memory accelerator; None where something is in its way."""
    obstacle = tma_obstacle(
        arch=arch, rows=ranks * rows, columns=columns, summed=length, groups=1, sum_form=False,
        strides=(length, stride_bytes // element_bytes, 0), out_stride=ALIGNMENT, element_bytes=element_bytes,
        out_bytes=4, aligned=stride_bytes % ALIGNMENT == 0,
    )  # fmt: skip
    if obstacle is not None:
        return None
    tma = plan_tma_grouped(element_bytes=element_bytes, out_bytes=4)
    tiles = ranks * -(-rows // tma.block_m) * -(-columns // tma.block_n)
    return replace(tma, programs=max(min(units, tma.programs, tiles), 1), band=band_within(rows, tma.block_m, tma.band))


def _plan_hip(
    rows: int, columns: int, length: int, ranks: int, arch: str | None, layout: Layout, units: int
) -> HipPlan:  # fmt: skip
    """The grid of the kernel in HIP.

    Raises:
        ValueError: it cannot do it.
    """
    obstacle = hip_obstacle(
        arch=arch, rows=rows, columns=columns, length=length, ranks=ranks, layout=layout, programs=units,
        part_bytes=PART_BYTES,
    )  # fmt: skip
    check_possible(obstacle)
    tiles = ranks * -(-rows // TILE) * -(-columns // TILE)
    return HipPlan(max(min(units, tiles) // XCDS * XCDS, XCDS), band=band_within(rows, TILE, BAND))


def window_bytes(rows: int, columns: int, ranks: int) -> int:
    """Size of a window: the other ranks' fp32 sums."""
    return PART_BYTES * (ranks - 1) * rows * columns
