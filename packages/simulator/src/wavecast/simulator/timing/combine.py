"""From the times of the resources to the time of the launch."""

from __future__ import annotations

from collections.abc import Mapping

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.memory_time import busy_us, serial_us
from wavecast.simulator.timing.prediction import Bound

COMPUTE_UNIT = (Bound.ISSUE, Bound.LATENCY, Bound.LDS, Bound.L1)
"""Terms that add up to the time of the compute units."""


def combine_us(terms: Mapping[Bound, float], device: Device, *, norm: float | None = None) -> float:
    """Time of a launch, in µs; a function of its terms and of the device alone.

    The launch cost comes first. Then the compute units, the workgroup launcher and the shared memory system work at the
    same time: the slowest counts, and beside it the time in which they do not overlap, as the simulation found it. At
    the end the L2s write back what is still dirty in them.

    Args:
        terms: µs by resource, as in ``TimePrediction``; all but those that are 0.
        device: The constants.
        norm: Where no waves were simulated: resources that are busy at the same time lengthen one another as a norm
            with this exponent.
    """
    compute_us = sum(terms[name] for name in COMPUTE_UNIT)
    busy = [compute_us, terms[Bound.WORKGROUP_LAUNCH], *busy_us(terms)]
    busy_together_us = max(busy) if norm is None else _p_norm(busy, norm)
    working_us = busy_together_us + terms.get(Bound.OVERLAP, 0.0) + serial_us(terms)
    return terms[Bound.LAUNCH] + working_us * device.combine.residual


def _p_norm(values: list[float], p: float) -> float:
    largest = max(values)
    if largest <= 0:
        return 0.0
    return float(largest * sum((value / largest) ** p for value in values) ** (1 / p))
