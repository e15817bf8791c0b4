"""The compiled loop over the address trace: counters, and one event for each line that a wave instruction touches."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit

from wavecast.simulator.traffic.caches import READ
from wavecast.simulator.traffic.channels import STEPS
from wavecast.simulator.traffic.coalescing import LINE_SHIFT, MAX_LINES, Count
from wavecast.simulator.traffic.shapes import Fact, Shapes, add_counts, bits_of, first_active, shape_of
from wavecast.simulator.traffic.tables import GLOBAL, UNTRACED, Column


class Cursor(IntEnum):
    """Where in the trace the loop is."""

    WORKGROUP = 0  # the last one seen
    CLUSTER = 1  # number of its cluster of consecutive workgroups
    SLOT = 2  # its place in the batch; -1 before the first
    EVENTS = 3  # events of the batch


def start_of_trace() -> np.ndarray:
    """A cursor before the first record."""
    cursor = np.zeros(len(Cursor), dtype=np.int64)
    cursor[Cursor.WORKGROUP], cursor[Cursor.SLOT] = -1, -1
    return cursor


@njit(cache=True)
def scan(
    instructions: np.ndarray,
    waves: np.ndarray,
    workgroups: np.ndarray,
    masks: np.ndarray,
    addresses: np.ndarray,
    columns: np.ndarray,
    phase_of_lane: np.ndarray,
    shapes: Shapes,
    counts: np.ndarray,
    order: np.ndarray,
    events: np.ndarray,
    clusters: np.ndarray,
    channels: np.ndarray,
    lines_per_interleave: Any,
    cursor: np.ndarray,
    window_end: Any,
) -> Any:
    """Count records and append their line accesses to the batch.

    Args:
        instructions: Static instruction of each record; the next four are the other fields of ``RECORD``.
        waves: int32.
        workgroups: int64.
        masks: uint64.
        addresses: uint64 (records, 64).
        columns: int64, of ``InstructionTables``.
        phase_of_lane: int64, of ``InstructionTables``.
        shapes: Remembered shapes.
        counts: int64 (instructions, COUNTS), added to.
        order: int64, next position in the memory stream of each wave.
        events: ``EVENT``, filled.
        clusters: int64, filled with the cluster of each workgroup of the batch.
        channels: int64 (XCDs, STEPS, channels), requests, added to.
        lines_per_interleave: Lines of one channel before the next has its turn.
        cursor: int64, one entry a ``Cursor``.
        window_end: First workgroup that is not co-resident with those of the batch.

    Returns:
        Records taken: all, unless the batch is full or the next workgroup is beyond the window.
    """
    xcds, ways = channels.shape[0], channels.shape[2]
    used = cursor[Cursor.EVENTS]
    for record in range(len(instructions)):
        workgroup = workgroups[record]
        if used + MAX_LINES > len(events) or workgroup >= window_end:
            cursor[Cursor.EVENTS] = used
            return record
        if workgroup != cursor[Cursor.WORKGROUP]:
            cursor[Cursor.CLUSTER] += workgroup != cursor[Cursor.WORKGROUP] + 1
            cursor[Cursor.WORKGROUP] = workgroup
            _join(cursor, clusters)
            order[:] = 0
        elif cursor[Cursor.SLOT] < 0:
            _join(cursor, clusters)
        index, address, exec_mask = instructions[record], addresses[record], masks[record]
        column, count = columns[index], counts[index]
        count[Count.EXECUTED] += 1
        if column[Column.SPACE] == UNTRACED:
            lanes = bits_of(exec_mask)
            count[Count.LANES] += lanes
            count[Count.BYTES] += lanes * column[Column.WIDTH] * column[Column.PIECES]
            continue
        base = address[first_active(exec_mask)]
        shape = shape_of(shapes, index, exec_mask, address, base, column, phase_of_lane[index])
        kind = column[Column.EVENT_KIND]
        is_read = column[Column.SPACE] == GLOBAL and kind == READ
        add_counts(count, shapes.facts[shape], column, is_read)
        if column[Column.SPACE] != GLOBAL:
            continue
        xcd, step = workgroup % xcds, order[waves[record]]
        lines, touched, weights = shapes.lines[shape], shapes.masks[shape], shapes.weights[shape]
        load = channels[xcd, step % STEPS]
        for position in range(shapes.facts[shape, Fact.LINES]):
            line = lines[position] + (base >> np.uint64(LINE_SHIFT))
            requests = 1 if is_read else weights[position]
            event = events[used]
            event["line"] = line
            event["low"], event["high"] = touched[position, 0], touched[position, 1]
            event["order"], event["instruction"] = step, index
            event["slot"], event["xcd"] = cursor[Cursor.SLOT], xcd
            event["kind"], event["requests"] = kind, requests
            load[int(np.uint32(line // np.uint64(lines_per_interleave)) % np.uint32(ways))] += requests
            used += 1
        order[waves[record]] = step + 1
    cursor[Cursor.EVENTS] = used
    return len(instructions)


@njit(cache=True)
def _join(cursor: np.ndarray, clusters: np.ndarray) -> Any:
    """Give the cursor's workgroup the next place in the batch."""
    cursor[Cursor.SLOT] += 1
    clusters[cursor[Cursor.SLOT]] = cursor[Cursor.CLUSTER]
