"""The cache simulation against plain Python, and on streams whose answer is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plain_loops import Hierarchy, l1_misses, l2_channel, l2_set, miss_count, scattered_set

from wavecast.simulator.devices import Device
from wavecast.simulator.traffic.caches import (
    ATOMIC,
    BEYOND_L1,
    EVENT,
    LEVELS,
    READ,
    READ_FROM_L1,
    ROUNDS,
    WRITE,
    CacheState,
    Flow,
    Level,
    is_followed,
    set_of,
)
from wavecast.simulator.traffic.channels import ChannelLoad
from wavecast.simulator.traffic.footprint import BufferRange, Growth, UniqueLines, common, grid_lines
from wavecast.simulator.traffic.l1 import empty_l1, settle
from wavecast.simulator.traffic.l2_map import channel_of, hashed_map, l2_set_of, plain_map

FULL = np.uint64(2**64 - 1)


def stream(lines: np.ndarray, kind: int, *, low: int = 2**64 - 1, high: int = 2**64 - 1, xcd: int = 0) -> np.ndarray:
    events = np.zeros(len(lines), dtype=EVENT)
    events["line"], events["kind"], events["xcd"] = lines, kind, xcd
    events["low"], events["high"] = np.uint64(low), np.uint64(high)
    events["order"] = np.arange(len(lines))
    return events


def by_round(waves: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Row of the one instruction, and its executions and misses by round."""
    return np.zeros(1, dtype=np.int64), np.zeros((1, waves, ROUNDS, 2), dtype=np.int32)


def run(state: CacheState, events: np.ndarray, *, l1_share: int = 1) -> np.ndarray:
    """Send a stream of one workgroup through an empty L1 and what is behind it."""
    levels = np.zeros((1, LEVELS), dtype=np.int64)
    left = settle(empty_l1(state.device, l1_share), events, 0, len(events), levels, *by_round(), state.stride)
    state.run(events[:left], levels)
    return levels[0]


def test_l1_and_l2_equal_the_plain_caches(device: Device) -> None:
    state = CacheState(device, 0.01)
    lines = np.random.default_rng(3).integers(0, 1500, 6000).astype(np.uint64)
    levels = run(state, stream(lines, READ), l1_share=4)
    assert empty_l1(device, 4).shape == (4, 16)  # a quarter of 256 lines
    passed = l1_misses(lines.tolist(), 16)
    assert levels[Level.L1_HITS] == len(lines) - len(passed)
    assert levels[Level.L2_REQUESTS] == len(passed)
    # The L2 sees what misses L1; its own misses are what the fabric reads.
    l2_sets = state.l2_tags.shape[1]
    wanted = miss_count(passed, l2_sets, 16, [set_of(np.uint64(line), l2_sets) for line in passed])
    assert state.totals[Flow.FABRIC_READS] == wanted == len(passed) - levels[Level.L2_HITS]


@pytest.mark.parametrize("rows_apart", [8, 32, 256, 4096, 5])
def test_an_l1_full_of_rows_hits_all_of_them(device: Device, rows_apart: int) -> None:
    """MI300A's L1 holds 32 rows of 1 KiB whatever power of two lies between them."""
    rows = np.arange(32)[:, None] * (rows_apart if rows_apart >= 8 else 8 * rows_apart) + np.arange(8)
    levels = run(CacheState(device, 1.0), stream(np.tile(rows.ravel(), 5).astype(np.uint64), READ))
    assert levels[Level.L1_HITS] == 4 * 256


@pytest.mark.parametrize("apart", [4, 32, 4096])
def test_rows_a_power_of_two_apart_share_a_quarter_of_an_l1(device: Device, apart: int) -> None:
    """Bits 7 and 8 of an address pick the set, so single lines that far apart find 64 places; 65 do not all fit."""
    fits, crowds = (np.tile(np.arange(count, dtype=np.uint64) * np.uint64(apart), 8) for count in (64, 65))
    assert run(CacheState(device, 1.0), stream(fits, READ))[Level.L1_HITS] == 7 * 64
    assert run(CacheState(device, 1.0), stream(crowds, READ))[Level.L1_HITS] < 7 * 65
    # One line further each, and they spread over all sets.
    spread = np.tile(np.arange(65, dtype=np.uint64) * np.uint64(apart + 1), 8)
    assert run(CacheState(device, 1.0), stream(spread, READ))[Level.L1_HITS] == 7 * 65


