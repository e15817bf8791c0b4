"""Tile of the block-wise quantizer: a pure function of shape, layout, dtype and architecture."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from wavecast.kernels.blockwise.layout import SIDE
from wavecast.kernels.rowwise.plan import VECTOR_BYTES

NUM_WARPS = 4

TILE_ROWS = 64
"""Rows of a tile whose rows have a scale of their own; with 128, scales and inverses need 145 registers a lane."""


@dataclass(frozen=True, slots=True)
class BlockwisePlan:
    """How the kernel is launched.

    Attributes:
        square: one scale a tile; otherwise one a row of a tile.
        tile_rows: rows of a tile; its columns are those of a block.
        vector: neighbouring values that a lane loads at once.
        num_warps: waves a program.
        programs: size of the (one-dimensional) grid.
        reason: one sentence on why.
    """

    square: bool
    tile_rows: int
    vector: int
    num_warps: int
    programs: int
    reason: str


def plan_blockwise(
    batch: int, rows: int, columns: int, *, strides: tuple[int, ...], square: bool, itemsize: int, arch: str | None
) -> BlockwisePlan:
    """Plan for ``batch`` row-major matrices of ``rows`` by ``columns`` values.

    Args:
        batch, rows, columns: sizes.
        strides: of the batch and of the rows, in values.
        square: blocks of 128 x 128; otherwise of 1 x 128.
        itemsize: bytes of a value, 2 or 4.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    vector = gcd(VECTOR_BYTES // itemsize, columns, *strides)
    tile_rows = SIDE if square else TILE_ROWS
    return BlockwisePlan(
        square=square,
        tile_rows=tile_rows,
        vector=vector,
        num_warps=NUM_WARPS,
        programs=batch * -(-rows // tile_rows) * -(-columns // SIDE),
        reason=f"a tile of {tile_rows} x {SIDE} stays in registers, in vectors of {vector} values, and is read once",
    )
