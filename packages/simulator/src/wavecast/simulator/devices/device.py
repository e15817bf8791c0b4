"""A device: typed constants, and where each of them comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from wavecast.simulator.devices.constants import (
    L1,
    L2,
    Atomics,
    Combine,
    Compute,
    Fences,
    Hbm,
    Issue,
    Launch,
    Lds,
    Link,
    Mall,
    Matrix,
)


class Kind(StrEnum):
    """How a constant is known."""

    DATASHEET = "datasheet"
    MEASURED = "measured"
    DERIVED = "derived"
    FITTED = "fitted"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One constant as the device file states it.

    Attributes:
        value: The number that a prediction uses.
        unit: Its unit.
        kind: How it is known.
        sources: Public citations.
        low: Lower end of its range, or None where it counts as certain.
        high: Upper end of its range, or None.
        note: What a reader must know to judge it.
    """

    value: float
    unit: str
    kind: Kind
    sources: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def is_uncertain(self) -> bool:
        return self.low is not None and self.high is not None and self.low < self.high


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as the model sees it; built by ``load_device``.

    ``quantities`` maps ``"section.field"`` to the constant with its source; the sections hold the same values as plain
    numbers. ``link`` is None where nothing is known of the node that the device sits in.
    """

    name: str
    title: str
    arch: str
    compute: Compute
    issue: Issue
    matrix: Matrix
    lds: Lds
    l1: L1
    l2: L2
    mall: Mall
    hbm: Hbm
    launch: Launch
    atomics: Atomics
    fences: Fences
    combine: Combine
    quantities: Mapping[str, Quantity]
    link: Link | None = None

    @property
    def digest(self) -> str:
        """``mi300x-<12 hex digits>``: changes when any number or range changes, not when a note does."""
        text = "\n".join(
            f"{key}={quantity.value!r} {quantity.unit} {quantity.low!r} {quantity.high!r}"
            for key, quantity in sorted(self.quantities.items())
        )
        return f"{self.name}-{hashlib.sha256((self.arch + text).encode()).hexdigest()[:12]}"

    @property
    def clk_per_us(self) -> float:
        """Cycles in a microsecond at the peak clock."""
        return self.compute.clock_ghz * 1e3

    @property
    def has_mall(self) -> bool:
        """Whether there is a memory-side cache."""
        return self.mall.bytes > 0

    @property
    def l2_channels(self) -> int:
        """L2 channels of all XCDs."""
        return self.l2.channels_per_xcd * self.compute.num_xcd

    @property
    def write_segment_bytes(self) -> int:
        """What a write has to fill for the L2 to take it as it is."""
        return int(self.l2.sector_bytes or 64)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """Constants that have a range, in the order of the file, without those of links: they move no kernel's time."""
        return tuple(
            key for key, quantity in self.quantities.items() if quantity.is_uncertain and not key.startswith("link.")
        )

    @property
    def uncertain_links(self) -> tuple[str, ...]:
        """Constants of links and queues that have a range, in the order of the file."""
        return tuple(key for key, quantity in self.quantities.items() if quantity.is_uncertain and "link." in key)

    def with_value(self, key: str, value: float) -> Device:
        """This device with one constant changed, for sensitivity analysis.

        Args:
            key: ``"section.field"``.
            value: The new number, in the same unit.

        Raises:
            KeyError: if no constant has that name.
        """
        quantity = self.quantities[key]
        section, name = key.split(".")
        changed = replace(getattr(self, section), **{name: value})
        quantities = MappingProxyType({**self.quantities, key: replace(quantity, value=value)})
        return replace(self, quantities=quantities, **{section: changed})
