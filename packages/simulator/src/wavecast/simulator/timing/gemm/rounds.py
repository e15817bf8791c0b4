"""Tiles onto compute units: rounds, and the last one that fills only some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.timing.gemm.problem import GemmProblem
from wavecast.simulator.timing.gemm.tile import Configuration
from wavecast.simulator.timing.schedule import list_schedule


@dataclass(frozen=True, slots=True)
class Rounds:
    """Work of the compute unit that finishes last.

    Attributes:
        steps: Steps of the main loop that it executes, one workgroup's after the other's.
        tiles: Workgroups that it executes.
        resident: Workgroups that it holds at once.
    """

    steps: float
    tiles: float
    resident: int


def count_rounds(
    problem: GemmProblem, configuration: Configuration, device: Device, *, quantized: bool = True
) -> Rounds:
    """Share out the workgroups of a launch.

    They go to XCDs in turn and there to the compute unit that is free first. With equal depths that gives every compute
    unit the same number but for the last round; ragged depths are scheduled one by one.

    Args:
        problem: What is computed.
        configuration: Its tiles.
        device: Compute units.
        quantized: False: as if tiles could be cut at will: no partial tiles at the edges, no partial last round.
    """
    tile, units, xcds = configuration.tile, device.compute.num_cu, device.compute.num_xcd
    count = configuration.workgroups(problem)
    fitting = min(configuration.workgroups_per_cu, tile.per_compute_unit(device))
    resident = max(1, min(fitting, -(-count // units)))
    work = [
        (shape, np.prod(configuration.grid(shape)), configuration.steps(shape, problem.bits))
        for shape in problem.groups
    ]
    if not quantized:
        steps = problem.flop / (2 * tile.m * tile.n * tile.k(problem.bits))
        tiles = sum(shape.m * shape.n for shape in problem.groups if shape.flop) / (tile.m * tile.n)
        return Rounds(steps / units, tiles * configuration.split_k / units, resident)
    total = float(sum(number * steps for _, number, steps in work)) * configuration.split_k
    if configuration.stream_k:
        return Rounds(float(np.ceil(total / units)), max(1.0, count / units), resident)
    each = np.concatenate([np.full(int(number) * configuration.split_k, steps) for _, number, steps in work])
    if np.ptp(each) == 0:
        on_fullest = -(-count // xcds)
        tiles = -(-on_fullest // (units // xcds))
        return Rounds(float(tiles * each[0]), float(tiles), resident)
    schedule = list_schedule(each.astype(np.float64), slots=units)
    longest = (schedule.filled + schedule.tail) * float(each.mean())
    return Rounds(longest, longest / float(each.mean()), resident)