@pytest.mark.parametrize(("times", "low", "high"), [(1.25, 0.55, 0.7), (2, 0.15, 0.25), (4, 0.0, 0.05)])
def test_a_set_that_does_not_fit_l1_still_hits_in_part(device: Device, times: float, low: float, high: float) -> None:
    """Random places: of a set of twice the size a fifth is left when its turn comes, exp(-2 (1 - h)) = h."""
    lines = np.tile(np.arange(int(256 * times), dtype=np.uint64), 20)
    levels = run(CacheState(device, 1.0), stream(lines, READ))
    assert low < levels[Level.L1_HITS] / len(lines) < high


def test_a_set_that_fits_is_read_once(device: Device) -> None:
    state = CacheState(device, 1.0)
    lines = np.tile(np.arange(10_000, dtype=np.uint64), 3)
    levels = run(state, stream(lines, READ))
    assert state.totals[Flow.FABRIC_READS] == state.totals[Flow.HBM_READS] == 10_000
    assert levels[Level.L2_HITS] == 20_000


def test_a_cyclic_set_over_capacity_is_no_hit(device: Device) -> None:
    """Three times the capacity of L2, read round and round: least recently used keeps nothing."""
    state = CacheState(device, 1.0)
    lines = np.tile(np.arange(3 * 32768, dtype=np.uint64), 2)
    run(state, stream(lines, READ))
    assert state.totals[Flow.FABRIC_READS] > 0.97 * len(lines)
    assert state.totals[Flow.HBM_READS] == 3 * 32768  # the memory-side cache holds it


def test_xcds_do_not_share_an_l2(device: Device) -> None:
    state = CacheState(device, 1.0)
    lines = np.arange(100, dtype=np.uint64)
    run(state, stream(lines, READ))
    run(state, stream(lines, READ, xcd=1))
    assert state.totals[Flow.FABRIC_READS] == 200
    assert state.totals[Flow.HBM_READS] == 100


@pytest.mark.parametrize(
    ("low", "high", "requests", "size"),
    [
        (2**64 - 1, 2**64 - 1, 2, 128),
        (2**64 - 1, 0, 1, 64),
        (1, 0, 1, 32),  # a byte costs a 32-byte slot
        (1 | 1 << 40, 0, 2, 64),
        (1, 1 << 63, 2, 64),
    ],
)
def test_write_back_of_masked_lines(device: Device, low: int, high: int, requests: int, size: int) -> None:
    state = CacheState(device, 1.0)
    run(state, stream(np.arange(50, dtype=np.uint64), WRITE, low=low, high=high))
    assert state.dirty_lines_per_xcd == pytest.approx(50 / 8)
    assert state.drain() == 50 * size
    assert state.totals[Flow.FABRIC_WRITES] == 50 * requests
    assert state.totals[Flow.FABRIC_WRITE_BYTES] == 50 * size
    assert state.totals[Flow.HBM_WRITE_BYTES] == 50 * size
    assert state.totals[Flow.FABRIC_READS] == 0  # a write allocates without reading


def test_bytes_of_one_line_gather_in_l2(device: Device) -> None:
    state = CacheState(device, 1.0)
    events = np.concatenate([stream(np.array([7], np.uint64), WRITE, low=1 << byte, high=0) for byte in range(64)])
    run(state, events)
    state.drain()
    assert state.totals[Flow.FABRIC_WRITES] == 1
    assert state.totals[Flow.FABRIC_WRITE_BYTES] == 64


