"""What fitting does: the model without it, and each benchmark predicted with constants fitted without it.

Constants are fitted on streaming kernels and chains of short launches, the benchmarks that are close to
microbenchmarks; the others never enter a fit. How a program's time follows a constant is known from the prediction's
sensitivity: its times at both ends of the constant's range. In between, and as far again beyond, logarithms are
interpolated linearly; constants act one by one.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from price import Variant

from wavecast.cli.scores import Point
from wavecast.simulator.devices import Device

UNCALIBRATED = Path(__file__).with_name("uncalibrated.toml")
# By device: constants that the benchmarks' data fit or pin, and the benchmarks they are fitted on.
_LAUNCH = ("launch.first_us", "launch.back_to_back_us", "launch.workgroup_clk")
FITTED = {
    "mi300a": (*_LAUNCH, "launch.submit_us", "mall.mixed_tb_s", "mall.fill_share", "hbm.mixed_tb_s"),
    "mi300x": (*_LAUNCH, "launch.alone_us", "mall.mixed_tb_s"),
}
FITTED_ON = {
    "mi300a": (
        "bitonicsort",
        "fastwalshtransform",
        "floydwarshall",
        "matrixtranspose",
        "memcopy_d2d",
        "relu",
        "vectoradd",
    ),
    "mi300x": ("memory_bandwidth", "rodinia_pathfinder", "shoc_triad"),
}
_STEPS = 81
_SWEEPS = 12
# Of the mean error, for a step away from the device file: decides where the data do not.
_PULL = 1e-7


@dataclass(frozen=True, slots=True)
class Response:
    """How a program's time follows the fitted constants.

    Attributes:
        point: Its prediction with the device file's constants.
        ends: Logarithms of the time's ratio to the point at the lower and upper end of each constant's range.
    """

    point: Point
    ends: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Fold:
    """A fit without one benchmark.

    Attributes:
        left_out: The benchmark; empty if none is.
        constants: Fitted values.
    """

    left_out: str
    constants: Mapping[str, float]


def uncalibrated(device: str) -> Variant:
    """The device with every constant that the benchmarks' data fitted replaced by a published or datasheet value."""
    table = tomllib.loads(UNCALIBRATED.read_text())[device]
    return Variant(device, tuple((key, float(entry["value"])) for key, entry in table.items()))


def refit(responses: Sequence[Response], device: Device, *, left_out: str = "") -> Fold:
    """Fit the constants on all benchmarks of ``FITTED_ON`` but one.

    The mean absolute logarithm of the errors becomes least, every benchmark weighing alike. What the benchmarks do not
    depend on stays as the device file has it.
    """
    keys, wanted = FITTED[device.name], FITTED_ON[device.name]
    used = [entry for entry in responses if entry.point.benchmark in wanted and entry.point.benchmark != left_out]
    names = [entry.point.benchmark for entry in used]
    weights = np.array([1 / names.count(name) for name in names])
    missing = np.array([math.log(entry.point.predicted_us / entry.point.measured_us) for entry in used])
    moves = {key: np.array([_moves(entry, key) for entry in used]).reshape(len(used), _STEPS) for key in keys}
    pull = _PULL * np.abs(np.arange(_STEPS) - _STEPS // 2)
    chosen = dict.fromkeys(keys, _STEPS // 2)
    for _ in range(_SWEEPS):
        before = dict(chosen)
        for key in keys:
            others = missing + sum(moves[other][:, chosen[other]] for other in keys if other != key)
            chosen[key] = int(np.argmin(weights @ np.abs(others[:, None] + moves[key]) + pull))
        if chosen == before:
            break
    return Fold(left_out, {key: float(_grid(device, key)[chosen[key]]) for key in keys})


def refitted(response: Response, fold: Fold, device: Device) -> Point:
    """The program's prediction with a fold's constants, its interval moved with it."""
    log = 0.0
    for key, value in fold.constants.items():
        position = int(np.argmin(np.abs(_grid(device, key) - value)))
        log += float(_moves(response, key)[position])
    factor, point = math.exp(log), response.point
    return Point(
        point.dataset,
        point.benchmark,
        point.label,
        point.measured_us,
        point.predicted_us * factor,
        point.low_us * factor,
        point.high_us * factor,
    )


def leave_one_out(responses: Sequence[Response], device: Device) -> tuple[list[Point], list[Fold]]:
    """Each benchmark predicted with constants that were fitted without it; points in the order given."""
    names = dict.fromkeys(entry.point.benchmark for entry in responses)
    folds = {name: refit(responses, device, left_out=name) for name in names}
    return [refitted(entry, folds[entry.point.benchmark], device) for entry in responses], list(folds.values())


def _grid(device: Device, key: str) -> np.ndarray:
    """Values from as far below the range as it reaches below the value, to as far above, even in logarithms."""
    low, value, high = _range(device, key)
    below = np.exp(np.linspace(math.log(low / value) * 2, 0, _STEPS // 2 + 1))
    above = np.exp(np.linspace(0, math.log(high / value) * 2, _STEPS // 2 + 1))
    return value * np.concatenate([below, above[1:]])


def _moves(response: Response, key: str) -> np.ndarray:
    """Logarithm of the time's ratio to the point, at each value of the grid."""
    low, high = response.ends.get(key, (0.0, 0.0))
    return np.concatenate([np.linspace(2 * low, 0, _STEPS // 2 + 1), np.linspace(0, 2 * high, _STEPS // 2 + 1)[1:]])


def _range(device: Device, key: str) -> tuple[float, float, float]:
    quantity = device.quantities[key]
    if quantity.low is None or quantity.high is None or not quantity.low < quantity.value < quantity.high:
        raise ValueError(f"{device.name}: {key} has no range on both sides of its value, so it cannot be fitted")
    return quantity.low, quantity.value, quantity.high
