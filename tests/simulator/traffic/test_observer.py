"""Traffic of small launches made by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic import AccessKind, BufferRange, Sample, Traffic, TrafficObserver, observer
from wavecast.simulator.traffic.caches import CacheState

LANES = np.arange(64, dtype=np.uint64)
BASE_IN, BASE_OUT = 1 << 30, 1 << 31


@pytest.fixture
def copy(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
) -> Callable[..., Traffic]:
    """A kernel that loads dwords and stores them; ``store_stride`` apart, one wave a workgroup."""

    def build(workgroups: np.ndarray, total: int, *, store_stride: int = 4, chunk: int = 3) -> Traffic:
        kernel = kernel_of(["global_load_dword", "global_store_dword", "buffer_wbl2", "s_endpgm"])
        watcher = TrafficObserver(kernel, device, total_workgroups=total, sample=sample_of(workgroups, total))
        records = np.concatenate(
            [
                part
                for number in workgroups
                for part in (
                    record_of(0, BASE_IN + (int(number) * 64 + LANES) * 4, workgroup=number),
                    record_of(1, BASE_OUT + (int(number) * 64 + LANES) * store_stride, workgroup=number),
                )
            ]
        )
        for start in range(0, len(records), chunk):
            watcher.consume(records[start : start + chunk])
        count = len(workgroups)
        return watcher.result(execution_of(kernel, workgroups, total, [count, count, 2 * count, count]))

    return build


def test_a_copy_moves_what_it_asks_for(copy: Callable[..., Traffic]) -> None:
    traffic = copy(np.arange(512), 512)
    size = 512 * 256
    assert traffic.bytes_asked == 2 * size
    assert traffic.minimum_read_bytes == traffic.minimum_write_bytes == size
    assert traffic.hbm_read_bytes == traffic.hbm_write_bytes == size
    assert traffic.fabric_read_bytes == traffic.fabric_write_bytes == traffic.l2_read_bytes == size
    assert traffic.l2_write_requests == size // 64
    assert traffic.l2_partial_write_requests == 0
    assert traffic.coalescing_efficiency == 1.0
    assert traffic.sampling_error == 0.0
    assert traffic.release_fences == 1024
    assert traffic.acquire_fences == 0
    assert traffic.footprint_bytes == 2 * size


def test_chunks_of_the_trace_do_not_matter(copy: Callable[..., Traffic]) -> None:
    assert copy(np.arange(64), 64, chunk=1) == copy(np.arange(64), 64, chunk=1000)


@pytest.mark.parametrize("capacity", [300, 2000])
def test_a_full_batch_is_thinned_out(
    copy: Callable[..., Traffic], monkeypatch: pytest.MonkeyPatch, capacity: int
) -> None:
    """What is asked for stays exact, what the caches move is estimated from the lines that are left."""
    whole = copy(np.arange(4096), 4096, chunk=4096)
    monkeypatch.setattr(observer, "_EVENT_CAPACITY", capacity)
    part = copy(np.arange(4096), 4096, chunk=4096)
    exact = ("bytes_asked", "l2_read_requests", "l2_write_requests", "l2_partial_write_requests", "l1_hit_rate")
    assert [getattr(part, name) for name in exact] == [getattr(whole, name) for name in exact]
    for name in ("hbm_read_bytes", "hbm_write_bytes", "fabric_read_bytes", "fabric_write_bytes", "footprint_bytes"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.01), name


def test_of_a_large_grid_that_runs_whole_a_part_of_the_lines_is_followed(
    copy: Callable[..., Traffic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known when the first filling of the device has run; what is asked for stays exact."""
    total = 40_000
    whole = copy(np.arange(total), total, chunk=4096)
    strides: list[int] = []
    make = CacheState.__post_init__

    def noted(state: CacheState) -> None:
        strides.append(state.stride)
        make(state)

    monkeypatch.setattr(CacheState, "__post_init__", noted)
    monkeypatch.setattr(observer, "_EVENT_CAPACITY", 50_000)
    monkeypatch.setattr(observer, "_FOLLOWED", 20_000)
    part = copy(np.arange(total), total, chunk=4096)
    # 160,000 lines: one in eight, in the caches of either map.
    assert strides == [8, 8]
    assert part.l2_read_requests == whole.l2_read_requests
    for name in ("hbm_read_bytes", "hbm_write_bytes", "fabric_read_bytes", "fabric_write_bytes", "footprint_bytes"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.01), name


