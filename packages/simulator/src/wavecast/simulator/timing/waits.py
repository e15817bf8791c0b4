"""How long a wave waits for memory, read from its ``s_waitcnt`` instructions.

Memory counters retire in order: ``vmcnt(n)`` waits until at most ``n`` of the vector-memory instructions issued before
it are outstanding, ``lgkmcnt(n)`` the same for LDS and scalar loads. One pass through the text keeps a clock:
instructions advance it by their issue time, and a wait moves it on to the moment the awaited data arrive. So a second
wait for loads that were issued together costs nothing, and work between load and wait hides latency. What a loop
carries over its back edge is taken to equal what enters it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.opcodes import Unit, issue_clk, unit_of

_COUNTERS = {"vmcnt": (Unit.VECTOR_MEMORY,), "lgkmcnt": (Unit.LDS, Unit.SCALAR_MEMORY)}
_FIELD = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
# Invalidation holds the wave by itself; no counter waits for it.
_UNCOUNTED = ("buffer_inv",)


@dataclass(frozen=True, slots=True)
class Wait:
    """A ``s_waitcnt`` that holds the wave.

    Attributes:
        index: The waiting instruction.
        decided_by: The memory instruction that arrives last.
        clk: Cycles the wave stands still, each time it comes here.
    """

    index: int
    decided_by: int
    clk: float


def exposed_waits(kernel: Kernel, device: Device, *, latency_clk: Callable[[int], float]) -> tuple[Wait, ...]:
    """Every wait of a kernel that is not hidden behind issue.

    Args:
        kernel: The code.
        device: Issue times.
        latency_clk: Latency of a memory instruction, by its index.
    """
    outstanding: dict[str, list[tuple[int, float]]] = {name: [] for name in _COUNTERS}
    now = 0.0
    waits = []
    for instruction in kernel.instructions:
        now += issue_clk(instruction, device)
        unit = unit_of(instruction)
        for name, units in _COUNTERS.items():
            if unit in units and instruction.opcode not in _UNCOUNTED:
                outstanding[name].append((instruction.index, now + latency_clk(instruction.index)))
        if instruction.opcode != "s_waitcnt":
            continue
        awaited: list[tuple[int, float]] = []
        for name, left in _FIELD.findall(instruction.text):
            done = max(0, len(outstanding[name]) - int(left))
            awaited += outstanding[name][:done]
            outstanding[name] = outstanding[name][done:]
        if awaited:
            index, arrival = max(awaited, key=lambda entry: entry[1])
            if arrival > now:
                waits.append(Wait(instruction.index, index, arrival - now))
                now = arrival
    return tuple(waits)
