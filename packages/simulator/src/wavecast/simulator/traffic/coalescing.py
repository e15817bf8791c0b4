"""From the lanes of one wave instruction to address cycles, cache lines, write requests and LDS cycles.

The loops are compiled; ``reference.py`` says the same in plain Python and the tests compare the two.

Rules (sources in the device files under ``l1``):

* The address unit takes a *quad* of four neighbouring lanes at a time. A quad needs a cycle for every 64-byte segment
  it touches, and for lanes that load a dword or less, for every distinct dword in one of four dword columns.
* Quads that continue one another within a segment are one *run*: they can share a cycle, four to the cycle, and make
  one write request. Every other quad makes one request for each segment it touches. So 64 scattered lanes make 64
  requests and 64 contiguous bytes make one.
* A request is partial if it writes less than its 64-byte segment.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numba import njit

SEGMENT_SHIFT = 6
LINE_SHIFT = 7
MAX_LINES = 128
_LANES = 64
_SEGMENT_BYTES = 64
_QUADS_PER_CYCLE = 4


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


COUNTS = len(Count)


@njit(cache=True)
def _line_index(lines: np.ndarray, count: Any, line: Any) -> Any:
    """Position of ``line`` in the first ``count`` entries, or ``count``. Newest first: lanes mostly repeat it."""
    for back in range(count):
        position = count - 1 - back
        if lines[position] == line:
            return position
    return count


@njit(cache=True)
def _set_bytes(masks: np.ndarray, position: Any, first: Any, width: Any) -> Any:
    for byte in range(first, first + width):
        if byte < 64:
            masks[position, 0] |= np.uint64(1) << np.uint64(byte)
        else:
            masks[position, 1] |= np.uint64(1) << np.uint64(byte - 64)


@njit(cache=True)
def touch_lines(address: np.ndarray, exec_mask: Any, width: Any, lines: np.ndarray, masks: np.ndarray) -> Any:
    """Distinct 128-byte lines of a record and the bytes touched in each.

    Args:
        address: uint64[64].
        exec_mask: uint64, lanes that take part.
        width: Bytes a lane touches.
        lines: uint64[MAX_LINES], filled with line numbers in order of first touch.
        masks: uint64[MAX_LINES, 2], filled with a bit a byte.

    Returns:
        Number of lines.
    """
    count = 0
    for lane in range(_LANES):
        if not (exec_mask >> np.uint64(lane)) & np.uint64(1):
            continue
        start = address[lane]
        left = width
        while left > 0:
            line = start >> np.uint64(LINE_SHIFT)
            first = int(start & np.uint64(127))
            take = min(left, 128 - first)
            position = _line_index(lines, count, line)
            if position == count:
                lines[count] = line
                masks[count, 0] = np.uint64(0)
                masks[count, 1] = np.uint64(0)
                count += 1
            _set_bytes(masks, position, first, take)
            start += np.uint64(take)
            left -= take
    return count


@njit(cache=True)
def _quad_shape(address: np.ndarray, active: np.ndarray, quad: Any, width: Any, segments: np.ndarray) -> Any:
    """Segments, cycles and shape (0 scattered, 1 contiguous, 2 uniform) of a quad with an active lane."""
    count = 0
    columns = np.zeros(4, dtype=np.int64)
    seen = np.zeros(4, dtype=np.uint64)
    seen_count = 0
    contiguous, uniform = True, True
    first_lane = -1
    for lane in range(4 * quad, 4 * quad + 4):
        if not active[lane]:
            continue
        if first_lane < 0:
            first_lane = lane
        delta = address[lane] - address[first_lane]
        contiguous &= delta == np.uint64(width * (lane - first_lane))
        uniform &= delta == np.uint64(0)
        for segment in (address[lane] >> np.uint64(6), (address[lane] + np.uint64(width - 1)) >> np.uint64(6)):
            if _line_index(segments, count, segment) == count:
                segments[count] = segment
                count += 1
        dword = address[lane] >> np.uint64(2)
        if width <= 4 and _line_index(seen, seen_count, dword) == seen_count:
            seen[seen_count] = dword
            seen_count += 1
            columns[int(dword & np.uint64(3))] += 1
    clk = max(count, columns.max())
    shape = 0
    if count == 1:
        shape = 2 if uniform else 1 if contiguous else 0
    return count, clk, shape, first_lane


@njit(cache=True)
def walk_quads(
    address: np.ndarray, exec_mask: Any, width: Any, lines: np.ndarray, line_count: Any, weights: np.ndarray
) -> Any:
    """Address cycles and write requests of a record.

    Args:
        address: uint64[64].
        exec_mask: uint64.
        width: Bytes a lane touches.
        lines: Line numbers from ``touch_lines``.
        line_count: Their number.
        weights: int64[MAX_LINES], filled with the requests that go to each line.

    Returns:
        (cycles without merging, cycles with merging, requests, partial requests).
    """
    active = np.zeros(_LANES, dtype=np.bool_)
    for lane in range(_LANES):
        active[lane] = (exec_mask >> np.uint64(lane)) & np.uint64(1) != 0
    weights[:line_count] = 0
    segments = np.zeros(8, dtype=np.uint64)
    quad_clk, run_clk, requests, partial = 0, 0, 0, 0
    shape_before, segment_before, origin_before, run_quads, run_bytes = 0, np.uint64(0), np.uint64(0), 0, 0
    for quad in range(_LANES // 4):
        lanes = (
            int(active[4 * quad]) + int(active[4 * quad + 1]) + int(active[4 * quad + 2]) + int(active[4 * quad + 3])
        )
        if lanes == 0:
            partial += _ends_partial(shape_before, run_bytes)
            shape_before = 0
            continue
        count, clk, shape, first_lane = _quad_shape(address, active, quad, width, segments)
        quad_clk += clk
        origin = address[first_lane] - (np.uint64(width * first_lane) if shape == 1 else np.uint64(0))
        new_bytes = width if shape == 2 else width * lanes
        if shape != 0 and shape == shape_before and segments[0] == segment_before and origin == origin_before:
            run_quads += 1
            run_bytes += new_bytes if shape == 1 else 0
            run_clk += 1 if run_quads % _QUADS_PER_CYCLE == 1 else 0
            continue
        partial += _ends_partial(shape_before, run_bytes)
        run_clk += clk
        requests += count
        for index in range(count):
            weights[_line_index(lines, line_count, segments[index] >> np.uint64(1))] += 1
        shape_before, segment_before, origin_before, run_quads, run_bytes = shape, segments[0], origin, 1, new_bytes
        if shape == 0:
            partial += count
    partial += _ends_partial(shape_before, run_bytes)
    return quad_clk, run_clk, requests, partial


@njit(cache=True)
def _ends_partial(shape: Any, run_bytes: Any) -> Any:
    return 1 if shape != 0 and run_bytes < _SEGMENT_BYTES else 0


@njit(cache=True)
def lds_cycles(
    address: np.ndarray, exec_mask: Any, width: Any, offset: Any, phase_of_lane: np.ndarray, banks: Any, serial: Any
) -> Any:
    """LDS cycles of one piece of an access.

    Args:
        address: uint64[64], LDS offsets.
        exec_mask: uint64.
        width: Bytes a lane touches.
        offset: Bytes to add to every address.
        phase_of_lane: int64[64].
        banks: Number of banks.
        serial: Whether lanes on one dword queue too (atomics) instead of sharing it.

    Returns:
        (cycles, cycles that an access without conflicts would take).
    """
    cycles, free = 0, 0
    dwords = np.zeros(4 * _LANES, dtype=np.uint64)
    load = np.zeros(banks, dtype=np.int64)
    for phase in range(phase_of_lane.max() + 1):
        count = 0
        load[:] = 0
        for lane in range(_LANES):
            if phase_of_lane[lane] != phase or not (exec_mask >> np.uint64(lane)) & np.uint64(1):
                continue
            start = address[lane] + np.uint64(offset)
            first = start >> np.uint64(2)
            last = (start + np.uint64(width - 1)) >> np.uint64(2)
            for step in range(int(last - first) + 1):
                dword = first + np.uint64(step)
                if serial or _line_index(dwords, count, dword) == count:
                    dwords[count] = dword
                    count += 1
                    load[int(dword % np.uint64(banks))] += 1
        if count:
            cycles += load.max()
            free += 1
    return cycles, free
