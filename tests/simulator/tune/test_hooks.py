"""The hooks of Triton's autotuner: fewer configurations reach the benchmark, and the right ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from tuned_kernels import COUNT, blocks, increment_kernel, scale_kernel

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.tune import Constraint, Pruning
from wavecast.simulator.virtual import virtual_device

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
CONFIGS = [
    triton.Config({"BLOCK": 64}, num_warps=1),
    triton.Config({"BLOCK": 1024}, num_warps=4),
    triton.Config({"BLOCK": 2048}, num_warps=32),
]


class OtherDriver(DriverBase):
    """Stands for a GPU's driver: whatever it is asked to launch or to benchmark is counted, and nothing runs."""

    def __init__(self) -> None:
        self.benchmarked = 0
        self.compiled = 0

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("hip", "gfx90a", 64)

    def get_active_torch_device(self) -> Any:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def benchmark(call: Callable[[], None], quantiles: object) -> list[float]:
            self.benchmarked += 1
            return [1.0, 1.0, 1.0]

        return benchmark


@pytest.fixture
def other_driver() -> Iterator[OtherDriver]:
    before = triton.runtime.driver._active
    driver = OtherDriver()
    triton.runtime.driver.set_active(driver)
    try:
        yield driver
    finally:
        triton.runtime.driver.set_active(before)


def test_under_a_virtual_device_the_kernel_runs_with_the_configuration_of_the_shortest_predicted_time() -> None:
    pruning = Pruning(scale_kernel)
    tuned = triton.autotune(configs=CONFIGS, key=["count"], prune_configs_by=pruning.hooks(top_k=1))(scale_kernel)
    source, target = torch.randn(COUNT), torch.zeros(COUNT)
    with virtual_device("mi300x") as device:
        tuned[blocks](source, target, COUNT, 2.0)
    assert torch.equal(target, 2 * source)
    assert len(device.launches) == 1
    # Triton benchmarked one configuration only; from 3.9 on not even that.
    assert list(getattr(tuned, "configs_timings", [tuned.best_config])) == [tuned.best_config]
    assert tuned.best_config == pruning.ranking.best.config
    [refused] = pruning.ranking.ruled_out
    assert refused.config == CONFIGS[2] and refused.ruled_out.constraint is Constraint.WAVEFRONT
    assert len(pruning.ranking.timed) == 2


def test_a_decorator_above_the_kernel_names_it_by_a_function() -> None:
    pruning = Pruning(lambda: tuned, device="mi355x")
    tuned = triton.autotune(configs=CONFIGS[:2], key=["count"], prune_configs_by=pruning.hooks(top_k=1))(
        triton.heuristics({"BLOCK_IS_WAVE": lambda arguments: arguments["BLOCK"] == 64})(triton.jit(_two_constants.fn))
    )
    with virtual_device("mi355x"):
        tuned[blocks](torch.zeros(COUNT), COUNT)
    assert pruning.ranking.kernel == "_two_constants"
    assert pruning.ranking.device.name == "mi355x"


@triton.jit
def _two_constants(values, count, BLOCK: triton.language.constexpr, BLOCK_IS_WAVE: triton.language.constexpr):
    index = triton.language.program_id(0) * BLOCK + triton.language.arange(0, BLOCK)
    triton.language.store(values + index, 1.0 if BLOCK_IS_WAVE else 2.0, mask=index < count)


def test_with_another_drivers_gpu_the_device_is_only_compiled_for_and_nothing_is_launched_on_the_gpu(
    other_driver: OtherDriver,
) -> None:
    pruning = Pruning(increment_kernel, device="mi300x")
    values = torch.zeros(COUNT)
    tuned = triton.autotune(configs=CONFIGS, key=["count"], prune_configs_by=pruning.hooks(top_k=1))(increment_kernel)
    tuned.nargs = {"values": values, "count": COUNT}
    left = tuned.prune_configs({"grid": blocks, "warmup": False})
    assert left == [pruning.ranking.best.config]
    assert bool((values == 0).all())
    assert triton.runtime.driver.active is other_driver
    assert other_driver.benchmarked == 0
    assert len(pruning.ranking.timed) == 2 and len(pruning.ranking.ruled_out) == 1


def test_pruning_alone_compiles_and_executes_nothing(other_driver: OtherDriver) -> None:
    pruning = Pruning(scale_kernel, device="mi300x")
    arguments = {"source": torch.ones(COUNT), "target": torch.zeros(COUNT), "count": COUNT, "factor": 2.0}
    left = pruning.early_config_prune(CONFIGS, arguments, grid=blocks, warmup=False)
    assert left == CONFIGS[:2]
    assert pruning.ranking.timed == ()
    assert all(item.usage is not None for item in pruning.ranking.candidates if item.ruled_out is None)


def test_when_nothing_is_left_the_error_says_what_ruled_each_out() -> None:
    pruning = Pruning(scale_kernel, device="mi300x")
    arguments = {"source": torch.ones(64), "target": torch.zeros(64), "count": 64, "factor": 2.0}
    with pytest.raises(LaunchError, match="BLOCK=2048 num_warps=32 .*wavefront size: 32 waves") as caught:
        pruning.early_config_prune(CONFIGS[2:], arguments, grid=blocks)
    assert "Limits" in caught.value.hint


def test_a_model_without_its_pruning_is_refused() -> None:
    with pytest.raises(LaunchError, match="early_config_prune") as caught:
        Pruning(scale_kernel, device="mi300x").perf_model(grid=blocks, BLOCK=64)
    assert "hooks()" in caught.value.hint
