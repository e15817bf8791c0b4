"""A number of workgroups on one compute unit: how long they take, and what their waves spend their time on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.timing.compute_unit.events import simulate
from wavecast.simulator.timing.compute_unit.layout import PARTS, TICKS_PER_CLK, Part, Size, Spent
from wavecast.simulator.timing.compute_unit.streams import Streams


@dataclass(frozen=True, slots=True)
class Filling:
    """How workgroups come to a compute unit.

    Attributes:
        slots: Workgroups that it holds at once.
        workgroups: That it is given altogether.
        simds: Its SIMDs.
        interval_clk: Cycles between the starts of two workgroups on it, at least.
        start_clk: Cycles from the start of a workgroup to its first instruction.
        lines: Lines that may be on their way to it at once.
        spread: Of memory latencies around their mean, as a part of it: evenly up to so much less and more.
    """

    slots: int
    workgroups: int
    simds: int
    interval_clk: float
    start_clk: float
    lines: int
    spread: float


@dataclass(frozen=True, slots=True)
class UnitTime:
    """What a simulation found; times in cycles.

    Attributes:
        finish_clk: When everything is done.
        ends_clk: float64 (workgroups,), when each workgroup ended, ascending.
        spent_clk: float64 (instructions, Spent), of all waves; the first column counts executions.
        parts_clk: What the time of all waves went to.
        workgroups: That were simulated.
    """

    finish_clk: float
    ends_clk: np.ndarray
    spent_clk: np.ndarray
    parts_clk: dict[Part, float]
    workgroups: int


def run_unit(streams: Streams, costs: np.ndarray, filling: Filling) -> UnitTime:
    """Simulate workgroups on one compute unit.

    Args:
        streams: A pool of workgroups, used in turn.
        costs: Of ``price``.
        filling: How many of them, and when they start.
    """
    sizes = np.zeros(len(Size), dtype=np.int64)
    sizes[Size.SLOTS], sizes[Size.WAVES], sizes[Size.WORKGROUPS] = filling.slots, streams.waves, filling.workgroups
    sizes[Size.SIMDS], sizes[Size.POOL], sizes[Size.LINES] = filling.simds, streams.workgroups, filling.lines
    sizes[Size.INTERVAL] = round(filling.interval_clk * TICKS_PER_CLK)
    sizes[Size.START] = round(filling.start_clk * TICKS_PER_CLK)
    sizes[Size.SPREAD] = round(filling.spread * 1024)
    starts, ends = (np.zeros(filling.workgroups, dtype=np.int64) for _ in range(2))
    spent = np.zeros((len(costs), len(Spent)), dtype=np.int64)
    parts = np.zeros(PARTS, dtype=np.int64)
    finish = simulate(
        streams.code,
        streams.again,
        streams.missing,
        streams.first,
        streams.last,
        costs,
        sizes,
        starts,
        ends,
        spent,
        parts,
    )
    spent_clk = spent / TICKS_PER_CLK
    spent_clk[:, Spent.EXECUTED] = spent[:, Spent.EXECUTED]
    return UnitTime(
        finish_clk=finish / TICKS_PER_CLK,
        ends_clk=np.sort(ends) / TICKS_PER_CLK,
        spent_clk=spent_clk,
        parts_clk={part: float(parts[part]) / TICKS_PER_CLK for part in Part},
        workgroups=filling.workgroups,
    )
