from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from calibrate import FITTED, Response, leave_one_out, refit, refitted, uncalibrated

from wavecast.cli.scores import Point
from wavecast.simulator.devices import load_device

DEVICE = load_device("mi300a")


def response(benchmark: str, measured: float, predicted: float, **ends: tuple[float, float]) -> Response:
    point = Point("mi300a", benchmark, "1", measured, predicted, predicted / 2, predicted * 2)
    return Response(point, {key.replace("__", "."): value for key, value in ends.items()})


def memory_bound(benchmark: str, measured: float, predicted: float) -> Response:
    """A time that is inverse to the bandwidth of the memory-side cache."""
    quantity = DEVICE.quantities["mall.mixed_tb_s"]
    assert quantity.low and quantity.high
    ends = (math.log(quantity.value / quantity.low), math.log(quantity.value / quantity.high))
    return response(benchmark, measured, predicted, mall__mixed_tb_s=ends)


def test_a_bandwidth_is_found_again() -> None:
    value = DEVICE.mall.mixed_tb_s
    fold = refit([memory_bound("relu", 100 / 1.02, 100), memory_bound("vectoradd", 300 / 1.02, 300)], DEVICE)
    assert fold.constants["mall.mixed_tb_s"] == pytest.approx(value * 1.02, rel=2e-3)
    assert {key: fold.constants[key] for key in FITTED["mi300a"] if key != "mall.mixed_tb_s"} == {
        key: DEVICE.quantities[key].value for key in FITTED["mi300a"] if key != "mall.mixed_tb_s"
    }


def test_a_benchmark_does_not_enter_its_own_fit() -> None:
    responses = [memory_bound("relu", 100 / 1.02, 100), memory_bound("vectoradd", 100 * 1.02, 100)]
    points, folds = leave_one_out(responses, DEVICE)
    assert [fold.left_out for fold in folds] == ["relu", "vectoradd"]
    # Each is predicted with the other's bandwidth, so that its error doubles.
    assert points[0].predicted_us == pytest.approx(102, rel=2e-3)
    assert points[1].predicted_us == pytest.approx(100 / 1.02, rel=2e-3)
    assert points[0].high_us / points[0].low_us == pytest.approx(4)


def test_other_benchmarks_than_those_named_never_enter_a_fit() -> None:
    fold = refit([memory_bound("kmeans", 200, 100), memory_bound("relu", 100, 100)], DEVICE)
    assert fold.constants["mall.mixed_tb_s"] == DEVICE.mall.mixed_tb_s


def test_a_constant_without_effect_changes_nothing() -> None:
    entry = response("relu", 100, 100)
    assert refitted(entry, refit([entry], DEVICE), DEVICE) == entry.point


@pytest.mark.parametrize("name", ["mi300a", "mi300x"])
def test_nothing_that_the_data_fitted_is_left_without_calibration(name: str) -> None:
    device = load_device(name)
    plain = uncalibrated(name).build()
    own = {
        key
        for key, quantity in device.quantities.items()
        if quantity.kind in ("fitted", "measured") and all("mgpusim" in source for source in quantity.sources)
    }
    replaced = {key for key in own if plain.quantities[key].value != device.quantities[key].value}
    # The residual widens intervals and moves no point.
    assert own - replaced <= {"combine.residual"}
