"""Costs of a kernel's instructions for many sets of constants, of which most do not matter to it.

A price depends on the constants that were read to find it, and on no others: sets that agree in those have the same
costs, and are not priced again. Which are read is seen while pricing, so nobody has to list them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from operator import attrgetter
from typing import Any, cast

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.compute_unit.costs import Demand, KernelForm, price


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Costs of every instruction, and what tells them from others.

    Attributes:
        ticks: Of ``price``.
        key: The same as bytes.
    """

    ticks: np.ndarray
    key: bytes


@dataclass(slots=True)
class _Known:
    """Costs that were found by reading the same constants, by these, the demand and the warm share."""

    read: Callable[[Device], Any]
    costs: dict[tuple[Any, Demand, float], Costs] = field(default_factory=dict)


class KnownCosts:
    """``price`` of one kernel, which remembers.

    Args:
        form: The kernel with its traffic.
    """

    def __init__(self, form: KernelForm) -> None:
        self._form = form
        self._known: dict[tuple[str, ...], _Known] = {}

    def price(self, device: Device, demand: Demand, *, warm: float) -> Costs:
        """Costs of every instruction; arguments as those of ``price``."""
        for known in self._known.values():
            found = known.costs.get((known.read(device), demand, warm))
            if found is not None:
                return found
        recorder = _Recorder(device)
        ticks = price(self._form, cast("Device", recorder), demand, warm=warm)
        costs = Costs(ticks, ticks.tobytes())
        names = tuple(sorted(recorder.names))
        known = self._known.setdefault(names, _Known(attrgetter(*names)))
        known.costs[known.read(device), demand, warm] = costs
        return costs


class _Recorder:
    """Stands for a device, and notes which of its constants are read."""

    def __init__(self, device: Any, names: set[str] | None = None, prefix: str = "") -> None:
        self._device, self._prefix = device, prefix
        self.names: set[str] = set() if names is None else names

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._device, name)
        if is_dataclass(value):
            return _Recorder(value, self.names, f"{self._prefix}{name}.")
        self.names.add(self._prefix + name)
        return value
