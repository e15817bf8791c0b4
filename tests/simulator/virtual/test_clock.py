"""Autotuning, benchmarks and events take predicted time, and leave results as they should be."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.testing import do_bench

import wavecast.simulator.launch as launch_stages
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
COUNT = 1 << 19


@triton.jit
def scale_kernel(source, target, count, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value * factor, mask=index < count)


CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=1),
    triton.Config({"BLOCK": 1024}, num_warps=4),
]
tuned_kernel = triton.autotune(configs=CONFIGS, key=["count"])(scale_kernel)


@triton.autotune(configs=CONFIGS, key=["count"], restore_value=["values"])
@triton.heuristics({"EVEN": lambda arguments: arguments["count"] % arguments["BLOCK"] == 0})
@triton.jit
def increment_kernel(values, count, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (index < count) | EVEN
    tl.store(values + index, tl.load(values + index, mask=mask) + 1, mask=mask)


def test_autotuning_takes_the_configuration_that_is_predicted_to_be_fastest_and_runs_its_whole_grid() -> None:
    source, target = torch.randn(COUNT), torch.zeros(COUNT)
    tuned_kernel.cache.clear()
    with virtual_device("mi300x") as device:
        tuned_kernel[lambda meta: (triton.cdiv(COUNT, meta["BLOCK"]),)](source, target, COUNT, 2.0)
        [launch] = device.launches
        times = {config.kwargs["BLOCK"]: time[0] * 1e3 for config, time in tuned_kernel.configs_timings.items()}
        scale_kernel[(COUNT // 64,)](source, target, COUNT, 2.0, BLOCK=64, num_warps=1)
    assert torch.equal(target, source * 2.0)
    assert tuned_kernel.best_config.kwargs["BLOCK"] == min(times, key=times.get) == 1024
    assert launch.grid == (COUNT // 1024, 1, 1)
    # A sample of the workgroups and all of them are predicted alike.
    assert times[64] == pytest.approx(device.launches[1].result.time.predicted_us, rel=0.1)
    assert device.clock_us > sum(launch.result.time.predicted_us for launch in device.launches)


def test_values_that_tuning_changes_are_restored() -> None:
    values = torch.zeros(COUNT)
    with virtual_device("mi355x"):
        increment_kernel[lambda meta: (triton.cdiv(COUNT, meta["BLOCK"]),)](values, COUNT)
    assert bool((values == 1).all())


def test_do_bench_imported_by_name_is_predicted_and_is_tritons_own_again_afterwards() -> None:
    source, target = torch.randn(COUNT), torch.zeros(COUNT)

    def run() -> None:
        scale_kernel[(COUNT // 1024,)](source, target, COUNT, 2.0, BLOCK=1024)

    before = do_bench.__code__
    with virtual_device("mi300x") as device:
        first, second = do_bench(run), do_bench(run, 1, 1, None, [0.5, 0.2, 0.8])
        every = triton.testing.do_bench_cudagraph(run, return_mode="all")
        assert device.launches == []
        run()
        alone = device.launches[0].result.time.predicted_us
    assert torch.equal(target, source * 2.0)
    assert every == [pytest.approx(alone / 1e3)]
    assert second == [first] * 3
    assert do_bench.__code__ is before


def test_do_bench_pays_for_the_zeros_that_it_writes_before() -> None:
    """A copy of 16 MiB: what it brings in, 32 MiB, pushes out as much, at 4 TB/s in 8 µs or a part of them."""
    count = 2**22
    source, target = torch.zeros(count), torch.zeros(count)

    def run() -> None:
        scale_kernel[(count // 1024,)](source, target, count, 2.0, BLOCK=1024)

    with virtual_device("mi300x", workgroups="sample"):
        flushed, unflushed = do_bench(run), triton.testing.do_bench_cudagraph(run)
    assert 1.5e-3 < flushed - unflushed < 8e-3


@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
def test_autotuning_times_as_do_bench_does(device: str) -> None:
    """Triton's benchmarker is ``do_bench`` on either vendor's devices; one kernel may be tuned on several of them."""
    source, target = torch.zeros(2**20), torch.zeros(2**20)
    tuned_kernel.cache.clear()
    with virtual_device(device, workgroups="sample"):
        tuned_kernel[lambda meta: (triton.cdiv(2**20, meta["BLOCK"]),)](source, target, 2**20, 2.0)
        config = tuned_kernel.best_config
        grid = (2**20 // config.kwargs["BLOCK"],)
        found = do_bench(lambda: scale_kernel[grid](source, target, 2**20, 2.0, **config.all_kwargs()))
    assert tuned_kernel.configs_timings[config][0] == pytest.approx(found, rel=0.01)


def test_benchmarks_start_with_cold_caches() -> None:
    source, target = torch.randn(COUNT), torch.zeros(COUNT)

    def run() -> None:
        scale_kernel[(COUNT // 1024,)](source, target, COUNT, 2.0, BLOCK=1024)

    with virtual_device("mi300x") as device:
        run()
        with device.benchmark() as launches:
            run()
            run()
        run()
    reads = [launch.result.traffic.hbm_read_bytes for launch in [*device.launches, *launches]]
    assert reads == [4 * COUNT, 4 * COUNT, 4 * COUNT, 0]


def test_what_launches_nothing_has_no_time() -> None:
    with virtual_device("mi300x"), pytest.warns(UserWarning, match="launched no kernel"):
        assert math.isnan(do_bench(lambda: None))
    with virtual_device("mi300x"), pytest.raises(LaunchError, match="return_mode is 'mode'"):
        do_bench(lambda: scale_kernel[(1,)](torch.zeros(64), torch.zeros(64), 64, 1.0, BLOCK=64), return_mode="mode")


def test_events_read_predicted_time() -> None:
    source, target = torch.randn(1000), torch.zeros(1000)
    with virtual_device("mi300x") as device:
        interface = triton.runtime.driver.active.get_device_interface()
        start, end = interface.Event(enable_timing=True), interface.Event(enable_timing=True)
        with pytest.raises(LaunchError, match="not recorded"):
            start.elapsed_time(end)
        start.record()
        for _ in range(2):
            scale_kernel[(4,)](source, target, 1000, 2.0, BLOCK=256)
        end.record()
        interface.synchronize()
    expected = sum(launch.result.time.predicted_us for launch in device.launches) / 1e3
    assert start.elapsed_time(end) == pytest.approx(expected)


def _python(tmp_path: Path, script: str, device: str) -> subprocess.CompletedProcess[str]:
    """Run a script where Triton finds the backend as it does in an environment with the package installed."""
    package = tmp_path / "wavecast_simulator-0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: wavecast-simulator\nVersion: 0\n")
    (package / "entry_points.txt").write_text("[triton.backends]\nwavecast = wavecast.simulator.triton_backend\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    file = tmp_path / "script.py"
    file.write_text(script)
    environment = {**os.environ, "PYTHONPATH": path, "WAVECAST_DEVICE": device}
    return subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False, timeout=600
    )


SCRIPT = """
import torch, triton, triton.language as tl
from triton.testing import do_bench

