"""Tiles of the transposing copy: a pure function of shape, layout and size of a value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any

from wavecast.kernels.rowwise.plan import VECTOR_BYTES

LINE_BYTES = 128
"""What a row and a column of a tile are at least: a whole line on either side."""

NUM_WARPS = 4


@dataclass(frozen=True, slots=True)
class TransposePlan:
    """How the kernel is launched.

    Attributes:
        tile_rows, tile_cols: size of a tile.
        pack: rows whose values are joined into a word of 32 bits; 1 where columns do not start at whole words.
        rows_unit, columns_unit: divide the number of rows, and that of columns and the stride of rows; as many values
            as can be stored and loaded at once.
        row_tiles, column_tiles: tiles of a matrix.
        programs: size of the (one-dimensional) grid.
        reason: one sentence on why.
    """

    tile_rows: int
    tile_cols: int
    pack: int
    rows_unit: int
    columns_unit: int
    row_tiles: int
    column_tiles: int
    programs: int
    reason: str

    @property
    def constants(self) -> dict[str, Any]:
        """Constexprs and options of the launch."""
        return {
            "ROWS_UNIT": self.rows_unit,
            "COLUMNS_UNIT": self.columns_unit,
            "TILE_ROWS": self.tile_rows,
            "TILE_COLS": self.tile_cols,
            "PACK": self.pack,
            "num_warps": NUM_WARPS,
        }


@lru_cache
def plan_transposed_copy(
    batch: int, rows: int, columns: int, *, strides: tuple[int, int], itemsize: int
) -> TransposePlan:
    """Plan for ``batch`` matrices (rows, columns).

    Args:
        batch, rows, columns: sizes.
        strides: values from one matrix and from one row to the next.
        itemsize: bytes of a value, 1, 2 or 4.
    """
    vector = VECTOR_BYTES // itemsize
    rows_unit = gcd(rows, vector)
    words = 4 // itemsize
    pack = words if rows % words == 0 else 1
    tile_rows, tile_cols = LINE_BYTES if itemsize < 4 else LINE_BYTES // 4, LINE_BYTES // itemsize
    row_tiles, column_tiles = -(-rows // tile_rows), -(-columns // tile_cols)
    columns_unit = gcd(columns, *strides, vector)
    return TransposePlan(
        tile_rows=tile_rows,
        tile_cols=tile_cols,
        pack=pack,
        rows_unit=rows_unit,
        columns_unit=columns_unit,
        row_tiles=row_tiles,
        column_tiles=column_tiles,
        programs=batch * row_tiles * column_tiles,
        reason=f"tiles of whole lines both ways; {columns_unit * itemsize} bytes are loaded and {rows_unit * itemsize} "
        f"stored at once, {pack} values to an exchanged word",
    )
