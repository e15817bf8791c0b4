"""Sizes and tiles of the padding of token groups: pure functions of shape, layout and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from wavecast.kernels.rowwise.plan import VECTOR_BYTES, next_power_of_two, wave_lanes

NUM_WARPS = 4

LANE_VECTORS = 2
"""16-byte vectors that a lane moves, in flight together."""

LANE_VECTORS_WITH_MANY_GROUPS = 8
"""Likewise: every program looks at all groups, which is worth more rows where there are many."""

MANY_GROUPS = 256
""""Many" are more than these."""

MOST_ROWS = 16
"""Most rows of a tile."""

MOST_GROUPS = 1024
"""Groups that a program looks at together."""


def padded_rows(tokens: int, groups: int, multiple: int) -> int:
    """Rows that hold ``tokens`` in ``groups`` padded groups, whatever the groups' sizes are: known without them.

    Each group grows by at most ``multiple - 1`` rows; the sum is rounded up to ``multiple``.
    """
    return -(-(tokens + groups * (multiple - 1)) // multiple) * multiple


@dataclass(frozen=True, slots=True)
class PaddingPlan:
    """How either kernel is launched.

    Attributes:
        vector: neighbouring units that a lane moves at once.
        tile_rows, tile_vectors: rows of a tile, and vectors of each.
        group_block: groups that a program looks at together.
        num_warps: waves a program.
        programs: size of the (one-dimensional) grid.
        reason: one sentence on why.
    """

    vector: int
    tile_rows: int
    tile_vectors: int
    group_block: int
    num_warps: int
    programs: int
    reason: str

    @property
    def constants(self) -> dict[str, Any]:
        """The constexprs of both kernels."""
        return {
            "GROUP_BLOCK": self.group_block,
            "TILE_ROWS": self.tile_rows,
            "TILE_VECTORS": self.tile_vectors,
            "VECTOR": self.vector,
            "num_warps": self.num_warps,
        }


def plan_padding(
    rows: int, columns: int, *, row_stride: int, groups: int, row_unit: int, itemsize: int, arch: str | None
) -> PaddingPlan:
    """Plan for an output of ``rows`` by ``columns`` units.

    Args:
        rows, columns: sizes of the output.
        row_stride: of the input, in units.
        groups: number of groups.
        row_unit: what the rows of a tile must divide, so that they belong to one group; 0 if they need not.
        itemsize: bytes of a unit: 1, 2 or 4.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    vector = gcd(VECTOR_BYTES // itemsize, columns, row_stride)
    vectors = columns // vector
    lane_vectors = LANE_VECTORS_WITH_MANY_GROUPS if groups > MANY_GROUPS else LANE_VECTORS
    tile = NUM_WARPS * wave_lanes(arch) * lane_vectors
    tile_rows = gcd(row_unit, MOST_ROWS)
    tile_vectors = min(next_power_of_two(vectors), tile)
    tile_rows = min(tile_rows, tile // tile_vectors)
    return PaddingPlan(
        vector=vector,
        tile_rows=tile_rows,
        tile_vectors=tile_vectors,
        group_block=min(max(next_power_of_two(groups), 16), MOST_GROUPS),
        num_warps=NUM_WARPS,
        programs=max(-(-rows // tile_rows), 1) * max(-(-vectors // tile_vectors), 1),
        reason=f"tiles of {tile_rows} rows, "
        + (f"all in one group, as they divide {row_unit}" if row_unit else "each row with a group of its own"),
    )
