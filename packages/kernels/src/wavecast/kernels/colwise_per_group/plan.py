"""Tile sizes of the column-wise quantizer: a pure function of shape, dtype and architecture. Nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

CHUNK = 8
"""Rows that one lane stores at once. 8 bytes a lane and 8 lanes make the 64 bytes that L2 takes as one full write;
16 would need twice the registers in flight, and halve the waves that hide the latency of the loads."""

LOAD_BYTES = 16
"""Bytes that one lane loads at once: the widest load there is."""

LINE_BYTES = 128
"""Bytes of one row that a tile reads on AMD: a cache line, so that no line is fetched for two tiles."""

PIECES = 2
"""Parts of the held tile; the loops that only longer groups enter load and store one part at a time."""

MAX_WAVES = 16
"""Waves of the largest workgroup (1024 work-items on AMD)."""

WAVES_WHEN_STREAMING = 8
"""Waves if groups are too long to be held: two workgroups a compute unit, so that one loads while one stores."""


NVIDIA_TILES = ((768, 4, 8), (1536, 8, 8), (2048, 8, 16))
"""Longest mean group, warps, and lanes of a warp along the rows: tiles of 512 and 1024 rows of 64 bytes, and of 2048 of
32, a sector, the smallest read that costs nothing extra. Two workgroups of 8 warps, four of 4, fit an SM, and one loads
while another stores. A group a little longer than a tile reads a piece twice, which costs less than a tile half empty:
of 1,040 rows, 62 % of the bandwidth of a copy instead of 57 %."""

NVIDIA_STREAMING_TILE = (16, 4)
"""The tile of longer mean groups: 1024 rows of 128 bytes."""


@dataclass(frozen=True)
class Plan:
    """Tile of one workgroup and its split over registers, lanes and waves.

    Attributes:
        chunk: rows in a lane's registers that are stored together.
        pieces: parts of the tile along the rows.
        waves: waves (warps) of the workgroup, along the rows.
        row_lanes, col_lanes: lanes of a wave along rows and columns.
        lane_cols: columns in a lane's registers.
        on_gfx: compiled for AMD, where assembly statements without instructions order the work (`issued_here`).
        reason: one sentence on why.
    """

    chunk: int
    pieces: int
    waves: int
    row_lanes: int
    col_lanes: int
    lane_cols: int
    on_gfx: bool
    reason: str

    @property
    def rows(self) -> int:
        """Rows of the tile. A group whose rows, counted from the chunk it starts in, fit is read once."""
        return self.pieces * self.chunk * self.waves * self.row_lanes

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.col_lanes * self.lane_cols


@lru_cache
def plan(tokens: int, groups: int, *, element_bytes: int, arch: str | None) -> Plan:
    """The tile for ``tokens`` rows in ``groups`` groups of inputs of ``element_bytes`` each.

    The tile holds the mean group as long as a workgroup can. On AMD it has the width of a cache line and as many waves
    as the mean group, rounded up to a power of two, needs: at most 16, which is 2048 rows of a 16-bit input. On NVIDIA
    a warp has half the lanes, and a workgroup of 16 warps would have the SM for itself: there the tile is one of
    `NVIDIA_TILES`. Group sizes are the device's data and not known here; a longer group is right all the same, its
    first rows are read a second time.

    Args:
        tokens: rows of the input, all groups together.
        groups: number of groups, at least 1.
        element_bytes: 2 or 4.
        arch: ``gfx…`` (waves of 64), ``sm_…`` (warps of 32), or None, which counts as gfx.
    """
    lane_cols = LOAD_BYTES // element_bytes
    mean = -(-tokens // groups)
    if arch is not None and arch.startswith("sm_"):
        tiles = [(waves, lanes) for longest, waves, lanes in NVIDIA_TILES if longest >= mean]
        waves, row_lanes = tiles[0] if tiles else NVIDIA_STREAMING_TILE
        col_lanes = 32 // row_lanes
    else:
        col_lanes = LINE_BYTES // LOAD_BYTES
        row_lanes = 64 // col_lanes
        waves = 1
        while waves * PIECES * CHUNK * row_lanes < mean and waves < MAX_WAVES:
            waves *= 2
        if waves * PIECES * CHUNK * row_lanes < mean:
            waves = WAVES_WHEN_STREAMING
    rows = waves * PIECES * CHUNK * row_lanes
    reason = (
        f"the mean group of {mean} rows is held in a tile of {rows} rows and read once"
        if rows >= mean
        else f"the mean group of {mean} rows exceeds its tiles of {rows} rows, and is read twice but for the last"
    )
    on_gfx = arch is not None and arch.startswith("gfx")
    return Plan(CHUNK, PIECES, waves, row_lanes, col_lanes, lane_cols, on_gfx, reason)