def test_reading_what_was_written_needs_no_fetch(device: Device) -> None:
    state = CacheState(device, 1.0)
    line = np.array([9], np.uint64)
    run(state, stream(line, WRITE, low=0xFF, high=0))
    run(state, stream(line, READ, low=0x0F, high=0))
    assert state.totals[Flow.FABRIC_READS] == 0
    run(state, stream(line, READ, low=0xFFF, high=0))
    assert state.totals[Flow.FABRIC_READS] == 1


def test_atomics_pass_by_the_l2(device: Device) -> None:
    state = CacheState(device, 1.0)
    levels = run(state, stream(np.zeros(10, np.uint64), ATOMIC))
    assert levels[Level.L2_HITS] == 0
    assert state.totals[Flow.HBM_READS] == 1
    assert levels[Level.MALL_HITS] == 9


@pytest.mark.parametrize(
    ("stride_lines", "plain", "hashed"),
    [
        (1, 1.0, 1.0),
        (2, 1.0, 1.0),
        (8, 4.0, 1.0),
        (64, 16.0, 1.0),  # 8,192 bytes
        (256, 16.0, 1.0),  # 32,768 bytes
        (2048, 16.0, 1.0),  # 256 KiB
        (8192, 16.0, 1.0),  # 1 MiB
        (130, 1.0, 1.49),  # 16,640 bytes, 65 times 256: bits laid on top of one another cancel for a while
    ],
)
def test_channel_imbalance_of_strides(device: Device, stride_lines: int, plain: float, hashed: float) -> None:
    maps = (hashed_map(device), plain_map(device))
    load = ChannelLoad(maps, device.compute.num_xcd)
    lines = (np.arange(8192) * stride_lines).astype(np.uint64)
    for number, l2_map in enumerate(maps):
        shift, bits, _, hash_on = l2_map
        channel = [channel_of(line, shift, bits, hash_on) for line in lines]
        np.add.at(load.counts[0, :, number], (np.arange(8192) // 64, channel), 1)
    load.close()
    assert load.imbalance == pytest.approx((hashed, plain), rel=0.03)
    load.close()
    assert load.imbalance == pytest.approx((hashed, plain), rel=0.03)


def test_channel_imbalance_of_nothing_is_one(device: Device) -> None:
    assert ChannelLoad((plain_map(device),), 8).imbalance == (1.0,)


@pytest.mark.parametrize("hashed", [False, True])
def test_places_equal_the_plain_ones(device: Device, hashed: bool) -> None:
    l2_map = hashed_map(device) if hashed else plain_map(device)
    lines = np.random.default_rng(2).integers(0, 1 << 41, 2000).astype(np.uint64)
    for line in lines:
        channel = channel_of(line, l2_map.interleave_shift, l2_map.channel_bits, l2_map.hashed)
        assert channel == l2_channel(int(line), hashed=hashed)
        assert l2_set_of(line, 0, *l2_map) == l2_set(int(line), hashed=hashed)
        assert set_of(line, 1000) == scattered_set(int(line), 1000)


@pytest.mark.parametrize(
    ("rows", "apart", "plain", "hashed"),
    [
        (16, 2048, 1.0, 1.0),  # 256 KiB: one set of 16 ways holds 16 rows
        (32, 2048, 0.0, 1.0),  # but not 32
        (128, 1536, 0.0, 1.0),  # 192 KiB: four sets
    ],
)
def test_rows_far_apart_stay_in_a_hashed_l2(device: Device, rows: int, apart: int, plain: float, hashed: float) -> None:
    """Rows of 1 KiB, read ten times: all of the nine repetitions hit, or none."""
    lines = (np.arange(rows)[:, None] * apart + np.arange(8)).ravel().astype(np.uint64)
    for l2_map, wanted in ((plain_map(device), plain), (hashed_map(device), hashed)):
        state = CacheState(device, 1.0, 1, l2_map)
        levels = np.zeros((1, LEVELS), dtype=np.int64)
        state.run(stream(np.tile(lines, 10), READ), levels)
        assert levels[0, Level.L2_HITS] == 9 * len(lines) * wanted


@pytest.mark.parametrize("stride_bits", [0, 1, 3, 5])
@pytest.mark.parametrize("name", ["plain", "hashed"])
def test_a_range_of_the_size_of_an_l2_fills_it(device: Device, name: str, stride_bits: int) -> None:
    """MI300X finds all of 4 MiB in its L2, read round and round: each set gets as many lines as it has ways."""
    l2_map = plain_map(device) if name == "plain" else hashed_map(device)
    first = 7 << 15
    lines = [line for line in range(first, first + 32768) if is_followed(np.uint64(line), 1 << stride_bits)]
    index = [l2_set_of(np.uint64(line), stride_bits, *l2_map) for line in lines]
    assert np.bincount(index).tolist() == [16] * (2048 >> stride_bits)
    state = CacheState(device, 1.0, 1 << stride_bits, l2_map)
    run(state, stream(np.tile(np.arange(first, first + 32768, dtype=np.uint64), 3), READ))
    assert state.totals[Flow.FABRIC_READS] << stride_bits == 32768


@pytest.mark.parametrize("hashed", [False, True])
def test_the_whole_hierarchy_equals_the_plain_one(device: Device, hashed: bool) -> None:
    """Reads, masked writes and atomics of two XCDs over more lines than a few sets hold."""
    random = np.random.default_rng(13)
    small = replace(device, mall=replace(device.mall, bytes=2 * 2**20))
    l2_map = hashed_map(device) if hashed else plain_map(device)
    state = CacheState(small, 1.0, 1, l2_map)
    count = 40_000
    events = stream(np.zeros(count, np.uint64), READ)
    events["line"] = random.integers(0, 8, count) + 2048 * random.integers(0, 3000, count)
    events["kind"] = random.choice([READ, WRITE, WRITE, ATOMIC], count)
    events["xcd"] = random.integers(0, 2, count)
    events["order"] = np.arange(count) // 500
    whole, none = np.uint64(2**64 - 1), np.uint64(0)
    events["low"] = random.choice(np.array([whole, 1, 1 << 40, 0xFF00], dtype=np.uint64), count)
    events["high"] = random.choice(np.array([whole, none, 1 << 63], dtype=np.uint64), count)
    plain = Hierarchy(2, 1024, hashed=hashed)
    names = {READ: "read", WRITE: "write", ATOMIC: "atomic"}
    for event in events:
        bits = int(event["low"]) | int(event["high"]) << 64
        touched = {byte for byte in range(128) if bits >> byte & 1}
        plain.access(int(event["xcd"]), int(event["line"]), names[int(event["kind"])], touched, int(event["order"]))
    levels = np.zeros((1, LEVELS), dtype=np.int64)
    state.run(events, levels)
    assert state.drain() == plain.drain()
    wanted = [plain.counts[name] for name in ("fabric_reads", "fabric_writes", "fabric_write_bytes", "hbm_reads")]
    assert state.totals[: Flow.HBM_WRITE_BYTES].tolist() == wanted
    assert state.totals[Flow.HBM_WRITE_BYTES] == plain.counts["hbm_write_bytes"] > 0
    assert levels[0, Level.L2_HITS] == plain.counts["l2_hits"] > 0
    assert levels[0, Level.MALL_HITS] == plain.counts["mall_hits"] > 0
    assert levels[0, Level.L2_JOINED] == plain.counts["l2_joined"] > 0
    assert levels[0, Level.MALL_JOINED] == plain.counts["mall_joined"] > 0


def test_who_asks_for_a_line_on_its_way_waits_as_long_as_the_first(device: Device) -> None:
    """Three waves of two XCDs in a step, one of them in the next; a line that was written is no reason to wait."""
    state = CacheState(device, 1.0, 1)
    events = stream(np.array([5, 5, 5, 5, 6, 6], dtype=np.uint64), READ)
    events["xcd"], events["order"] = [0, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]
    events["kind"][4] = WRITE
    levels = np.zeros((1, LEVELS), dtype=np.int64)
    state.run(events, levels)
    assert (levels[0, Level.L2_HITS], levels[0, Level.L2_JOINED]) == (3, 1)
    assert (levels[0, Level.MALL_HITS], levels[0, Level.MALL_JOINED]) == (1, 2)
    levels[:] = 0
    state.run(events[:2].copy(), levels)
    assert (levels[0, Level.L2_HITS], levels[0, Level.L2_JOINED], levels[0, Level.MALL_JOINED]) == (2, 0, 0)


def test_footprint_scales_private_lines_only() -> None:
    unique = UniqueLines()
    first = np.concatenate(
        [
            stream(np.array([1, 2], np.uint64), READ, low=1, high=0),
            stream(np.array([10, 10, 11], np.uint64), READ, low=3, high=0, xcd=1),
            stream(np.array([10], np.uint64), READ, low=1, high=0, xcd=2),
            stream(np.array([99], np.uint64), WRITE),
        ]
    )
    unique.add(first, (READ,), clusters=np.zeros(1, np.int64))
    unique.add(first[:2], (READ,), clusters=np.ones(1, np.int64))
    found, growth = unique.merged(), Growth(2, 0.1, 0.1)
    assert found.lines.tolist() == [1, 2, 10, 11]
    assert found.touched_bytes.tolist() == [1, 1, 2, 2]
    assert found.xcds.tolist() == [1, 1, 2, 1]
    # Two lines are known from both clusters, and two from one. Those stand for 2 * 2 * 0.9 / (2 * 0.1 + 8 * 0.9) more.
    assert found.scaled(growth) == pytest.approx(4 + 3.6 / 7.4)
    assert found.scaled(Growth(2, 1.0, 1.0)) == 4
    # By itself, a range of lines that nobody else touches grows with the grid, as far as its buffer goes.
    private, shared = found.part(2, 4), found.part(0, 2)
    assert (private.scaled(growth), shared.scaled(growth)) == (20, 2)
    assert (private.scaled_on_xcds(growth), shared.scaled_on_xcds(growth)) == (30, 2)
    across = (BufferRange(10 * 128 + 120, 30),)  # 30 bytes on two lines
    grown = grid_lines(found, growth, across, line_bytes=128, xcds=8)
    assert (grown.lines, grown.bytes) == (2 + 2, 2 + 30)
    # Twenty lines in a buffer of two: each is touched ten times, by one and a half of eight XCDs, whichever they are.
    assert grown.lines_on_xcds == pytest.approx(2 + 2 * 8 * (1 - (1 - 1.5 / 8) ** 10))
    wide = (BufferRange(10 * 128, 1000 * 128),)
    grown = grid_lines(found, growth, wide, line_bytes=128, xcds=8)
    assert (grown.lines, grown.bytes, grown.lines_on_xcds) == (2 + 20, 2 + 40, 2 + 30)


def test_footprint_grows_beyond_its_first_table() -> None:
    unique = UniqueLines()
    lines = np.random.default_rng(1).permutation(700_000).astype(np.uint64)
    unique.add(stream(lines, WRITE), (WRITE, ATOMIC), clusters=np.zeros(1, np.int64))
    assert (unique.merged().lines == np.arange(700_000)).all()


@pytest.mark.parametrize("step", [1, 2, 7, 16, 1024])
@pytest.mark.parametrize("stride", [2, 8, 32])
def test_followed_lines_stand_for_all(step: int, stride: int) -> None:
    lines = (1 << 33) + step * np.arange(16384)
    followed = [int(line) for line in lines if is_followed(np.uint64(line), stride)]
    assert len(followed) * stride == pytest.approx(len(lines), rel=0.15)
    assert all(is_followed(np.uint64(line), stride // 2) for line in followed)
    if step == 1:
        assert [line // stride for line in followed] == list(range(lines[0] // stride, lines[-1] // stride + 1))


def test_following_a_part_of_the_lines_finds_the_same_rates(device: Device) -> None:
    """Random reads and writes over twice the L2: one line in four, times four, is all of them."""
    random = np.random.default_rng(11)
    lines = random.integers(0, 2 * 32768, 300_000).astype(np.uint64)
    found = []
    for stride in (1, 4):
        state = CacheState(device, 1.0, stride)
        events = stream(lines, READ)
        events["kind"] = np.where(random.integers(0, 2, len(lines)) == 0, READ, WRITE)
        levels = run(state, events)
        dirty = state.dirty_lines_per_xcd
        state.drain()
        found.append([*(stride * levels[list(BEYOND_L1)]), *(stride * state.totals), dirty])
        assert levels[Level.L2_REQUESTS] > 100_000
    assert found[1] == pytest.approx(found[0], rel=0.03, abs=500)


def test_l1_hits_touch_lines_but_go_no_further(device: Device) -> None:
    events, levels = stream(np.array([5, 6, 5], np.uint64), READ), np.zeros((1, LEVELS), dtype=np.int64)
    assert settle(empty_l1(device, 1), events, 0, 3, levels, *by_round(), 1) == 3
    assert events["kind"].tolist() == [READ, READ, READ_FROM_L1]
    assert levels[0].tolist() == [1, 2, 0, 0, 2 * 4, 0, 0, 0, 0, 0]


def test_misses_are_kept_by_wave_and_round(device: Device) -> None:
    """Two waves read two lines three times, one of them shared: both miss in the first round, each for another line."""
    lines = np.array([7, 8, 7, 9] * 3, np.uint64)
    events = stream(lines, READ)
    events["wave"], events["order"] = [0, 0, 1, 1] * 3, np.repeat([0, 1, 2], 4)
    events["round"] = np.repeat([0, 1, ROUNDS - 1], 4)
    rows, misses = by_round(waves=2)
    settle(empty_l1(device, 1), events, 0, len(events), np.zeros((1, LEVELS), dtype=np.int64), rows, misses, 1)
    assert misses[0, :, [0, 1, ROUNDS - 1]].tolist() == [[[1, 1], [1, 1]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]]
    assert misses[..., 0].sum() == 6


def test_settling_drops_lines_that_are_not_followed(device: Device) -> None:
    lines = np.arange(256, dtype=np.uint64)
    events = np.concatenate([stream(lines, kind) for kind in (READ, WRITE, ATOMIC)])
    levels = np.zeros((1, LEVELS), dtype=np.int64)
    left = events[: settle(empty_l1(device, 1), events, 0, len(events), levels, *by_round(), 32)]
    assert [int((left["kind"] == kind).sum()) for kind in (READ, WRITE, ATOMIC)] == [8, 8, 256]
    assert levels[0, Level.L2_REQUESTS] == 256  # L1 has seen them all


def test_lines_that_two_footprints_share() -> None:
    first, second = (np.array(lines, dtype=np.uint64) for lines in ([1, 3, 4, 9], [0, 3, 9, 12, 13]))
    assert common(first, second) == common(second, first) == 2
    assert common(first, first[:0]) == 0
    assert common(first, first) == 4


def test_a_state_shows_nothing_of_the_one_that_had_its_memory_before(device: Device) -> None:
    lines = (np.arange(60_000) * 7 % 40_000).astype(np.uint64)
    found = []
    for _ in range(2):
        state = CacheState(device, 1.0)
        state.fill_mall(lines[:100])
        levels = run(state, stream(lines, WRITE)) + run(state, stream(lines[::2], READ))
        dirty, written = state.dirty_lines_per_xcd, state.drain()
        found.append((levels.tolist(), dirty, written, state.totals.tolist(), state.mall_lines.tolist()))
        memory = state.l2_tags
        state.release()
    assert found[0] == found[1]
    assert CacheState(device, 1.0).l2_tags is memory


@pytest.mark.parametrize("mean", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("private", [0, 500, 20_000])
def test_private_lines_are_told_from_shared_ones(mean: float, private: int) -> None:
    """Of 10,000 shared lines so many clusters find each as chance has it, and beside them are private ones."""
    shared, fraction = 10_000, 0.002
    chance = [math.exp(-mean) * mean**finds / math.factorial(finds) for finds in range(3)]
    once, twice = shared * chance[1] + private, shared * chance[2]
    more = shared * (1 - sum(chance))
    found = Growth(16, fraction, fraction).factor(once, twice, more) * once
    assert found == pytest.approx(shared * (chance[0] + chance[1]) + private / fraction, rel=0.1)


def test_lines_of_neighbours_that_ran_before_do_not_grow() -> None:
    """Each workgroup reads 16 lines, the first four of them those that its predecessor ends with."""
    unique, clusters, total = UniqueLines(), 5, 1000
    for cluster in range(clusters):
        for place in range(4):
            lines = (cluster * 200 + place) * 12 + np.arange(16, dtype=np.uint64)
            is_counted = np.array([place > 0])
            unique.add(stream(lines, READ), (READ,), clusters=np.array([cluster]), counted=is_counted)
    growth = Growth(clusters, 15 / total, 20 / total)
    assert unique.merged().scaled(growth) == pytest.approx(total * 12)
    assert unique.merged().new_by_cluster(growth, per_xcd=False).tolist() == [36.0] * clusters


def test_what_an_instruction_shares_says_nothing_of_what_another_touches_alone() -> None:
    """Eight clusters read ten lines each of their own, and two of a row of eight that each is read by two of them."""
    unique, growth = UniqueLines(), Growth(8, 0.01, 0.01)
    for cluster in range(8):
        own = stream(1000 * (cluster + 1) + np.arange(10, dtype=np.uint64), READ)
        row = stream((2 * cluster + np.arange(2, dtype=np.uint64)) % 8, READ)
        row["instruction"] = 1
        unique.add(np.concatenate([own, row]), (READ,), clusters=np.array([cluster]))
    found = unique.merged()
    assert found.scaled(growth) == found.scaled_on_xcds(growth) == pytest.approx(80 / 0.01 + 8)


def test_what_is_passed_over_pushes_out_what_was_used_before(device: Device) -> None:
    state = CacheState(device, 0.01)
    lines = np.arange(64, dtype=np.uint64)
    again = stream(lines, READ)
    run(state, again)
    capacity = state.l2_tags.shape[1] * state.l2_tags.shape[2]
    state.pass_over(capacity / 4, 0)
    assert run(state, again)[Level.L2_HITS] == 64
    state.pass_over(capacity, 0)
    levels = run(state, again)
    assert (levels[Level.L2_HITS], levels[Level.MALL_HITS]) == (0, 64)
    assert state.totals[Flow.AGAIN_FABRIC_READS] == state.totals[Flow.FIRST_FABRIC_READS] == 64
    state.pass_over(capacity, state.mall_tags.shape[1] * state.mall_tags.shape[2])
    assert run(state, again)[Level.MALL_HITS] == 0
    assert state.totals[Flow.AGAIN_HBM_READS] == state.totals[Flow.FIRST_HBM_READS] == 64


def test_lines_go_by_in_memory_that_another_launch_has_left(device: Device) -> None:
    """Sets that the launch has not touched hold what the one before it left: nothing of that is found or written."""
    found = []
    for _ in range(2):
        state = CacheState(device, 0.01)
        capacity = state.l2_tags.shape[1] * state.l2_tags.shape[2]
        state.pass_over(capacity / 2, 100)
        run(state, stream(np.arange(64, dtype=np.uint64), WRITE))
        dirty, written = state.dirty_lines_per_xcd, state.drain()
        found.append((dirty, written, state.totals.tolist()))
        for lines in (np.arange(50_000, dtype=np.uint64), np.arange(500, 900, dtype=np.uint64)):
            run(state, stream(lines, WRITE))
        state.release()
    assert found[0] == found[1]
