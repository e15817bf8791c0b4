"""The compiled loop over the address trace: counters, and one event for each line that a wave instruction touches."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing
from wavecast.simulator.execute.trace import RECORD
from wavecast.simulator.traffic.caches import READ, ROUNDS, WRITE, is_followed
from wavecast.simulator.traffic.channels import STEPS, add_requests
from wavecast.simulator.traffic.coalescing import LINE_SHIFT, MAX_LINES, Count
from wavecast.simulator.traffic.l1 import clear, send_all_written, settle
from wavecast.simulator.traffic.shapes import (
    Fact,
    Shapes,
    add_counts,
    bits_of,
    describe,
    first_active,
    is_known,
    row_of,
)
from wavecast.simulator.traffic.tables import GLOBAL, LDS, UNTRACED, Column

# Words of a record before the addresses, which are its last ones.
FIRST_ADDRESS = RECORD.itemsize // 8 - 64


class Cursor(IntEnum):
    """Where in the trace the loop is."""

    WORKGROUP = 0  # the last one seen
    SLOT = 1  # its place in the batch; -1 before the first
    EVENTS = 2  # events of the batch
    SETTLED = 3  # those that have been through L1
    STEPS = 4  # of their memory streams that waves of this window have taken, at most


def start_of_trace() -> np.ndarray:
    """A cursor before the first record."""
    cursor = np.zeros(len(Cursor), dtype=np.int64)
    cursor[Cursor.WORKGROUP], cursor[Cursor.SLOT] = -1, -1
    return cursor


@compiled_borrowing
def scan(
    instructions: np.ndarray,
    waves: np.ndarray,
    workgroups: np.ndarray,
    masks: np.ndarray,
    words: np.ndarray,
    columns: np.ndarray,
    phase_of_lane: np.ndarray,
    shapes: Shapes,
    counts: np.ndarray,
    order: np.ndarray,
    rounds: np.ndarray,
    l1: np.ndarray,
    levels: np.ndarray,
    rows: np.ndarray,
    misses: np.ndarray,
    events: np.ndarray,
    slots: np.ndarray,
    channels: np.ndarray,
    maps: np.ndarray,
    cursor: np.ndarray,
    window_end: Any,
    stride: Any,
    is_sectored: Any = False,
    is_hashed: Any = False,
) -> Any:
    """Count records and append their line accesses to the batch.

    Args:
        instructions: int32, field of ``RECORD``.
        waves: int32, field of ``RECORD``.
        workgroups: int64, field of ``RECORD``.
        masks: uint64, field of ``RECORD``.
        words: uint64 (records, words of a record), the same records; contiguous, so that the compiler can work on
            several addresses at once.
        columns: int64, of ``InstructionTables``.
        phase_of_lane: int64, of ``InstructionTables``.
        shapes: Remembered shapes.
        counts: int64 (instructions, COUNTS), added to.
        order: int64, next position in the memory stream of each wave.
        rounds: int64 (waves, rows), how often each wave has executed each of the loads that ``rows`` numbers.
        l1: L1 of the last workgroup.
        levels: int64 (instructions, LEVELS), added to as far as L1 goes.
        rows: int64, row of each static instruction in ``rounds`` and ``misses``; -1 for none.
        misses: Of ``settle``, added to.
        events: ``EVENT``, filled.
        slots: int64, filled with the workgroups of the batch.
        channels: int32 (XCDs, STEPS, maps, channels), requests, added to.
        maps: int64 (maps, fields), of ``ChannelLoad``.
        cursor: int64, one entry a ``Cursor``.
        window_end: First workgroup that is not co-resident with those of the batch.
        stride: One line in so many is followed.
        is_sectored: Whether reads bring in sectors, see ``settle``.
        is_hashed: Of ``l1_set_of``.

    Returns:
        Records taken: all, unless the batch is full or the next workgroup is beyond the window.
    """
    xcds = channels.shape[0]
    facts, execs, distance, active = shapes.facts, shapes.exec, shapes.distance, shapes.active
    lines, touched, weights = shapes.lines, shapes.masks, shapes.weights
    used = cursor[Cursor.EVENTS]
    for record in range(len(instructions)):
        workgroup = workgroups[record]
        if used + MAX_LINES > len(events) or workgroup >= window_end:
            cursor[Cursor.EVENTS] = used
            return record
        if workgroup != cursor[Cursor.WORKGROUP]:
            used = settle(
                l1, events, cursor[Cursor.SETTLED], used, levels, rows, misses, stride, is_sectored, is_hashed
            )
            cursor[Cursor.SETTLED] = used
            if is_sectored:
                send_all_written(l1, levels)
            clear(l1)
            cursor[Cursor.WORKGROUP] = workgroup
            _join(cursor, slots)
            order[:] = 0
            rounds[:] = 0
        elif cursor[Cursor.SLOT] < 0:
            _join(cursor, slots)
        index, exec_mask = instructions[record], masks[record]
        counts[index, Count.EXECUTED] += 1
        space, kind = columns[index, Column.SPACE], columns[index, Column.EVENT_KIND]
        if space == UNTRACED:
            lanes = bits_of(exec_mask)
            counts[index, Count.LANES] += lanes
            counts[index, Count.BYTES] += lanes * columns[index, Column.WIDTH] * columns[index, Column.PIECES]
            continue
        address = words[record, FIRST_ADDRESS:]
        base = address[first_active(exec_mask)]
        phase = np.int64(base & np.uint64(3 if space == LDS else 127))
        row = row_of(index, exec_mask, phase, len(execs))
        if not is_known(facts, execs, distance, active, row, index, exec_mask, phase, address, base):
            describe(shapes, row, index, exec_mask, phase, address, base, columns[index], phase_of_lane[index])
        is_read = space == GLOBAL and kind == READ
        add_counts(counts, facts, columns, index, row, is_read)
        if space != GLOBAL:
            continue
        wave, before = waves[record], 0
        if rows[index] >= 0:
            before = rounds[wave, rows[index]]
            rounds[wave, rows[index]] = min(before + 1, ROUNDS - 1)
        xcd, step, first_line = workgroup % xcds, order[wave], base >> np.uint64(LINE_SHIFT)
        touching = facts[row, Fact.LINES]
        add_requests(channels[xcd, step % STEPS], maps, lines[row], weights[row], touching, first_line, is_read)
        for position in range(touching):
            line = lines[row, position] + first_line
            if kind == WRITE and not is_followed(line, stride):
                continue
            event = events[used]
            event["line"] = line
            event["low"], event["high"] = touched[row, position, 0], touched[row, position, 1]
            event["order"], event["instruction"] = step, index
            event["slot"], event["xcd"], event["kind"] = cursor[Cursor.SLOT], xcd, kind
            event["wave"], event["round"] = wave, before
            used += 1
        order[wave] = step + 1
        cursor[Cursor.STEPS] = max(cursor[Cursor.STEPS], step + 1)
    cursor[Cursor.EVENTS] = used
    return len(instructions)


def words_of(records: np.ndarray) -> np.ndarray:
    """Records as contiguous uint64 (records, words); a copy only if they are not laid out as the engine's."""
    return np.ascontiguousarray(records, dtype=RECORD).view(np.uint64).reshape(len(records), -1)


@compiled
def _join(cursor: np.ndarray, slots: np.ndarray) -> Any:
    """Give the cursor's workgroup the next place in the batch."""
    cursor[Cursor.SLOT] += 1
    slots[cursor[Cursor.SLOT]] = cursor[Cursor.WORKGROUP]
