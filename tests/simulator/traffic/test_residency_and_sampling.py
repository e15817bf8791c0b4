"""Occupancy from real resources, and the choice of workgroups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic import (
    Limiter,
    choose_workgroups,
    pilot_workgroups,
    residency,
    sampling_error,
    work_of,
)


@pytest.mark.parametrize(
    ("resources", "workgroups", "waves_per_simd", "limiter"),
    [
        ({"vgpr": 32}, 32, 8, Limiter.WAVE_SLOTS),
        ({"vgpr": 32, "workgroup_size": 256}, 8, 8, Limiter.WAVE_SLOTS),
        ({"vgpr": 78, "workgroup_size": 256}, 6, 6, Limiter.VGPR),  # 80 after rounding: 6 waves a SIMD
        ({"vgpr": 164, "workgroup_size": 512}, 1, 2, Limiter.VGPR),  # 168: 3 waves a SIMD, but 2 to a workgroup
        ({"vgpr": 76, "workgroup_size": 512, "lds_bytes": 32768}, 2, 4, Limiter.LDS),
        ({"vgpr": 32, "workgroup_size": 128, "lds_bytes": 4096}, 16, 8, Limiter.WAVE_SLOTS),
        ({"vgpr": 32, "workgroup_size": 1024}, 2, 8, Limiter.WAVE_SLOTS),
    ],
)
def test_occupancy_on_gfx942(
    kernel_of: Callable[..., Kernel],
    device: Device,
    resources: dict[str, int],
    workgroups: int,
    waves_per_simd: int,
    limiter: Limiter,
) -> None:
    found = residency(kernel_of(["s_endpgm"], **resources), device)
    assert (found.workgroups_per_cu, found.waves_per_simd, found.limiter) == (workgroups, waves_per_simd, limiter)


def test_the_larger_lds_of_gfx950_holds_more(kernel_of: Callable[..., Kernel], device: Device) -> None:
    kernel = kernel_of(["s_endpgm"], workgroup_size=256, lds_bytes=32768)
    assert residency(kernel, device).workgroups_per_cu == 2
    # 32,768 bytes are 26 granules of 1,280: 33,280 bytes, four of which fit.
    assert residency(kernel, load_device("mi355x")).workgroups_per_cu == 4


def test_a_workgroup_that_does_not_fit_is_refused(kernel_of: Callable[..., Kernel], device: Device) -> None:
    with pytest.raises(LaunchError, match="does not fit a compute unit of mi300x: too many LDS"):
        residency(kernel_of(["s_endpgm"], lds_bytes=70000), device)


def test_more_registers_never_raise_occupancy(kernel_of: Callable[..., Kernel], device: Device) -> None:
    held = [residency(kernel_of(["s_endpgm"], vgpr=vgpr), device).workgroups_per_cu for vgpr in range(8, 513, 8)]
    assert held == sorted(held, reverse=True)


def test_a_small_grid_is_taken_whole(device: Device) -> None:
    sample = choose_workgroups(1000, device)
    assert sample.is_complete
    assert sample.fraction == 1.0
    assert sample.workgroups.tolist() == list(range(1000))


def test_a_large_grid_is_taken_in_clusters(device: Device) -> None:
    total = 100_003
    sample = choose_workgroups(total, device)
    assert not sample.is_complete
    assert len(sample.workgroups) == 16 * 32
    strata = sample.workgroups[sample.starts] * 16 // total
    assert strata.tolist() == list(range(16))
    assert (np.diff(sample.workgroups) > 0).all()
    for start in sample.starts:
        cluster = sample.workgroups[start : start + 32]
        assert (np.diff(cluster) == 1).all()
        assert (np.bincount(cluster % 8) == 4).all()  # every XCD gets four
    assert (sample.workgroups == choose_workgroups(total, device).workgroups).all()


def test_clusters_do_not_fall_in_step_with_powers_of_two(device: Device) -> None:
    for total in (2048, 4096, 65_536):
        sample = choose_workgroups(total, device)
        starts, stratum = sample.workgroups[sample.starts], total // 16
        assert len(set(starts % stratum * 8 // stratum)) >= 4


@pytest.mark.parametrize("total", [100, 1000, 1025, 5000, 1_000_000])
@pytest.mark.parametrize("work", [0.0, 1e4, 1e5, 1e6, 1e9, float("inf")])
def test_samples_shrink_with_the_work_and_begin_with_the_pilot(device: Device, total: int, work: float) -> None:
    pilot, sample = pilot_workgroups(total, device), choose_workgroups(total, device, work_per_workgroup=work)
    assert (np.diff(sample.workgroups) > 0).all()
    assert sample.workgroups[-1] < total
    assert (sample.workgroups[: len(pilot)] == pilot).all()
    assert len(choose_workgroups(total, device, work_per_workgroup=2 * work).workgroups) <= len(sample.workgroups)
    if not sample.is_complete:
        assert len(sample.starts) >= 4  # or the variance between clusters would not be known
        assert (np.bincount(sample.workgroups % 8) == len(sample.workgroups) // 8).all()


def test_long_workgroups_make_fewer_clusters_then_smaller_ones(device: Device) -> None:
    shapes = []
    for work in (1e4, 4e4, 1.2e5, 1e6):
        sample = choose_workgroups(100_000, device, work_per_workgroup=work)
        shapes.append((len(sample.starts), len(sample.workgroups) // len(sample.starts)))
    assert shapes == [(16, 32), (9, 32), (4, 24), (4, 8)]


def test_a_tiny_grid_is_its_own_pilot(device: Device) -> None:
    assert pilot_workgroups(64, device).tolist() == list(range(64))
    assert pilot_workgroups(65, device).tolist() == list(range(8))


def test_work_counts_instructions_and_lines() -> None:
    assert work_of(0, 100) < work_of(10, 100) < work_of(10, 200)


def test_a_sample_of_nothing_is_refused(device: Device) -> None:
    with pytest.raises(ValueError, match="wanted at least 1"):
        choose_workgroups(0, device)


def test_sampling_error() -> None:
    ids = np.concatenate([np.arange(64), np.arange(1000, 1064), np.arange(5000, 5064)])
    assert sampling_error(np.ones(192), ids, 10_000) == 0.0
    assert sampling_error(np.arange(192), np.arange(192), 192) == 0.0
    assert sampling_error(np.ones(64), np.arange(64), 10_000) == float("inf")
    values = np.concatenate([np.full(64, 90.0), np.full(64, 100.0), np.full(64, 110.0)])
    # Cluster means 90, 100, 110: standard deviation 10, over the square root of three clusters, over the mean.
    assert sampling_error(values, ids, 10_000) == pytest.approx(10 / 3**0.5 / 100 * (1 - 0.0192) ** 0.5)
