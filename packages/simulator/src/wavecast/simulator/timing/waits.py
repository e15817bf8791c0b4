"""How long a wave waits for memory, read from its ``s_waitcnt`` instructions.

Memory counters retire in order: ``vmcnt(n)`` waits until at most ``n`` of the vector-memory instructions issued before
it are outstanding, ``lgkmcnt(n)`` the same for LDS and scalar loads. One pass through the text keeps a clock:
instructions advance it by their issue time, and a wait moves it on to the moment the awaited data arrive. So a second
wait for loads that were issued together costs nothing, and work between load and wait hides latency. What a loop
carries over its back edge is taken to equal what enters it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.opcodes import Unit, unit_of

_COUNTERS = {"vmcnt": (Unit.VECTOR_MEMORY,), "lgkmcnt": (Unit.LDS, Unit.SCALAR_MEMORY)}
_FIELD = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
# Invalidation holds the wave by itself; no counter waits for it.
_UNCOUNTED = ("buffer_inv",)


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """A ``s_waitcnt`` with something outstanding before it.

    Attributes:
        index: The waiting instruction.
        awaits: Memory instructions that must have arrived, in the order of issue.
    """

    index: int
    awaits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that holds the wave.

    Attributes:
        index: The waiting instruction.
        decided_by: The memory instruction that arrives last.
        clk: Cycles the wave stands still, each time it comes here.
    """

    index: int
    decided_by: int
    clk: float


def wait_points(kernel: Kernel) -> tuple[WaitPoint, ...]:
    """Every ``s_waitcnt`` of a kernel, with what it waits for."""
    outstanding: dict[str, list[int]] = {name: [] for name in _COUNTERS}
    points = []
    for instruction in kernel.instructions:
        unit = unit_of(instruction)
        for name, units in _COUNTERS.items():
            if unit in units and instruction.opcode not in _UNCOUNTED:
                outstanding[name].append(instruction.index)
        if instruction.opcode != "s_waitcnt":
            continue
        awaited: list[int] = []
        for name, left in _FIELD.findall(instruction.text):
            done = max(0, len(outstanding[name]) - int(left))
            awaited += outstanding[name][:done]
            outstanding[name] = outstanding[name][done:]
        if awaited:
            points.append(WaitPoint(instruction.index, tuple(awaited)))
    return tuple(points)


def exposed_waits(
    points: tuple[WaitPoint, ...], issue_clk: np.ndarray, *, latency_clk: Mapping[int, float]
) -> tuple[Wait, ...]:
    """Waits that issue does not hide.

    Args:
        points: Waits of the kernel.
        issue_clk: float64 per instruction, cycles it takes the wave to issue it.
        latency_clk: Latency of every awaited instruction, by its index.
    """
    issued = np.cumsum(issue_clk)
    stood_still = 0.0
    waited: dict[int, float] = {}  # by memory instruction, standstill before its issue
    waits = []
    starts = sorted({index for point in points for index in point.awaits})
    upcoming = iter(starts)
    pending = next(upcoming, None)
    for point in points:
        while pending is not None and pending < point.index:
            waited[pending] = stood_still
            pending = next(upcoming, None)
        arrivals = [(issued[index] + waited[index] + latency_clk[index], index) for index in point.awaits]
        arrival, decided_by = max(arrivals)
        now = issued[point.index] + stood_still
        if arrival > now:
            waits.append(Wait(point.index, decided_by, float(arrival - now)))
            stood_still += float(arrival - now)
    return tuple(waits)
