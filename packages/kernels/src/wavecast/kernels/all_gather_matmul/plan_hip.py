"""On which grid the kernel in HIP carries out a product of all-gather+matmul. Pure."""

from __future__ import annotations

from wavecast.kernels.async_tp.order import band_within
from wavecast.kernels.async_tp.plan_hip import BAND, TILE, HipPlan
from wavecast.kernels.async_tp.transport import TransportPlan
from wavecast.kernels.grouped_gemm.plan import XCDS


def plan_hip(*, shard_rows: int, columns: int, ranks: int, transport: TransportPlan) -> HipPlan:
    """The grid of a product that has no obstacle.

    Args:
        shard_rows: rows of every rank.
        columns: N.
        ranks: size of the group.
        transport: what moves the chunks.
    """
    tiles = -(-ranks * shard_rows // TILE) * -(-columns // TILE)
    programs = max(min(transport.most_units - transport.fetchers, tiles) // XCDS * XCDS, XCDS)
    return HipPlan(programs, band=band_within(transport.signal_rows, TILE, BAND))
