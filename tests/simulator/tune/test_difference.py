"""Two predictions differ measurably if what they do not know in common leaves a difference beyond a benchmark's."""

from __future__ import annotations

import math
from types import MappingProxyType

import pytest

from wavecast.simulator.devices import Kind, load_device
from wavecast.simulator.timing import Bound, Sensitivity, TimePrediction
from wavecast.simulator.traffic import Residency
from wavecast.simulator.traffic.residency import Limiter
from wavecast.simulator.tune import difference

DEVICE = load_device("mi300x")
MEASURED, ALSO_MEASURED = [key for key in DEVICE.uncertain if DEVICE.quantities[key].kind is not Kind.DERIVED][:2]
DERIVED, ALSO_DERIVED = [key for key in DEVICE.uncertain if DEVICE.quantities[key].kind is Kind.DERIVED][:2]


def prediction(us: float, **ends: tuple[float, float]) -> TimePrediction:
    """A time whose constants ``ends`` make it that many times as long at their lower and upper end."""
    moved = tuple(Sensitivity(key.replace("__", "."), us * low, us * high) for key, (low, high) in ends.items())
    residency = Residency(4, 1, 1, Limiter.LDS)
    return TimePrediction(
        predicted_us=us,
        low_us=us / 2,
        high_us=us * 2,
        bound=Bound.HBM,
        cause="",
        terms=MappingProxyType({}),
        compute_unit_us=us,
        working_us=us,
        wave_clk=1.0,
        residency=residency,
        instruction_clk=(),
        sensitivity=moved,
        device=DEVICE.digest,
    )


def named(key: str) -> str:
    return key.replace(".", "__")


def test_a_constant_that_moves_both_alike_cancels() -> None:
    ends = {named(MEASURED): (0.5, 2.0), named(DERIVED): (0.4, 3.0)}
    found = difference(prediction(110, **ends), prediction(100, **ends), DEVICE)
    assert found.ratio == pytest.approx(1.1)
    assert found.low == pytest.approx(1.1) == found.high
    assert found.is_measurable


def test_what_moves_one_only_stays_and_measured_constants_add_in_quadrature() -> None:
    slow = prediction(110, **{named(MEASURED): (0.9, 1.2)})
    fast = prediction(100, **{named(ALSO_MEASURED): (0.8, 1.1)})
    found = difference(slow, fast, DEVICE)
    up = math.hypot(math.log(1.2), -math.log(0.8))
    down = math.hypot(math.log(0.9), math.log(1.1))
    assert found.high == pytest.approx(1.1 * math.exp(up))
    assert found.low == pytest.approx(1.1 * math.exp(-down))
    assert not found.is_measurable


def test_derived_constants_add_as_they_are() -> None:
    slow = prediction(110, **{named(DERIVED): (1.0, 1.2), named(ALSO_DERIVED): (0.9, 1.1)})
    found = difference(slow, prediction(100), DEVICE)
    assert found.high == pytest.approx(1.1 * 1.2 * 1.1)
    assert found.low == pytest.approx(1.1 * 0.9)


def test_errors_of_two_samples_do_not_cancel() -> None:
    ends = {"sampling": (1 / 1.1, 1.1)}
    found = difference(prediction(100, **ends), prediction(100, **ends), DEVICE)
    assert found.high == pytest.approx(math.exp(math.sqrt(2) * math.log(1.1))) == 1 / found.low
    assert not found.is_measurable


@pytest.mark.parametrize(("us", "measurable"), [(101, False), (103, True), (99, False), (97, True)])
def test_less_than_a_benchmark_resolves_is_no_difference(us: float, measurable: bool) -> None:
    assert difference(prediction(us), prediction(100), DEVICE).is_measurable == measurable


def test_predictions_for_two_devices_are_not_compared() -> None:
    with pytest.raises(ValueError, match="compared"):
        difference(prediction(1), prediction(1), load_device("mi355x"))
