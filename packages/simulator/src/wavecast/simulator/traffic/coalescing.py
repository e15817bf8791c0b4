"""From the lanes of one wave instruction to address cycles, cache lines, write requests and LDS cycles.

The loops are compiled; ``reference.py`` says the same in plain Python and the tests compare the two.

Rules (sources in the device files under ``l1``):

* The address unit takes a *quad* of four neighbouring lanes at a time. A quad needs a cycle for every 64-byte segment
  it touches, and for lanes that load a dword or less, for every distinct dword in one of four dword columns. Quads of
  16 neighbouring lanes that continue one another, in 64 bytes at most, go together, a cycle for every segment.
* Quads that continue one another within a segment are one *run* and make one write request. Every other quad makes one
  request for each segment it touches. So 64 scattered lanes make 64 requests and 64 contiguous bytes make one.
* A request is partial if it writes less than its 64-byte segment.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing

SEGMENT_SHIFT = 6
LINE_SHIFT = 7
MAX_LINES = 128
_LANES = 64
_SEGMENT_BYTES = 64
QUADS_PER_CYCLE, LANES_PER_QUAD = 4, 4
_SLOTS = 256


class Count(IntEnum):
    """Columns of the counters kept for every static instruction."""

    EXECUTED = 0
    LANES = 1
    BYTES = 2
    UNIQUE_BYTES = 3
    SEGMENTS = 4
    LINES = 5
    QUAD_CLK = 6
    RUN_CLK = 7
    REQUESTS = 8
    PARTIAL = 9
    LDS_CLK = 10
    LDS_CONFLICT_CLK = 11
    SECTORS = 12  # distinct sectors of 32 bytes
    PARTIAL_SECTORS = 13  # those of them that are not touched whole


COUNTS = len(Count)


@compiled_borrowing
def _position(values: np.ndarray, count: Any, value: Any) -> Any:
    """Position of ``value`` in the first ``count`` entries, or ``count``; for a handful of entries."""
    for position in range(count):
        if values[position] == value:
            return position
    return count


@compiled_borrowing
def _find_slot(table: np.ndarray, lines: np.ndarray, count: Any, line: Any) -> Any:
    """Slot of ``table`` that points to ``line``, or the free one where it belongs.

    An entry of this record points below ``count`` to a line whose second-row entry points back to the slot; whatever
    earlier records left does not, so the table needs no clearing.
    """
    slot = np.int64((line * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56))
    while True:
        position = table[0, slot]
        if position >= count or table[1, position] != slot or lines[position] == line:
            return slot
        slot = (slot + 1) & (_SLOTS - 1)


@compiled_borrowing
def touch_lines(
    address: np.ndarray, exec_mask: Any, width: Any, lines: np.ndarray, masks: np.ndarray, table: np.ndarray
) -> Any:
    """Distinct 128-byte lines of a record and the bytes touched in each.

    Args:
        address: uint64[64].
        exec_mask: uint64, lanes that take part.
        width: Bytes a lane touches, at most 16.
        lines: uint64[MAX_LINES], filled with line numbers in order of first touch.
        masks: uint64[MAX_LINES, 2], filled with a bit a byte.
        table: int64[2, 256], scratch that finds a line among ``lines``; its contents do not matter.

    Returns:
        Number of lines.
    """
    count, position = 0, 0
    for lane in range(_LANES):
        if not (exec_mask >> np.uint64(lane)) & np.uint64(1):
            continue
        start = address[lane]
        left = width
        while left > 0:
            line = start >> np.uint64(LINE_SHIFT)
            first = int(start & np.uint64(127))
            take = min(left, 128 - first)
            # Neighbouring lanes mostly share a line.
            if count == 0 or lines[position] != line:
                slot = _find_slot(table, lines, count, line)
                position = table[0, slot]
                if position >= count or table[1, position] != slot:
                    position = count
                    table[0, slot] = count
                    table[1, count] = slot
                    lines[count] = line
                    masks[count, 0] = np.uint64(0)
                    masks[count, 1] = np.uint64(0)
                    count += 1
            bits = (np.uint64(1) << np.uint64(take)) - np.uint64(1)
            if first < 64:
                masks[position, 0] |= bits << np.uint64(first)
                if first + take > 64:
                    masks[position, 1] |= bits >> np.uint64(64 - first)
            else:
                masks[position, 1] |= bits << np.uint64(first - 64)
            start += np.uint64(take)
            left -= take
    return count


@compiled_borrowing
def _quad_shape(address: np.ndarray, exec_mask: Any, quad: Any, width: Any, segments: np.ndarray) -> Any:
    """Segments, cycles, shape (0 scattered, 1 contiguous, 2 uniform) and first lane of a quad with an active lane.

    ``segments[:8]`` is filled, in order of first touch; the rest is scratch for the dwords seen.
    """
    lane = 4 * quad
    base = address[lane]
    if (exec_mask >> np.uint64(lane)) & np.uint64(15) == np.uint64(15) and (
        address[lane + 1] - base == np.uint64(width)
        and address[lane + 2] - base == np.uint64(2 * width)
        and address[lane + 3] - base == np.uint64(3 * width)
    ):
        # The common case: contiguous dwords lie in different columns, so the segments alone count.
        segments[0] = base >> np.uint64(SEGMENT_SHIFT)
        segments[1] = (base + np.uint64(4 * width - 1)) >> np.uint64(SEGMENT_SHIFT)
        count = int(segments[1] - segments[0]) + 1
        return count, count, 1, lane
    count, seen = 0, 0
    columns_0, columns_1, columns_2, columns_3 = 0, 0, 0, 0
    contiguous, uniform = True, True
    first_lane = -1
    for lane in range(4 * quad, 4 * quad + 4):
        if not (exec_mask >> np.uint64(lane)) & np.uint64(1):
            continue
        place = address[lane]
        if first_lane < 0:
            first_lane = lane
        delta = place - address[first_lane]
        contiguous &= delta == np.uint64(width * (lane - first_lane))
        uniform &= delta == np.uint64(0)
        for end in range(2):
            segment = (place + np.uint64(end * (width - 1))) >> np.uint64(SEGMENT_SHIFT)
            if _position(segments, count, segment) == count:
                segments[count] = segment
                count += 1
        dword = place >> np.uint64(2)
        if width <= 4 and _position(segments[8:], seen, dword) == seen:
            segments[8 + seen] = dword
            seen += 1
            column = int(dword & np.uint64(3))
            columns_0 += column == 0
            columns_1 += column == 1
            columns_2 += column == 2
            columns_3 += column == 3
    clk = max(count, columns_0, columns_1, columns_2, columns_3)
    return count, clk, 2 if uniform else 1 if contiguous else 0, first_lane


@compiled_borrowing
def walk_quads(
    address: np.ndarray,
    exec_mask: Any,
    width: Any,
    lines: np.ndarray,
    line_count: Any,
    table: np.ndarray,
    weights: np.ndarray,
    segments: np.ndarray,
) -> Any:
    """Address cycles and write requests of a record.

    Args:
        address: uint64[64].
        exec_mask: uint64.
        width: Bytes a lane touches.
        lines: Line numbers from ``touch_lines``.
        line_count: Their number.
        table: What ``touch_lines`` left in its table.
        weights: int16[MAX_LINES], filled with the requests that go to each line.
        segments: uint64[16], scratch.

    Returns:
        (cycles without merging, cycles with merging, requests, partial requests).
    """
    weights[:line_count] = 0
    quad_clk, run_clk, requests, partial, position = 0, 0, 0, 0, 0
    shape_before, segment_before, origin_before, is_run, run_bytes = 0, np.uint64(0), np.uint64(0), False, 0
    together = min(QUADS_PER_CYCLE, max(1, _SEGMENT_BYTES // (LANES_PER_QUAD * width)))
    for quad in range(_LANES // 4):
        bits = int((exec_mask >> np.uint64(4 * quad)) & np.uint64(15))
        lanes = (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3)
        if lanes == 0:
            partial += _ends_partial(is_run, run_bytes)
            shape_before, is_run = 0, False
            continue
        count, clk, shape, first_lane = _quad_shape(address, exec_mask, quad, width, segments)
        quad_clk += clk
        origin = address[first_lane] - (np.uint64(width * first_lane) if shape == 1 else np.uint64(0))
        new_bytes = width if shape == 2 else width * lanes
        continues = shape != 0 and shape == shape_before and origin == origin_before
        if continues and quad % (QUADS_PER_CYCLE if shape == 2 else together):
            run_clk += int(segments[count - 1] - segment_before)
        else:
            run_clk += clk
        if continues and is_run and segments[count - 1] == segment_before:
            run_bytes += new_bytes if shape == 1 else 0
            continue
        partial += _ends_partial(is_run, run_bytes)
        requests += count
        for index in range(count):
            line = segments[index] >> np.uint64(1)
            if lines[position] != line:
                position = table[0, _find_slot(table, lines, line_count, line)]
            weights[position] += 1
        shape_before, segment_before, origin_before, run_bytes = shape, segments[count - 1], origin, new_bytes
        is_run = shape != 0 and count == 1
        if not is_run:
            partial += count
    partial += _ends_partial(is_run, run_bytes)
    return quad_clk, run_clk, requests, partial


@compiled
def _ends_partial(is_run: Any, run_bytes: Any) -> Any:
    return 1 if is_run and run_bytes < _SEGMENT_BYTES else 0


@compiled_borrowing
def lds_cycles(
    address: np.ndarray,
    exec_mask: Any,
    width: Any,
    offset: Any,
    phase_of_lane: np.ndarray,
    banks: Any,
    serial: Any,
    dwords: np.ndarray,
    load: np.ndarray,
) -> Any:
    """LDS cycles of one piece of an access.

    Args:
        address: uint64[64], LDS offsets.
        exec_mask: uint64.
        width: Bytes a lane touches.
        offset: Bytes to add to every address.
        phase_of_lane: int64[64].
        banks: Number of banks, a power of two.
        serial: Whether lanes on one dword queue too (atomics) instead of sharing it.
        dwords: uint64[64, 8, 64], scratch: distinct dwords of each phase and bank.
        load: int64[8, 64], scratch: their number.

    Returns:
        (cycles, cycles that an access without conflicts would take).
    """
    load[:, :banks] = 0
    for lane in range(_LANES):
        if not (exec_mask >> np.uint64(lane)) & np.uint64(1):
            continue
        phase = phase_of_lane[lane]
        start = address[lane] + np.uint64(offset)
        first = start >> np.uint64(2)
        last = (start + np.uint64(width - 1)) >> np.uint64(2)
        for step in range(int(last - first) + 1):
            dword = first + np.uint64(step)
            bank = int(dword & np.uint64(banks - 1))
            count = load[phase, bank]
            if serial or count == 0 or _position(dwords[:, phase, bank], count, dword) == count:
                dwords[count, phase, bank] = dword
                load[phase, bank] = count + 1
    cycles, free = 0, 0
    for phase in range(load.shape[0]):
        longest = 0
        for bank in range(banks):
            longest = max(longest, load[phase, bank])
        cycles += longest
        free += 1 if longest else 0
    return cycles, free
