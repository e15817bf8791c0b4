"""L1 of a compute unit, a workgroup at a time.

Reads allocate, writes go through. The resident workgroups share the capacity evenly, so none sees what another does,
and its reads can be filtered as soon as it has run. L1 is too small to follow a part of the lines only: it sees all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.devices import Device
from wavecast.simulator.traffic.caches import (
    ATOMIC,
    EMPTY,
    READ,
    READ_FROM_L1,
    WAYS,
    Level,
    find_way,
    in_step,
    is_followed,
    set_of,
)


def empty_l1(device: Device, workgroups_per_cu: int) -> np.ndarray:
    """The part of an L1 that one workgroup has.

    Args:
        device: Sizes.
        workgroups_per_cu: Workgroups that share it.

    Returns:
        uint64 (2, sets, ways): line numbers, and when they were used last.
    """
    lines = max(1, device.l1.bytes_per_cu // device.l1.line_bytes // workgroups_per_cu)
    ways = min(WAYS, lines)
    l1 = np.zeros((2, lines // ways, ways), dtype=np.uint64)
    clear(l1)
    return l1


@compiled
def clear(l1: np.ndarray) -> Any:
    """Forget all lines."""
    l1[0] = EMPTY
    l1[1] = 0


@compiled
def settle(l1: np.ndarray, events: np.ndarray, first: Any, last: Any, levels: np.ndarray, stride: Any) -> Any:
    """Send the reads of a workgroup through its L1, wave beside wave, and drop the lines that are not followed.

    Args:
        l1: Of ``empty_l1``.
        events: ``EVENT``; reads that hit become ``READ_FROM_L1``, and what is left moves to the front.
        first: First event of the workgroup.
        last: One beyond its last.
        levels: int64 (instructions, LEVELS), added to.
        stride: One line in so many is followed.

    Returns:
        One beyond the last event that is left.
    """
    part = events[first:last]
    tags, used = l1[0], l1[1]
    now = np.uint64(0)
    for index in range(used.shape[0]):
        for way in range(used.shape[1]):
            now = max(now, used[index, way])
    for position in in_step(part["order"]):
        event = part[position]
        if event["kind"] != READ:
            continue
        now += np.uint64(1)
        line = event["line"]
        index = set_of(line, tags.shape[0])
        way, hit = find_way(tags[index], used[index], line, now)
        if hit:
            levels[event["instruction"], Level.L1_HITS] += 1
            event["kind"] = READ_FROM_L1
        else:
            levels[event["instruction"], Level.L2_REQUESTS] += 1
            tags[index, way] = line
    return first + thin_out(part, stride)


@compiled
def thin_out(events: np.ndarray, stride: Any) -> Any:
    """Keep the lines that are followed, and all atomics; returns the number of events left, which move to the front."""
    kept = 0
    for position in range(len(events)):
        if events[position]["kind"] == ATOMIC or is_followed(events[position]["line"], stride):
            events[kept] = events[position]
            kept += 1
    return kept
