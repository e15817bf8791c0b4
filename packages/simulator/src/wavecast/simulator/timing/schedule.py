"""Workgroups onto compute units: full rounds, and the tail in which units stand idle."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Schedule:
    """A list schedule in units of the mean workgroup.

    Attributes:
        filled: Time until the last workgroup starts: before it every slot is busy.
        tail: Time from then until the last one ends.
        tail_workgroups: Mean number of workgroups that run in the tail, over the whole device.
    """

    filled: float
    tail: float
    tail_workgroups: float


def list_schedule(work: np.ndarray, *, slots: int) -> Schedule:
    """Give each workgroup in turn to the slot that is free first.

    Args:
        work: Positive, relative work of each workgroup, in dispatch order.
        slots: Workgroups that run at once.

    Raises:
        ValueError: without workgroups or slots.
    """
    if len(work) < 1 or slots < 1:
        raise ValueError(f"{len(work)} workgroups on {slots} slots; wanted at least one of each")
    relative = np.asarray(work, dtype=np.float64) / float(np.mean(work))
    if len(relative) <= slots:
        longest = float(relative.max())
        return Schedule(0.0, longest, len(relative) / longest)
    ends = [float(value) for value in relative[:slots]]
    heapq.heapify(ends)
    start = 0.0
    for value in relative[slots:]:
        start = ends[0]
        heapq.heapreplace(ends, start + float(value))
    tail = max(ends) - start
    left = sum(max(0.0, end - start) for end in ends)
    return Schedule(start, tail, left / tail)
