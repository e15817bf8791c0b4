"""Which chunk a tile waits for is the chunk that it reads."""

from __future__ import annotations

import pytest

from wavecast.kernels.async_tp.order import band_within, fetch_order, gather_visits


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("shard_rows", [64, 96, 127, 128, 129, 255, 256, 257, 320])
def test_e1_waits_for_what_it_reads(ranks: int, shard_rows: int) -> None:
    """For every rank: each tile once, own chunk first, chunks in the order in which they are fetched."""
    for rank in range(ranks):
        band = band_within(shard_rows, 128, 16)
        visits = list(gather_visits(rank=rank, ranks=ranks, shard_rows=shard_rows, tiles_n=3, block_m=128, band=band))
        tiles_m = -(-shard_rows * ranks // 128)
        assert sorted((v.row, v.column) for v in visits) == [(r, c) for r in range(tiles_m) for c in range(3)]
        arrival = (rank, *fetch_order(rank, ranks))
        for visit in visits:
            rows = range(visit.row * 128, min((visit.row + 1) * 128, shard_rows * ranks))
            read = tuple(sorted({row // shard_rows for row in rows}))
            assert visit.chunks == (() if read == (rank,) else read)
        if shard_rows % 128 == 0:
            firsts = [visit.chunks[0] if visit.chunks else rank for visit in visits]
            assert list(dict.fromkeys(firsts)) == list(arrival)
            assert [arrival.index(chunk) for chunk in firsts] == sorted(arrival.index(chunk) for chunk in firsts)


def test_no_two_ranks_fetch_from_one_at_a_time() -> None:
    for ranks in (2, 4, 8):
        for step in zip(*(fetch_order(rank, ranks) for rank in range(ranks)), strict=True):
            assert sorted(step) == list(range(ranks))


def test_bands_stay_within_a_chunk() -> None:
    assert band_within(1024, 256, 16) == 4
    assert band_within(1280, 256, 16) == 4
    assert band_within(100, 256, 16) == 1
    assert band_within(1 << 20, 256, 16) == 16
