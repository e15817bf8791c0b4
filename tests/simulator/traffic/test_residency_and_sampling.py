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
    grid_strides,
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
    assert (np.diff(sample.workgroups) > 0).all()
    for number in range(16):
        cluster = sample.workgroups[sample.clusters == number]
        assert cluster[0] * 16 // total == number
        assert (np.diff(cluster) == 1).all()
        assert (np.bincount(cluster % 8) == 4).all()  # every XCD gets four
        assert sample.counted[sample.clusters == number].tolist() == [False] * 8 + [True] * 24
    assert (sample.workgroups == choose_workgroups(total, device).workgroups).all()


def test_clusters_do_not_fall_in_step_with_powers_of_two(device: Device) -> None:
    for total in (2048, 4096, 65_536):
        sample = choose_workgroups(total, device)
        starts = np.array([sample.workgroups[sample.clusters == number][0] for number in range(16)])
        stratum = total // 16
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
        assert len(set(sample.clusters)) >= 4  # or the variance between clusters would not be known
        assert (np.bincount(sample.workgroups % 8) == len(sample.workgroups) // 8).all()


def test_long_workgroups_make_fewer_clusters_then_smaller_ones(device: Device) -> None:
    shapes = []
    for work in (1e4, 4e4, 1.2e5, 1e6):
        sample = choose_workgroups(100_000, device, work_per_workgroup=work)
        clusters = len(set(sample.clusters))
        shapes.append((clusters, len(sample.workgroups) // clusters))
    assert shapes == [(16, 32), (9, 32), (4, 24), (4, 16)]


def test_a_tiny_grid_is_its_own_pilot(device: Device) -> None:
    assert pilot_workgroups(8, device).tolist() == list(range(8))
    assert pilot_workgroups(9, device).tolist() == list(range(8))


@pytest.mark.parametrize(
    "grid", [(64, 64, 64), (128, 128, 1), (37, 5, 211), (4000, 3, 1), (16, 16, 16), (1, 9000, 1), (288, 9, 1)]
)
@pytest.mark.parametrize("work", [0.0, 3e4, 1e6])
def test_a_counted_workgroup_runs_after_its_neighbours_along_every_axis(
    device: Device, grid: tuple[int, int, int], work: float
) -> None:
    total, strides = int(np.prod(grid)), grid_strides(grid)
    sample = choose_workgroups(total, device, strides=strides, work_per_workgroup=work)
    pilot = pilot_workgroups(total, device, strides=strides)
    assert (sample.workgroups[: len(pilot)] == pilot).all()
    assert (np.diff(sample.workgroups) > 0).all()
    assert 0 <= sample.workgroups[0] <= sample.workgroups[-1] < total
    if sample.is_complete:
        return
    # Rows along an axis of three steps would not leave room for strata, long workgroups afford no rows.
    wanted = [] if work == 1e6 else [stride for stride in strides if 8 < stride <= total // 2]
    counted = sample.workgroups[sample.counted]
    assert len(counted) >= 32
    for stride in (8, *wanted):
        assert np.isin(counted - stride, sample.workgroups).all(), stride


@pytest.mark.parametrize(
    ("grid", "uneven"), [((288, 64, 1), 0.2), ((288, 8, 1), 0.2), ((256, 64, 1), 0.2), ((4096, 9, 1), 0.51)]
)
@pytest.mark.parametrize("work", [0.0, 1.5e4])
def test_clusters_cover_a_long_first_axis_evenly(
    device: Device, grid: tuple[int, int, int], uneven: float, work: float
) -> None:
    """What stands in a part of it, as programs of another kind do, has its share of the sample."""
    sample = choose_workgroups(int(np.prod(grid)), device, strides=grid_strides(grid), work_per_workgroup=work)
    assert not sample.is_complete
    ninths = np.bincount(sample.workgroups % grid[0] * 9 // grid[0], minlength=9)
    assert (abs(ninths / ninths.mean() - 1) < uneven).all()


def test_strides_of_a_grid() -> None:
    assert grid_strides((64, 32, 16)) == (64, 2048)
    assert grid_strides((64, 1, 16)) == (64,)
    assert grid_strides((5000, 1, 1)) == ()


def test_work_counts_instructions_and_lines() -> None:
    assert work_of(0, 100) < work_of(10, 100) < work_of(10, 200)


def test_a_sample_of_nothing_is_refused(device: Device) -> None:
    with pytest.raises(ValueError, match="wanted at least 1"):
        choose_workgroups(0, device)


def test_sampling_error() -> None:
    clusters = np.repeat(np.arange(3), 64)
    assert sampling_error(np.ones(192), clusters, 10_000) == 0.0
    assert sampling_error(np.arange(192), clusters, 192) == 0.0
    assert sampling_error(np.ones(64), np.zeros(64, np.int64), 10_000) == float("inf")
    values = np.concatenate([np.full(64, 90.0), np.full(64, 100.0), np.full(64, 110.0)])
    # Cluster means 90, 100, 110: standard deviation 10, over the square root of three clusters, over the mean.
    assert sampling_error(values, clusters, 10_000) == pytest.approx(10 / 3**0.5 / 100 * (1 - 0.0192) ** 0.5)


def test_clusters_begin_at_even_and_at_odd_ids() -> None:
    """Of lines that two neighbours share, those of every second workgroup are new: half of the counted ones."""
    sample = choose_workgroups(64 * 32, load_device("h200"), strides=(64,), work_per_workgroup=3e4)
    assert 0.4 < np.mean(sample.workgroups[sample.counted] % 2 == 0) < 0.6
