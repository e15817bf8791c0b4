"""What a launch finds in the memory-side cache of what those before it left there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic import KeptLines, Traffic, TrafficObserver
from wavecast.simulator.traffic.caches import EVENT, LEVELS, READ, CacheState, Flow, is_followed

LANES = np.arange(64, dtype=np.uint64)
LINES_IN_MALL = 2**28 // 128


def read(state: CacheState, lines: np.ndarray) -> int:
    """Lines that a stream of reads takes from HBM."""
    events = np.zeros(len(lines), dtype=EVENT)
    events["line"], events["kind"], events["order"] = lines, READ, np.arange(len(lines))
    events["low"] = events["high"] = np.uint64(2**64 - 1)
    before = int(state.totals[Flow.HBM_READS])
    state.run(events, np.zeros((1, LEVELS), dtype=np.int64))
    return int(state.totals[Flow.HBM_READS]) - before


@pytest.fixture
def reader(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
) -> Callable[..., Traffic]:
    """A launch whose workgroups read 256 bytes each from ``base`` on."""

    def launch(base: int, workgroups: int, kept: KeptLines | None) -> Traffic:
        kernel = kernel_of(["global_load_dword", "s_endpgm"])
        watcher = TrafficObserver(kernel, device, total_workgroups=workgroups, kept=kept)
        for number in range(workgroups):
            watcher.consume(record_of(0, base + (number * 64 + LANES) * 4, workgroup=number))
        return watcher.result(execution_of(kernel, np.arange(workgroups), workgroups, [workgroups, workgroups]))

    return launch


def test_a_second_launch_reads_from_the_memory_side_cache(reader: Callable[..., Traffic]) -> None:
    kept = KeptLines()
    size = 256 * 256
    first, again = (reader(1 << 30, 256, kept) for _ in range(2))
    other = reader(1 << 31, 256, kept)
    assert (first.hbm_read_bytes, again.hbm_read_bytes, other.hbm_read_bytes) == (size, 0, size)
    assert first.minimum_read_bytes == again.minimum_read_bytes == again.fabric_read_bytes == size
    assert (first.mall_hit_rate, again.mall_hit_rate) == (0.0, 1.0)
    # Half of what the third launch reads next to it is there.
    assert reader((1 << 31) + size // 2, 256, kept).hbm_read_bytes == size // 2


def test_nothing_is_kept_unless_asked_for(reader: Callable[..., Traffic]) -> None:
    assert reader(1 << 30, 64, None).hbm_read_bytes == reader(1 << 30, 64, None).hbm_read_bytes == 64 * 256


def test_the_least_recently_used_lines_leave(device: Device) -> None:
    state = CacheState(device, 1.0)
    lines = np.arange(3 * LINES_IN_MALL // 2, dtype=np.uint64)
    assert read(state, lines) == len(lines)
    kept = state.mall_lines
    assert 0.99 * LINES_IN_MALL < len(kept) <= LINES_IN_MALL  # sets are hashed: not all of them are full
    later = CacheState(device, 1.0)
    later.fill_mall(kept)
    assert not later.totals.any()
    newest, oldest = lines[-LINES_IN_MALL // 2 :], lines[: LINES_IN_MALL // 4]
    assert read(later, newest) < 0.02 * len(newest)
    assert read(later, oldest) > 0.95 * len(oldest)


@pytest.mark.parametrize(("stride", "then"), [(1, 1), (1, 4), (4, 1), (8, 2), (2, 8)])
def test_launches_may_follow_different_parts_of_the_lines(stride: int, then: int) -> None:
    everything = np.arange(4096, dtype=np.uint64) + np.uint64(77 * 4096)

    def followed(by: int) -> np.ndarray:
        return np.array([line for line in everything if is_followed(line, by)], dtype=np.uint64)

    assert np.array_equal(KeptLines(followed(stride), stride).followed(then), followed(then))
