"""What the launches around one change of its traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing import Bound, Position, predict_time
from wavecast.simulator.timing.neighbours import after_writes, among_neighbours, l2_kept_share
from wavecast.simulator.traffic import Traffic
from wavecast.simulator.traffic.dirty import NOTHING, Caches, Residue, left_before

CAPACITY = 8 * 4 * 2**20


@pytest.fixture
def build(device: Device, copy_kernel: Kernel, traffic_of: Callable[..., Traffic]) -> Callable[..., Traffic]:
    """Traffic of a copy of so many bytes in and out."""

    def make(size: int, **changes: object) -> Traffic:
        return traffic_of(copy_kernel, device, max(1, size // 1024), **changes)

    return make


def test_only_a_follower_waits_for_the_last_write_back(build: Callable[..., Traffic], device: Device) -> None:
    traffic = build(2**20, last_write_back_bytes=2**20)
    alone = among_neighbours(traffic, device, position=Position.FIRST, warm=False)
    chained = among_neighbours(traffic, device, position=Position.BACK_TO_BACK, warm=False)
    assert alone == replace(traffic, last_write_back_bytes=0)
    assert chained == traffic


def test_a_launch_in_a_chain_takes_the_write_back_longer(
    build: Callable[..., Traffic], device: Device, copy_kernel: Kernel, execution_of: Callable[..., Execution]
) -> None:
    """8 XCDs with 0.5 MiB each at 128 bytes a clk and 2.1 GHz: 1.95 µs; timed alone it is part of the memory's time."""
    size = 8 * 2**19
    execution = execution_of(copy_kernel, size // 1024)
    times = {}
    for position in Position:
        traffic = build(size, last_write_back_bytes=size)
        times[position] = predict_time(copy_kernel, execution, traffic, device, position=position)
    assert times[Position.FIRST].terms[Bound.WRITE_BACK] == 0.0
    assert times[Position.BACK_TO_BACK].terms[Bound.WRITE_BACK] == pytest.approx(2**19 / 128 / 2100, rel=1e-3)
    assert times[Position.FIRST].terms[Bound.MALL] > times[Position.BACK_TO_BACK].terms[Bound.MALL]


def test_a_launch_that_hands_on_what_it_writes_waits_for_the_write_back_also_alone(
    build: Callable[..., Traffic], device: Device
) -> None:
    size = 8 * 2**19
    traffic = build(size, last_write_back_bytes=size)
    for position in Position:
        found = among_neighbours(traffic, device, position=position, warm=True, fresh=True)
        assert (found.last_write_back_bytes, found.fabric_read_bytes) == (size, traffic.fabric_read_bytes)


@pytest.mark.parametrize(
    ("share_of_l2s", "rewritten", "kept"),
    [(0.5, 0.0, 1.0), (1.0, 0.0, 1.0), (1.15, 0.0, 0.5), (1.3, 0.0, 0.0), (10.0, 0.0, 0.0), (0.5, 0.25, 0.75)],
)
def test_what_an_equal_launch_leaves_in_the_l2s(
    build: Callable[..., Traffic], device: Device, share_of_l2s: float, rewritten: float, kept: float
) -> None:
    traffic = build(round(CAPACITY * share_of_l2s / 2), rewritten_share=rewritten)
    assert l2_kept_share(traffic, device) == pytest.approx(kept, abs=1e-3)
    found = among_neighbours(traffic, device, position=Position.FIRST, warm=True)
    assert found.fabric_read_bytes == pytest.approx(traffic.fabric_read_bytes * (1 - kept), abs=traffic.workgroups)
    assert found.hbm_read_bytes == pytest.approx(traffic.hbm_read_bytes * (1 - kept), abs=traffic.workgroups)
    load = next(row for row in found.instructions if "load" in row.opcode)
    assert load.l2_hits == pytest.approx(kept * load.l2_requests, abs=2e-3 * load.l2_requests)
    stores = [row for row in traffic.instructions if "store" in row.opcode]
    assert [row for row in found.instructions if "store" in row.opcode] == stores


def test_neither_a_cold_launch_nor_one_in_a_chain_finds_anything(build: Callable[..., Traffic], device: Device) -> None:
    traffic = build(2**20)
    assert among_neighbours(traffic, device, position=Position.FIRST, warm=False) == traffic
    assert among_neighbours(traffic, device, position=Position.BACK_TO_BACK, warm=True) == traffic


def test_both_maps_of_the_l2_have_neighbours(build: Callable[..., Traffic], device: Device) -> None:
    plain = build(2**20, last_write_back_bytes=100)
    found = among_neighbours(replace(plain, with_plain_map=plain), device, position=Position.FIRST, warm=True)
    assert found.with_plain_map == replace(found, with_plain_map=None)


def test_what_one_l2_still_holds_is_paid_for_by_the_launch_that_pushes_it_out(build: Callable[..., Traffic]) -> None:
    h200 = load_device("h200")
    traffic = build(8 * 2**20)  # reads and writes 8 MiB each
    alone, left = after_writes(traffic, h200, before=NOTHING)
    assert (alone.hbm_write_bytes, left.dirty_bytes) == (0, 8 * 2**20)
    # 16 MiB each of lines: beside the first there is hardly room for the second, and the third pushes as much out as
    # it leaves.
    written = []
    for _ in range(4):
        after, left = after_writes(traffic, h200, before=left)
        written.append(after.hbm_write_bytes)
    assert written[0] == 0 < written[1] < written[-1] == pytest.approx(8 * 2**20, rel=0.01)


def test_what_was_written_last_stays_in_the_memory_side_cache(build: Callable[..., Traffic], device: Device) -> None:
    """A copy of 8 MiB has room there; of one that brings in five times what there is room for, a fifth stays."""
    room = device.mall.bytes * device.mall.reuse_fraction
    small, large = build(8 * 2**20), build(round(room / 0.4))
    alone, left = after_writes(small, device, before=left_before(device, Caches.CLEAN))
    assert (alone.hbm_write_bytes, left.dirty_bytes) == (0, 8 * 2**20)
    alone, left = after_writes(large, device, before=NOTHING)
    assert left.dirty_bytes == pytest.approx(0.5 * room, rel=1e-3)
    assert alone.hbm_write_bytes == pytest.approx(large.hbm_write_bytes - left.dirty_bytes, abs=1)


def test_every_line_pushes_out_one_that_waits_to_be_written(build: Callable[..., Traffic], device: Device) -> None:
    """After a flush by writes HBM moves as many bytes out as a copy brings in, and no more than the flush left."""
    flushed = left_before(device, Caches.DIRTY)
    room = device.mall.bytes * device.mall.reuse_fraction
    assert flushed == Residue.of(room, room)
    small, large = build(8 * 2**20), build(round(4 * room))
    after, left = after_writes(small, device, before=flushed)
    assert after.hbm_write_bytes == 16 * 2**20
    assert (left.line_bytes, left.dirty_bytes) == pytest.approx((room, room - 8 * 2**20))
    after, _ = after_writes(large, device, before=flushed)
    assert after.hbm_write_bytes == pytest.approx(large.hbm_write_bytes + 0.5 * room, rel=1e-6)
    # Where there is room beside what waits, that stays.
    after, left = after_writes(small, device, before=Residue.of(room / 2, room / 2))
    assert (after.hbm_write_bytes, left.dirty_bytes) == (0, room / 2 + 8 * 2**20)


def test_both_maps_of_the_l2_push_out_what_waits(build: Callable[..., Traffic], device: Device) -> None:
    traffic = build(8 * 2**20)
    found, _ = after_writes(replace(traffic, with_plain_map=traffic), device, before=left_before(device, Caches.DIRTY))
    assert found.with_plain_map == replace(found, with_plain_map=None)


def test_after_a_flush_by_writes_one_l2_is_as_dirty_as_it_ever_is(build: Callable[..., Traffic]) -> None:
    h200 = load_device("h200")
    flushed = left_before(h200, Caches.DIRTY)
    traffic = build(8 * 2**20)
    after, left = after_writes(traffic, h200, before=flushed)
    assert left.dirty_bytes <= flushed.dirty_bytes
    assert after.hbm_write_bytes == pytest.approx(flushed.dirty_bytes + 8 * 2**20 - left.dirty_bytes, abs=1)
    assert after.hbm_write_bytes >= 8 * 2**20


@pytest.mark.parametrize("name", ["h200", "mi300x"])
def test_what_a_launch_reads_only_where_it_has_written_takes_room_once(
    build: Callable[..., Traffic], name: str
) -> None:
    """Partial results that a launch stores and loads again: all lines that it reads are written, and none is in HBM."""
    traffic = build(8 * 2**20, rewritten_share=1.0, hbm_read_bytes=0)
    after, left = after_writes(traffic, load_device(name), before=NOTHING)
    assert (after.hbm_write_bytes, left) == (0, Residue.of(8 * 2**20, 8 * 2**20))