@triton.jit
def double_kernel(values, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(values + index, tl.load(values + index) * 2)

values = torch.ones(64)
double_kernel[(1,)](values, BLOCK=64)
time = do_bench(lambda: double_kernel[(1,)](values, BLOCK=64))
print(values.sum().item(), triton.runtime.driver.active.get_current_target().arch, 0 < time < 1)
"""


def test_a_script_that_knows_nothing_of_the_simulator_runs_on_the_device_of_the_variable(tmp_path: Path) -> None:
    done = _python(tmp_path, SCRIPT, "mi355x")
    assert done.stdout == "256.0 gfx950 True\n", done.stderr


def test_an_unknown_device_in_the_variable_is_named(tmp_path: Path) -> None:
    done = _python(tmp_path, SCRIPT, "mi400")
    assert done.returncode == 1
    assert "no device is called 'mi400'" in done.stderr


def test_a_fault_in_the_timing_is_not_taken_for_a_device_without_times(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = torch.randn(1024), torch.zeros(1024)

    def faulty(*_: object) -> float:
        raise AttributeError("no such constant")

    monkeypatch.setattr(launch_stages, "predict_us", faulty)
    with virtual_device("mi300x"), pytest.raises(AttributeError, match="no such constant"):
        do_bench(lambda: scale_kernel[(1,)](source, target, 1024, 2.0, BLOCK=1024))
