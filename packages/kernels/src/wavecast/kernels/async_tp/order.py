"""In which order tiles are visited, and what each waits for: the kernels' arithmetic in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visit:
    """One output tile.

    Attributes:
        row, column: of the tile, counted in tiles.
        chunks: whose signals it waits for; empty for a tile that is wholly within this rank's own chunk.
    """

    row: int
    column: int
    chunks: tuple[int, ...]


def fetch_order(rank: int, ranks: int) -> tuple[int, ...]:
    """The other ranks, in the order in which this one fetches from them: no two fetch from one at a time."""
    return tuple((rank + step) % ranks for step in range(1, ranks))


def gather_visits(*, rank: int, ranks: int, shard_rows: int, tiles_n: int, block_m: int, band: int) -> Iterator[Visit]:
    """Tiles of all-gather+matmul in the order in which they are dealt to programs."""
    rows = shard_rows * ranks
    tiles_m = -(-rows // block_m)
    first = -(-rank * shard_rows // block_m)
    own = range(rank * shard_rows, (rank + 1) * shard_rows + 1)
    for tile in range(tiles_m * tiles_n):
        visit, column = position(tile, tiles_m, tiles_n, band)
        row = (visit + first) % tiles_m
        start, end = row * block_m, min((row + 1) * block_m, rows)
        whole = start in own and end in own
        chunks = () if whole else tuple(range(start // shard_rows, (end - 1) // shard_rows + 1))
        yield Visit(row, column, chunks)


def position(tile: int, tiles_m: int, tiles_n: int, band: int) -> tuple[int, int]:
    """(row, column) of a tile: column by column within bands of rows."""
    which, inside = divmod(tile, band * tiles_n)
    rows = min(tiles_m - which * band, band)
    return which * band + inside % rows, inside // rows


def band_within(chunk_rows: int, block_m: int, band: int) -> int:
    """The largest power of two that is at most ``band`` and no more rows of tiles than a chunk has.

    A band that reached into the next chunk would have its first columns wait for that one.
    """
    whole = max(chunk_rows // block_m, 1)
    return min(band, 1 << (whole.bit_length() - 1))
