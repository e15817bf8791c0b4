"""Tiles of the dual-layout quantizers: a pure function of shape, dtype and architecture. Nothing is measured."""

from __future__ import annotations

from dataclasses import dataclass

TILE_ROWS = 128
"""Rows of a tile: a column of it is a whole 128-byte line of the column-major values."""

CHUNK = 16
"""Rows whose bytes of one column a lane stores at once: the widest store there is."""

LINE_BYTES = 128

PREPARE_BLOCK = 1024
"""Words that a program of the preparing launch zeroes, and offsets that it looks at at once."""


@dataclass(frozen=True, slots=True)
class DualLayoutPlan:
    """Tile of one program and the numbers of tiles.

    Attributes:
        tile_rows, tile_cols: size of a tile; a row of it is a whole line of the row-major values.
        pieces: parts of the tile along the rows, in which its keys are taken.
        pack: rows whose bytes are joined before lanes change direction: 4 where columns start at whole words, else 1.
        chunk: rows that a lane stores together.
        num_warps: waves (warps) of a program.
        row_tiles, column_tiles: tiles of one batch; at least one, so that something writes the scales of nothing.
        batches: matrices with column scales of their own.
    """

    tile_rows: int
    tile_cols: int
    pieces: int
    pack: int
    chunk: int
    num_warps: int
    row_tiles: int
    column_tiles: int
    batches: int

    @property
    def tiles(self) -> int:
        """Tiles of all batches."""
        return self.batches * self.row_tiles * self.column_tiles


def plan_dual_layout(batches: int, rows: int, columns: int, *, element_bytes: int, arch: str | None) -> DualLayoutPlan:
    """The tiles of ``batches`` row-major matrices (rows, columns).

    Args:
        batches: matrices one after the other in memory.
        rows, columns: size of each.
        element_bytes: 2 or 4.
        arch: ``gfx…``, ``sm_…`` or None for the interpreter.
    """
    tile_cols = LINE_BYTES * 2 // element_bytes
    return DualLayoutPlan(
        tile_rows=TILE_ROWS,
        tile_cols=tile_cols,
        pieces=4,
        pack=4 if rows % 4 == 0 else 1,
        chunk=CHUNK,
        num_warps=8,
        row_tiles=max(-(-rows // TILE_ROWS), 1),
        column_tiles=max(-(-columns // tile_cols), 1),
        batches=batches,
    )
