"""A launch that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field

import simpy

from wavecast.simulator.overlap.queues import Item


@dataclass(slots=True, eq=False)
class Running:
    """A launch that is under way.

    Attributes:
        item: Its place in the program.
        priority: Of its stream.
        arrived: Order of arrival.
        pending: Workgroups, or tiles of a grid that is not persistent, that have no unit yet.
        workgroups: All of them.
        most_units: Units that it may hold.
        tile_us: Time of a tile at full speed.
        tile_gb_s: What a tile moves.
        tiles: All tiles.
        finished: Event of its end.
        held: Units by shader engine.
        persistent: Whether workgroups keep their unit from tile to tile.
        waits: For each tile the signal that it waits for.
        waits_at_end: Whether it does so when it is computed, instead of before.
        signals: Pairs of a number of finished tiles and the signal that is then set.
        late: Signals and the workgroups that take their first tile when these are there, of those without a unit.
        joining: The same of those that hold a unit.
        shares: Workgroups that are still due on each engine; empty where any engine will do.
        next_tile: First tile that no workgroup has taken, of a persistent kernel.
        waiting: Since when each workgroup that holds a unit and a tile waits, by signal.
        done_tiles: Tiles that are finished.
        started_us: When its first workgroup got a unit.
        peak: Most units held at once.
        spun_us: Time that its workgroups waited for signals, summed.
    """

    item: Item
    priority: int
    arrived: int
    pending: int
    workgroups: int
    most_units: int
    tile_us: float
    tile_gb_s: float
    tiles: int
    finished: simpy.Event
    held: list[int]
    persistent: bool
    waits: tuple[int | None, ...] = ()
    waits_at_end: bool = False
    signals: tuple[tuple[int, int], ...] = ()
    late: list[tuple[int, int]] = field(default_factory=list)
    joining: dict[int, int] = field(default_factory=dict)
    shares: list[int] = field(default_factory=list)
    next_tile: int = 0
    waiting: dict[int, list[float]] = field(default_factory=dict)
    done_tiles: int = 0
    started_us: float | None = None
    peak: int = 0
    spun_us: float = 0.0

    @property
    def units(self) -> int:
        """Units that it holds."""
        return sum(self.held)
