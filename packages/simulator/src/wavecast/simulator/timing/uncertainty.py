"""How far uncertain constants move a predicted time, and the interval that follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wavecast.simulator.devices import Device, Kind
from wavecast.simulator.timing.prediction import Sensitivity

_NEGLIGIBLE = 1e-4


def sensitivities(
    time_us: Callable[[Device], float],
    device: Device,
    *,
    point_us: float,
    others: Sequence[Sensitivity] = (),
    keys: Sequence[str] | None = None,
) -> tuple[Sensitivity, ...]:
    """Move each uncertain constant to the ends of its range, alone.

    Args:
        time_us: The prediction for a set of constants.
        device: The constants.
        point_us: The prediction for ``device``.
        others: What moves the result besides constants.
        keys: Constants to move; None: the uncertain ones of one GPU.

    Returns:
        Those that move the result, the strongest first.
    """
    moved = list(others)
    for key in device.uncertain if keys is None else keys:
        quantity = device.quantities[key]
        ends = [time_us(device.with_value(key, value)) for value in (quantity.low, quantity.high) if value is not None]
        moved.append(Sensitivity(key, *ends))
    relevant = [entry for entry in moved if entry.spread_us > _NEGLIGIBLE * point_us]
    return tuple(sorted(relevant, key=lambda entry: -entry.spread_us))


def interval(
    time_us: Callable[[Device], float], device: Device, moved: Sequence[Sensitivity], *, point_us: float
) -> tuple[float, float]:
    """Lower and upper end of a prediction.

    Measured and fitted constants err independently. Derived ones are bounds of what nobody has measured, about which
    nothing says that they do not all lie at the bad end: they move together. The logarithms of the ratios to the point
    are added in quadrature, upward and downward apart.

    Args:
        time_us: The prediction for a set of constants.
        device: The constants.
        moved: From ``sensitivities``.
        point_us: The prediction for ``device``.
    """
    derived = [entry for entry in moved if _is_derived(entry, device)]
    ends = [(entry.low_us, entry.high_us) for entry in moved if entry not in derived]
    if derived:
        ends.append(_together(time_us, device, derived))
    down = up = 0.0
    for pair in ends:
        ratios = [math.log(end / point_us) for end in pair]
        down += min(0.0, *ratios) ** 2
        up += max(0.0, *ratios) ** 2
    return point_us * math.exp(-math.sqrt(down)), point_us * math.exp(math.sqrt(up))


def _is_derived(entry: Sensitivity, device: Device) -> bool:
    quantity = device.quantities.get(entry.constant)
    return quantity is not None and quantity.kind is Kind.DERIVED


def _together(
    time_us: Callable[[Device], float], device: Device, derived: Sequence[Sensitivity]
) -> tuple[float, float]:
    """Ends with every derived constant at the end that makes the launch fastest, and slowest."""
    fast = slow = device
    for entry in derived:
        quantity = device.quantities[entry.constant]
        low, high = (value if value is not None else quantity.value for value in (quantity.low, quantity.high))
        rises = entry.low_us <= entry.high_us
        fast = fast.with_value(entry.constant, low if rises else high)
        slow = slow.with_value(entry.constant, high if rises else low)
    return time_us(fast), time_us(slow)
