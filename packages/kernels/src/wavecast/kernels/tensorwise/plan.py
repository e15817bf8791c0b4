"""Tiles and grids of the tensor-wise quantizer: a pure function of layout, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from wavecast.kernels.rowwise.plan import VECTOR_BYTES, next_power_of_two, wave_lanes
from wavecast.kernels.tensorwise.layout import Rows

LANE_VALUES = 32
"""Values of a tile that a lane owns: four 16-byte loads of bf16 in flight."""

NUM_WARPS = 8
"""Waves of a program."""

MOST_PROGRAMS = 768
"""Most programs that look for the amax, so many that all are resident at once: at most six on each of the 132 units
of an H200, and three on each of the 256 to 304 of an MI300X or MI355X. With 1,024 some take a second turn on an H200,
and the search takes 10 % longer."""

PARTIALS_BLOCK = 1024
"""What the other launch loads at once: all their results."""


@dataclass(frozen=True, slots=True)
class TensorwisePlan:
    """How both kernels are launched.

    Attributes:
        vector: neighbouring values that a lane loads at once.
        rows, vectors, row_stride: the tensor in whole vectors: rows, vectors of a row, and from row to row.
        tail: values behind the last whole vector.
        tile_rows, tile_vectors: rows of a tile, and vectors of each.
        partials: programs of the launch that looks for the amax, and the number of its results.
        tiles: programs of the launch that casts.
        num_warps: waves a program.
        reason: one sentence on why.
    """

    vector: int
    rows: int
    vectors: int
    row_stride: int
    tail: int
    tile_rows: int
    tile_vectors: int
    partials: int
    tiles: int
    num_warps: int
    reason: str


@lru_cache
def plan_tensorwise(rows: Rows, *, itemsize: int, arch: str | None) -> TensorwisePlan:
    """Plan for a tensor that lies in memory as ``rows``.

    Args:
        rows: see `Rows`.
        itemsize: bytes of a value, 2 or 4.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    vector = VECTOR_BYTES // itemsize
    if rows.number > 1:
        vector = gcd(vector, rows.length, rows.stride)
    vectors = rows.length // vector
    tile = NUM_WARPS * wave_lanes(arch) * LANE_VALUES // vector
    tile_vectors = tile if rows.number <= 1 else min(next_power_of_two(vectors), tile)
    tile_rows = tile // tile_vectors
    tiles = max(-(-rows.number // tile_rows) * -(-vectors // tile_vectors), 1)
    where = "without gaps" if rows.number <= 1 else f"in {rows.number} rows"
    return TensorwisePlan(
        vector=vector,
        rows=rows.number,
        vectors=vectors,
        row_stride=rows.stride // vector,
        tail=rows.length % vector,
        tile_rows=tile_rows,
        tile_vectors=tile_vectors,
        partials=min(tiles, MOST_PROGRAMS),
        tiles=tiles,
        num_warps=NUM_WARPS,
        reason=f"{where}, so in vectors of {vector} values; {tiles} tiles, which are read twice",
    )
