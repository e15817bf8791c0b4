"""In which order tiles are visited, and what each waits for: the kernels' arithmetic in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visit:
    """One output tile.

    Attributes:
        row, column: of the tile, counted in tiles.
        signals: that it waits for; empty for a tile that is wholly within this rank's own chunk.
    """

    row: int
    column: int
    signals: tuple[int, ...]


def fetch_order(rank: int, ranks: int) -> tuple[int, ...]:
    """The other ranks, in the order in which this one fetches from them: no two fetch from one at a time."""
    return tuple((rank + step) % ranks for step in range(1, ranks))


def arrivals(*, rank: int, ranks: int, shard_rows: int, signal_rows: int, peers: int) -> tuple[int, ...]:
    """Signals of the other ranks' chunks in the order in which they come.

    Signal ``source * signals + part`` is that of the rows of ``source``'s chunk from ``part * signal_rows`` on, where a
    chunk has ``signals`` of them.

    Args:
        rank, ranks: of this rank, and their number.
        shard_rows: rows of a chunk.
        signal_rows: rows of a signal.
        peers: that chunks come from at a time: one, chunk after chunk; or all, part after part.
    """
    signals = -(-shard_rows // signal_rows)
    order = fetch_order(rank, ranks)
    if peers == 1:
        return tuple(source * signals + part for source in order for part in range(signals))
    return tuple(source * signals + part for part in range(signals) for source in order)


def gather_visits(
    *, rank: int, ranks: int, shard_rows: int, signal_rows: int, peers: int, tiles_n: int, block_m: int, band: int
) -> Iterator[Visit]:  # fmt: skip
    """Tiles of all-gather+matmul in the order in which they are dealt to programs; arguments as for `arrivals`."""
    rows, signals = shard_rows * ranks, -(-shard_rows // signal_rows)
    own = range(rank * shard_rows, (rank + 1) * shard_rows + 1)
    order = _tile_rows(rank, ranks, shard_rows, signal_rows, peers, block_m)

    def signal_of(row: int) -> int:
        chunk, inside = divmod(row, shard_rows)
        return chunk * signals + inside // signal_rows

    def awaited(row: int) -> tuple[int, ...]:
        start, end = row * block_m, min((row + 1) * block_m, rows)
        if start in own and end in own:
            return ()
        # What is of the own chunk has one signal.
        told = (
            rank * signals if signal // signals == rank else signal
            for signal in range(signal_of(start), signal_of(end - 1) + 1)
        )
        return tuple(dict.fromkeys(told))

    waits = {row: awaited(row) for row in order}
    for tile in range(len(order) * tiles_n):
        visit, column = position(tile, len(order), tiles_n, band)
        yield Visit(order[visit], column, waits[order[visit]])


def _tile_rows(
    rank: int, ranks: int, shard_rows: int, signal_rows: int, peers: int, block_m: int
) -> list[int]:  # fmt: skip
    """Rows of tiles in the order of their visits: those that begin in the own chunk, the others by arrival."""
    signals = -(-shard_rows // signal_rows)
    found = list(range(-(-rank * shard_rows // block_m), -(-(rank + 1) * shard_rows // block_m)))
    for signal in arrivals(rank=rank, ranks=ranks, shard_rows=shard_rows, signal_rows=signal_rows, peers=peers):
        source, part = divmod(signal, signals)
        start = source * shard_rows + part * signal_rows
        end = source * shard_rows + min((part + 1) * signal_rows, shard_rows)
        found += range(-(-start // block_m), -(-end // block_m))
    return found


def position(tile: int, tiles_m: int, tiles_n: int, band: int) -> tuple[int, int]:
    """(row, column) of a tile: column by column within bands of rows."""
    which, inside = divmod(tile, band * tiles_n)
    rows = min(tiles_m - which * band, band)
    return which * band + inside % rows, inside // rows


def band_within(signal_rows: int, block_m: int, band: int) -> int:
    """The largest power of two that is at most ``band`` and no more rows of tiles than a signal tells of.

    A band that reached further would have its first columns wait for the next signal.
    """
    whole = max(signal_rows // block_m, 1)
    return min(band, 1 << (whole.bit_length() - 1))
