"""Time of the shared memory system, level by level, against cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from wavecast.simulator.devices import Device
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing import Bound
from wavecast.simulator.timing.memory_time import busy_us, crowded_us, memory_terms, serial_us
from wavecast.simulator.traffic import Traffic

GIB = 2**30


@pytest.fixture
def terms(device: Device, copy_kernel: Kernel, traffic_of: Callable[..., Traffic]) -> Callable[..., dict[Bound, float]]:
    """Terms of a copy of 1 GiB with some of its traffic changed."""

    def build(*, warm: float = 0.0, **changes: object) -> dict[Bound, float]:
        traffic = traffic_of(copy_kernel, device, 2**20, **changes)
        assert traffic.hbm_read_bytes in (GIB, changes.get("hbm_read_bytes"))
        return memory_terms(traffic, device, warm=warm)

    return build


def test_a_copy_takes_each_level_its_own_time(terms: Callable[..., dict[Bound, float]], device: Device) -> None:
    found = terms()
    size = GIB / 1e6  # µs at 1 TB/s
    assert found[Bound.HBM] == pytest.approx(2 * size / device.hbm.mixed_tb_s)
    # All of it comes from HBM or goes there.
    assert found[Bound.MALL] == pytest.approx(2 * size / device.mall.mixed_tb_s * (1 + device.mall.fill_share))
    assert found[Bound.L2] == pytest.approx(size / device.l2.read_tb_s + size / device.l2.write_tb_s)
    assert found[Bound.ATOMICS] == found[Bound.FENCES] == found[Bound.WRITE_BACK] == 0.0
    assert busy_us(found)[0] == found[Bound.HBM]


def test_the_mix_decides_the_rate_of_hbm(terms: Callable[..., dict[Bound, float]], device: Device) -> None:
    """Reads alone and writes alone have their own rates; 3 to 1 is half way between reads alone and equal parts."""
    reads = terms(hbm_write_bytes=0)[Bound.HBM]
    writes = terms(hbm_read_bytes=0)[Bound.HBM]
    assert reads == pytest.approx(GIB / 1e6 / device.hbm.read_tb_s)
    assert writes == pytest.approx(GIB / 1e6 / device.hbm.write_tb_s)
    third = GIB // 3
    apart = (GIB / device.hbm.read_tb_s + third / device.hbm.write_tb_s) / 1e6
    mixed = (GIB + third) / device.hbm.mixed_tb_s / 1e6
    assert terms(hbm_write_bytes=third)[Bound.HBM] == pytest.approx((apart + mixed) / 2)


def test_what_a_launch_before_left_is_not_fetched_again(
    terms: Callable[..., dict[Bound, float]], device: Device
) -> None:
    cold, half, warm = (terms(warm=share) for share in (0.0, 0.5, 1.0))
    assert half[Bound.HBM] == pytest.approx(cold[Bound.HBM] / 2)
    assert warm[Bound.HBM] == 0.0
    # What the cache holds it does not fill once more.
    assert cold[Bound.MALL] == pytest.approx(warm[Bound.MALL] * (1 + device.mall.fill_share))


def test_partial_writes_go_by_request_and_wait_at_a_hot_channel(
    terms: Callable[..., dict[Bound, float]], device: Device
) -> None:
    """2**26 requests over 128 channels at ``write_request_clk`` and 2.1 GHz."""
    changes: dict[str, object] = {"l2_read_bytes": 0, "l2_write_requests": 2**26, "l2_partial_write_requests": 2**26}
    even = terms(**changes)[Bound.L2]
    assert even == pytest.approx(2**26 / 128 * device.l2.write_request_clk / 2100)
    assert terms(**changes, channel_imbalance=4.0)[Bound.L2] == pytest.approx(even * 4**device.l2.in_step)


def test_atomics_spread_or_queue_at_one_line(terms: Callable[..., dict[Bound, float]], device: Device) -> None:
    spread = terms(atomic_requests=2**24)[Bound.ATOMICS]
    assert spread == pytest.approx(2**24 / 128 * device.atomics.request_clk / 2100)
    # GUPS on MI300X: 65,536 threads x 128 updates take 268 µs, of which 6 are the launch.
    assert terms(atomic_requests=65_536 * 128)[Bound.ATOMICS] == pytest.approx(262, rel=0.01)
    # 2,048 x 256 threads with 2,048 atomicAdd each: 158,816 µs, one wave instruction after another on one line.
    hot = terms(atomic_requests=2**24, hot_line_atomics=2048 * 4 * 2048)[Bound.ATOMICS]
    assert hot == pytest.approx(158_816, rel=0.02)


def test_the_l2s_write_back_at_once_at_the_end(terms: Callable[..., dict[Bound, float]], device: Device) -> None:
    """0.5 MiB each at 128 bytes a clk and 2.1 GHz: 1.95 µs; the memory moves those bytes then, not before."""
    whole, last = terms(), terms(last_write_back_bytes=8 * 2**19)
    assert last[Bound.WRITE_BACK] == serial_us(last) == pytest.approx(2**19 / 128 / 2100)
    assert last[Bound.MALL] < whole[Bound.MALL]
    # Of a full L2 no more than 22 % are dirty.
    full = terms(last_write_back_bytes=8 * 4 * 2**20)
    assert full[Bound.WRITE_BACK] == pytest.approx(0.22 * 4 * 2**20 / 128 / 2100)


def test_fences_search_and_write_what_they_find(
    device: Device, copy_kernel: Kernel, traffic_of: Callable[..., Traffic]
) -> None:
    """A share of the searches queues at each XCD, and between them they write all that the launch writes."""
    size = 8 * 2**20
    traffic = traffic_of(copy_kernel, device, size // 1024, last_write_back_bytes=size)
    fenced = memory_terms(replace(traffic, release_fences=8 * 1000), device, warm=0.0)
    search_us = 1000 * device.fences.writeback_clk * device.fences.writeback_serial / 2100
    assert fenced[Bound.FENCES] == pytest.approx(search_us + 2**20 / 128 / 2100, rel=1e-3)
    assert fenced[Bound.WRITE_BACK] == 0.0
    assert memory_terms(traffic, device, warm=0.0)[Bound.FENCES] == 0.0


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        (0.1, 1.0),  # ten times what the memory can take
        (0.4, 1.0),
        (1.0, 1 / (1 - 0.235)),  # as much as it can take: three quarters of its best rate
        (2.0, 2 / (1 - 0.235 / 2)),
        (100.0, 100 / (1 - 0.00235)),  # hardly anything
    ],
)
def test_few_bytes_in_flight_leave_memory_idle(device: Device, offered: float, wanted: float) -> None:
    assert crowded_us(1.0, offered, device) == pytest.approx(wanted)


def test_less_on_offer_never_makes_memory_faster(device: Device) -> None:
    times = [crowded_us(1.0, step / 100, device) for step in range(1, 400)]
    assert times == sorted(times)
