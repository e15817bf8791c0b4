"""Which chunk a tile waits for is the chunk that it reads."""

from __future__ import annotations

import pytest

from wavecast.kernels.async_tp.order import arrivals, band_within, fetch_order, gather_visits


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("shard_rows", [64, 96, 127, 128, 129, 255, 256, 257, 320])
@pytest.mark.parametrize("signal_rows", [50, 64, 128, 1024])
@pytest.mark.parametrize("at_once", [False, True])
def test_e1_waits_for_what_it_reads(ranks: int, shard_rows: int, signal_rows: int, at_once: bool) -> None:
    """For every rank: each tile once, own chunk first, the others' rows in the order in which their signals come."""
    signals = -(-shard_rows // signal_rows)
    for rank in range(ranks):
        band = band_within(min(signal_rows, shard_rows), 128, 16)
        given = {
            "rank": rank, "ranks": ranks, "shard_rows": shard_rows, "signal_rows": signal_rows,
            "peers": ranks - 1 if at_once else 1,
        }  # fmt: skip
        visits = list(gather_visits(**given, tiles_n=3, block_m=128, band=band))
        tiles_m = -(-shard_rows * ranks // 128)
        assert sorted((v.row, v.column) for v in visits) == [(r, c) for r in range(tiles_m) for c in range(3)]
        arrival = [rank * signals, *arrivals(**given)]
        assert sorted(arrival[1:]) == [s for s in range(ranks * signals) if s // signals != rank]
        starts = []
        for visit in visits:
            rows = range(visit.row * 128, min((visit.row + 1) * 128, shard_rows * ranks))
            read = sorted({(row // shard_rows, row % shard_rows // signal_rows) for row in rows})
            told = tuple(dict.fromkeys(c * signals + (s if c != rank else 0) for c, s in read))
            assert visit.signals == (() if {c for c, _ in read} == {rank} else told)
            starts.append(arrival.index(told[0]))
        if band == 1:
            assert starts == sorted(starts)


def test_chunks_of_all_ranks_come_part_by_part() -> None:
    given = {"rank": 1, "ranks": 4, "shard_rows": 100, "signal_rows": 50}
    assert arrivals(**given, peers=1) == (4, 5, 6, 7, 0, 1)
    assert arrivals(**given, peers=3) == (4, 6, 0, 5, 7, 1)


def test_no_two_ranks_fetch_from_one_at_a_time() -> None:
    for ranks in (2, 4, 8):
        for step in zip(*(fetch_order(rank, ranks) for rank in range(ranks)), strict=True):
            assert sorted(step) == list(range(ranks))


def test_bands_stay_within_a_chunk() -> None:
    assert band_within(1024, 256, 16) == 4
    assert band_within(1280, 256, 16) == 4
    assert band_within(100, 256, 16) == 1
    assert band_within(1 << 20, 256, 16) == 16
