"""Whether two predictions differ by more than what is not known about both."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wavecast.simulator.devices import Device, Kind
from wavecast.simulator.timing import TimePrediction

# Benchmarks of one kernel, repeated, spread by 0.6 to 2.3 % (docs/evidence, H200).
RESOLUTION = 0.02
_SAMPLING = "sampling"


@dataclass(frozen=True, slots=True)
class Difference:
    """How much longer one launch takes than another.

    Attributes:
        ratio: Its time over that of the other.
        low: Lower end of the ratio's interval.
        high: Upper end.
        resolution: Relative difference that a benchmark tells from none.
    """

    ratio: float
    low: float
    high: float
    resolution: float

    @property
    def is_measurable(self) -> bool:
        """Whether the whole interval lies beyond the resolution, on one side."""
        return self.low > 1 + self.resolution or self.high * (1 + self.resolution) < 1


def difference(
    time: TimePrediction, other: TimePrediction, device: Device, *, resolution: float = RESOLUTION
) -> Difference:
    """Compare two predictions on one device.

    A constant that is uncertain has one true value, the same for both launches: what it does to both alike cancels, and
    only what it does to the ratio counts. Measured and fitted constants err independently, so their effects on the
    logarithm of the ratio are added in quadrature; those of derived ones, about which nothing is known, are added as
    they are. The errors of the two samples are independent of each other.

    Args:
        time: Prediction of the one.
        other: Prediction of the other.
        device: The device of both.
        resolution: Relative difference that a benchmark tells from none.

    Raises:
        ValueError: if one of them was made for another device.
    """
    if {time.device, other.device} != {device.digest}:
        raise ValueError(f"predictions for {time.device} and {other.device} compared on {device.digest}")
    point = math.log(time.predicted_us / other.predicted_us)
    ours, theirs = _ends(time), _ends(other)
    down = up = together_down = together_up = 0.0
    for constant in ours.keys() | theirs.keys():
        pair = _pair(ours, constant, time), _pair(theirs, constant, other)
        if constant == _SAMPLING:
            effects = [
                sign * math.log(ends[1] / middle.predicted_us)
                for ends, middle in zip(pair, (time, other), strict=True)
                for sign in (-1, 1)
            ]
            down += sum(min(0.0, effect) ** 2 for effect in effects)
            up += sum(max(0.0, effect) ** 2 for effect in effects)
            continue
        effects = [math.log(mine / yours) - point for mine, yours in zip(*pair, strict=True)]
        quantity = device.quantities.get(constant)
        if quantity is not None and quantity.kind is Kind.DERIVED:
            together_down += min(0.0, *effects)
            together_up += max(0.0, *effects)
        else:
            down += min(0.0, *effects) ** 2
            up += max(0.0, *effects) ** 2
    low = point - math.hypot(together_down, math.sqrt(down))
    high = point + math.hypot(together_up, math.sqrt(up))
    return Difference(math.exp(point), math.exp(low), math.exp(high), resolution)


def _ends(time: TimePrediction) -> dict[str, tuple[float, float]]:
    return {entry.constant: (entry.low_us, entry.high_us) for entry in time.sensitivity}


def _pair(ends: dict[str, tuple[float, float]], constant: str, time: TimePrediction) -> tuple[float, float]:
    """Times at both ends of a constant; one that moves nothing is not listed."""
    return ends.get(constant, (time.predicted_us, time.predicted_us))
