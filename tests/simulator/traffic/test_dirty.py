"""What an L2 that writes nothing back at the end of a launch holds of writes, and which launch pays for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.traffic.dirty import (
    NOTHING,
    Caches,
    Layer,
    Residue,
    held_bytes,
    left_before,
    left_by_profiler,
    writes_back,
    written_among,
)
from wavecast.simulator.traffic.summary import _held_at_the_end

H200, MI300X = load_device("h200"), load_device("mi300x")
# Easy numbers: 60 MB, of which half may be dirty, and 40 of them find again what is read.
MB = 1_000_000
EASY = replace(H200, l2=replace(H200.l2, bytes_per_xcd=40 * MB, physical_bytes=60 * MB, dirty_share=0.5))

# MB that the profiler of an H200 counted: read and written by the kernel, and written to HBM while it ran.
COUNTED = [
    (0.0, 16.8, 0.0),
    (0.0, 50.3, 22.9),
    (0.0, 134.2, 107.0),
    (0.0, 402.7, 375.1),
    (8.4, 8.4, 0.0),
    (67.1, 67.1, 42.0),
    (402.7, 402.7, 378.1),
    (134.2, 67.1, 46.9),
    (402.7, 201.3, 182.5),
    (134.2, 33.6, 22.5),
    (402.7, 100.7, 89.9),
    (402.7, 50.3, 42.8),
    (67.1, 134.2, 107.8),
    (100.7, 402.7, 375.6),
]


@pytest.mark.parametrize(("read", "written", "counted"), COUNTED)
def test_as_the_profiler_counts_writes_of_streams(read: float, written: float, counted: float) -> None:
    found, _ = written_among(read * MB, written * MB, H200, before=left_by_profiler(H200))
    assert found / MB == pytest.approx(counted, rel=0.07, abs=2.0)


@pytest.mark.parametrize(
    ("dirty", "read", "counted"),
    [
        (8.4, 25.2, 0.1),
        (8.4, 50.3, 8.0),
        (8.4, 134.2, 8.4),
        (16.8, 16.8, 0.0),
        (16.8, 41.9, 9.6),
        (16.8, 67.1, 16.7),
        (25.2, 8.4, 0.2),
        (25.2, 33.6, 9.2),
        (25.2, 50.3, 18.0),
        (25.2, 134.2, 25.1),
    ],
)
def test_as_the_profiler_counts_what_reads_push_out(dirty: float, read: float, counted: float) -> None:
    found, left = written_among(read * MB, 0, H200, before=Residue.of(dirty * MB, dirty * MB))
    assert found / MB == pytest.approx(counted, abs=2.6)
    assert left.dirty_bytes == pytest.approx(dirty * MB - found)


@pytest.mark.parametrize(
    ("read", "written", "held"),
    [
        (200, 200, 30),  # a copy: half of 60
        (400, 200, 20),  # twice as much read as written: a third
        (0, 200, 30),  # nothing read: as much as may be dirty
        (0, 20, 20),  # never more than was written
        (10, 20, 20),
        (200, 0, 0),
    ],
)
def test_writes_have_their_share_of_what_came_last(read: int, written: int, held: int) -> None:
    assert held_bytes(read * MB, written * MB, EASY) == pytest.approx(held * MB)
    observed = SimpleNamespace(last_write_back_bytes=7)
    assert _held_at_the_end(observed, read * MB, written * MB, EASY) == held * MB  # type: ignore[arg-type]


def test_where_l2s_write_back_at_the_end_the_simulation_says_what_and_the_cache_behind_them_keeps_it() -> None:
    assert writes_back(MI300X) and not writes_back(H200)
    observed = SimpleNamespace(last_write_back_bytes=7)
    assert _held_at_the_end(observed, 100, 50, MI300X) == 7  # type: ignore[arg-type]
    assert written_among(100, 50, MI300X, before=None) == (50, NOTHING)


ROOM = MI300X.mall.bytes * MI300X.mall.reuse_fraction


@pytest.mark.parametrize(
    ("read", "written", "before", "paid", "left"),
    [
        # Room for all: nothing goes.
        (100, 50, [(10, 10)], 0, [(10, 10), (150, 50)]),
        # 150 of 233 MB full of zeros go, and what is written stays.
        (100, 50, [(ROOM / MB, ROOM / MB)], 150, [(ROOM / MB - 150, ROOM / MB - 150), (150, 50)]),
        # Clean lines that were there before need room too: 20 are too many, a tenth of those that came first.
        (20, 0, [(200, 100), (ROOM / MB - 200, 0)], 10, [(180, 90), (ROOM / MB - 200, 0), (20, 0)]),
        # What came first goes first: all of one launch, and half of the next.
        (60, 0, [(40, 4), (40, 40), (ROOM / MB - 80, 8)], 24, [(20, 20), (ROOM / MB - 80, 8), (60, 0)]),
        # More than there is room for: all that was there goes, and of its own what came first.
        (ROOM / MB, ROOM / MB, [(10, 10)], 10 + ROOM / MB / 2, [(ROOM / MB, ROOM / MB / 2)]),
    ],
)
def test_of_the_cache_behind_l2s_what_came_first_goes_first(
    read: float, written: float, before: list[tuple[float, float]], paid: float, left: list[tuple[float, float]]
) -> None:
    given = Residue(tuple(Layer(lines * MB, dirty * MB) for lines, dirty in before))
    found, after = written_among(read * MB, written * MB, MI300X, before=given)
    assert found == pytest.approx(paid * MB)
    assert np.array(after.layers) == pytest.approx(np.array(left) * MB)


@pytest.mark.parametrize("device", [MI300X, H200])
def test_launches_that_only_read_leave_nothing_dirty_at_last(device: Device) -> None:
    left, paid = left_before(device, Caches.DIRTY), 0.0
    dirty = left.dirty_bytes
    for _ in range(20):
        here, left = written_among(16 * MB, 0, device, before=left)
        paid += here
    assert left.dirty_bytes == pytest.approx(0, abs=1) and paid == pytest.approx(dirty)


@pytest.mark.parametrize("device", [MI300X, EASY])
def test_what_is_written_where_it_was_read_takes_no_room_of_its_own(device: Device) -> None:
    before = Residue.of(0.0, 0.0)
    apart, in_place = (
        written_among(8 * MB, 8 * MB, device, before=before, rewritten_bytes=rewritten)[1] for rewritten in (0, 8 * MB)
    )
    assert (apart.line_bytes, in_place.line_bytes) == (16 * MB, 8 * MB)
    assert apart.dirty_bytes == in_place.dirty_bytes == 8 * MB


def test_a_range_of_what_is_found_again_does_not_move_what_may_be_dirty() -> None:
    ends = [H200.with_value("l2.bytes_per_xcd", value) for value in (33554432, 62914560)]
    assert held_bytes(0, 100 * MB, ends[0]) == held_bytes(0, 100 * MB, ends[1]) == 0.45 * 62914560


@pytest.mark.parametrize(
    ("read", "before", "written", "left"),
    [
        # Of its 8 MB written, it leaves all, and its lines have room beside 20 of others.
        (8, Residue.of(20, 10), 0, Residue.of(36, 18)),
        # 16 more than there is room for: half as much of what is dirty goes.
        (8, Residue.of(40, 15), 8, Residue.of(40, 15)),
        # Room for nothing else: all that was dirty goes.
        (80, Residue.of(40, 15), 15 + 8 - 60 * 8 / 88, Residue.of(40, 60 * 8 / 88)),
        # Both have room, but together they were dirtier than may be.
        (0, Residue.of(30, 28), 6, Residue.of(38, 30)),
        # A chain of equals: each pushes out as much as it leaves.
        (8, None, 8, Residue.of(16, 8)),
        (8, NOTHING, 0, Residue.of(16, 8)),
    ],
)
def test_a_launch_pays_for_what_it_pushes_out(read: int, before: Residue | None, written: float, left: Residue) -> None:
    given = None if before is None else Residue.of(before.line_bytes * MB, before.dirty_bytes * MB)
    found, after = written_among(read * MB, 8 * MB, EASY, before=given)
    assert found == pytest.approx(written * MB)
    assert (after.line_bytes, after.dirty_bytes) == pytest.approx((left.line_bytes * MB, left.dirty_bytes * MB))


def test_bytes_that_go_in_come_out() -> None:
    """Of any chain of launches: written to memory and still dirty are together what they wrote."""
    to_hbm, wrote, left = 0.0, 0.0, NOTHING
    for read, written in ((30, 10), (0, 50), (5, 5), (500, 1), (0, 3), (64, 64), (1, 0)):
        here, left = written_among(read * MB, written * MB, EASY, before=left)
        to_hbm, wrote = to_hbm + here, wrote + written * MB
        assert to_hbm + left.dirty_bytes == pytest.approx(wrote)
        assert here >= 0