def test_the_expected_work_decides_how_many_lines_are_followed(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observer, "_FOLLOWED", 400)
    kernel = kernel_of(["global_load_dword", "s_endpgm"])
    watcher = TrafficObserver(kernel, device, total_workgroups=1600, sample=sample_of(range(32), 1600))
    for number in range(1600):
        watcher.consume(record_of(0, BASE_IN + (number * 64 + LANES) * 4, workgroup=number))
        if number == 7:
            assert watcher.line_accesses == 16
            watcher.expect(sample_of(range(1600), 1600))  # 3,200 lines: one in eight
    traffic = watcher.result(execution_of(kernel, range(1600), 1600, [1600, 1600]))
    assert traffic.l2_read_requests == 3200
    assert traffic.minimum_read_bytes == traffic.hbm_read_bytes == traffic.fabric_read_bytes == 1600 * 256


def test_where_the_pilot_lies_does_not_decide_how_many_lines_are_followed(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    sample_of: Callable[..., Sample],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Caches are made when it is known what they follow, even if nothing lies before the first workgroup that runs."""
    monkeypatch.setattr(observer, "_FOLLOWED", 400)
    ids, total = range(50_000, 51_600), 100_000  # in none of the first fillings of the device
    kernel = kernel_of(["global_load_dword", "s_endpgm"])
    watcher = TrafficObserver(kernel, device, total_workgroups=total, sample=sample_of(ids[:32], total))
    for number in ids[:8]:
        watcher.consume(record_of(0, BASE_IN + (number * 64 + LANES) * 4, workgroup=number))
    watcher.expect(sample_of(ids, total))
    assert watcher._stride == 8


def test_scattered_stores_cost_more(copy: Callable[..., Traffic]) -> None:
    near, far = copy(np.arange(128), 128), copy(np.arange(128), 128, store_stride=4096)
    assert far.coalescing_efficiency < near.coalescing_efficiency
    assert far.l2_write_requests == 64 * 128
    assert far.l2_partial_write_requests == far.l2_write_requests
    assert far.fabric_write_bytes == 64 * 128 * 32
    assert far.minimum_write_bytes == near.minimum_write_bytes
    assert far.instructions[0].opcode == "global_store_dword"
    assert far.instructions[0].where == "global_store_dword at kernel.py:11"
    assert far.instructions[0].kind is AccessKind.STORE


def test_a_sample_stands_for_the_grid(copy: Callable[..., Traffic]) -> None:
    total = 10_000
    ids = np.concatenate([np.arange(start, start + 64) for start in (0, 3000, 6000, 9936)])
    whole, part = copy(np.arange(total), total, chunk=4096), copy(ids, total, chunk=4096)
    assert part.executed_workgroups == 256
    for name in ("bytes_asked", "hbm_read_bytes", "hbm_write_bytes", "l2_write_requests", "minimum_read_bytes"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=1e-3), name


def test_shared_input_is_not_multiplied_by_the_grid(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
) -> None:
    """Every workgroup reads the same 8 KiB; a sample of a hundredth must not read 100 times 8 KiB."""
    kernel = kernel_of(["global_load_dwordx4", "s_endpgm"])
    ids = np.concatenate([np.arange(start, start + 64) for start in (0, 3200, 6400, 9600)])
    watcher = TrafficObserver(kernel, device, total_workgroups=25_600, sample=sample_of(ids, 25_600))
    for number in ids:
        for step in range(8):
            watcher.consume(record_of(0, BASE_IN + step * 1024 + LANES * 16, workgroup=number))
    traffic = watcher.result(execution_of(kernel, ids, 25_600, [8 * len(ids), len(ids)]))
    assert traffic.minimum_read_bytes == traffic.hbm_read_bytes == 8192
    assert traffic.fabric_read_bytes == 8 * 8192  # once for each XCD
    assert traffic.bytes_asked == 25_600 * 8192
    assert traffic.l2_hit_rate > 0.8


def test_buffers_bound_what_a_sample_extrapolates(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
) -> None:
    kernel = kernel_of(["global_load_dword", "s_endpgm"])
    ids = np.arange(64)
    buffers = (BufferRange(BASE_IN, 32 * 1024, "x"),)
    watcher = TrafficObserver(kernel, device, total_workgroups=6400, sample=sample_of(ids, 6400), buffers=buffers)
    for number in ids:
        watcher.consume(record_of(0, BASE_IN + (int(number) % 32) * 256 + LANES * 4, workgroup=number))
    traffic = watcher.result(execution_of(kernel, ids, 6400, [64, 64]))
    # 100 times the 8 KiB that the sample touches would be 800 KiB; the buffer has 32.
    assert traffic.minimum_read_bytes == traffic.hbm_read_bytes == traffic.footprint_bytes == 32 * 1024
    # The next workgroup that reads a line is 32 further, on the same XCD.
    assert traffic.fabric_read_bytes == 32 * 1024


def test_lds_atomics_and_hot_lines(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
) -> None:
    kernel = kernel_of(
        ["ds_read_b32", ("ds_write2_b32", {"offset0": 0, "offset1": 32}), "global_atomic_add_f32", "s_endpgm"],
        lds_bytes=16384,
    )
    watcher = TrafficObserver(kernel, device, total_workgroups=4)
    for number in range(4):
        watcher.consume(record_of(0, LANES * 128, workgroup=number))
        watcher.consume(record_of(1, LANES * 4, workgroup=number))
        watcher.consume(record_of(2, np.full(64, BASE_OUT), workgroup=number, exec_mask=1))
    traffic = watcher.result(execution_of(kernel, range(4), 4, [4, 4, 4, 4]))
    assert traffic.lds_clk == 4 * (64 + 2 + 2)
    assert traffic.lds_conflict_clk == 4 * 62
    assert traffic.atomic_requests == 4
    assert traffic.hot_line_atomics == 4
    assert traffic.l2_write_requests == 0


def test_a_launch_without_memory_has_no_traffic(
    device: Device, kernel_of: Callable[..., Kernel], execution_of: Callable[..., Execution]
) -> None:
    kernel = kernel_of(["s_endpgm"])
    traffic = TrafficObserver(kernel, device, total_workgroups=2).result(execution_of(kernel, [0, 1], 2, [2]))
    assert traffic.bytes_asked == traffic.hbm_read_bytes == traffic.hbm_write_bytes == 0
    assert traffic.coalescing_efficiency == traffic.channel_imbalance == 1.0
    assert traffic.instructions == ()


def test_a_grid_whose_lines_fit_the_memory_side_cache_takes_each_from_hbm_once(
    device: Device,
    kernel_of: Callable[..., Kernel],
    record_of: Callable[..., np.ndarray],
    execution_of: Callable[..., Execution],
    sample_of: Callable[..., Sample],
) -> None:
    """Two of 64 workgroups run, which all read the same lines: a 32nd of the cache would not hold them."""
    kernel = kernel_of(["global_load_dword", "s_endpgm"])
    lines, total, ran = 4096, 64, np.array([0, 1])

    def hbm_lines(small: Device) -> float:
        buffer = BufferRange(BASE_IN, lines * 128, "x")
        watcher = TrafficObserver(kernel, small, total_workgroups=total, sample=sample_of(ran, total), buffers=[buffer])
        for number in ran:
            for start in range(0, lines, 64):
                watcher.consume(record_of(0, BASE_IN + (start + LANES) * 128, workgroup=number))
        count = 2 * lines // 64
        return watcher.result(execution_of(kernel, ran, total, [count, 2])).hbm_read_bytes / 128

    assert hbm_lines(device.with_value("mall.bytes", lines * 128)) == lines
    assert hbm_lines(device.with_value("mall.bytes", lines * 64)) > 10 * lines
