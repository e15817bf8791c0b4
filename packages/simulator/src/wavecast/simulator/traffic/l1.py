"""L1 of a compute unit, a workgroup at a time.

Reads allocate, writes go through. The resident workgroups share the capacity evenly, so none sees what another does,
and its reads can be filtered as soon as it has run. L1 is too small to follow a part of the lines only: it sees all.

Where the device has sectors, what a workgroup writes to one sector goes to the L2 together, as long as its line stays:
the profiler of an H200 counts 1.8 million write requests of 67 million scattered bytes whose neighbours follow.

Address bits 7 and 8 pick one of the four sets of an MI300's L1, so that rows a power of two from 512 bytes up apart
share a quarter of it. A line that does not fit takes a place at random: of one and a half, two and two and a half times
its L1, read round and round, MI210 misses 50, 81 and 88 %, and random places 58, 80 and 89 %; least recently used would
keep nothing. An H200 does: what one workgroup reads twice, 160 KB of it, is all found again, and of
240 KB 3 %. There the line that was used last the longest ago goes, and what the workgroups have of shared memory is no
part of L1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing
from wavecast.simulator.devices import Device
from wavecast.simulator.traffic.caches import (
    ATOMIC,
    EMPTY,
    READ,
    READ_FROM_L1,
    WRITE,
    Level,
    in_step,
    is_followed,
    mixed,
    sectors_of,
)

_FIELDS = 6
_SECTORS, _LOW, _HIGH, _WRITER, _USED = 1, 2, 3, 4, 5
# CUDA programming guide, compute capability 9.0: what the multiprocessor sets apart as shared memory.
_SHARED_SIZES = tuple(1024 * size for size in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228))
_HALF = np.uint64(0xFFFFFFFF)


def empty_l1(device: Device, workgroups_per_cu: int, lds_bytes: int = 0) -> np.ndarray:
    """The part of an L1 that one workgroup has.

    Args:
        device: Sizes.
        workgroups_per_cu: Workgroups that share it.
        lds_bytes: Of each, which L1 lacks where both are one memory.

    Returns:
        uint64 (sets, ways): line numbers. Where the device has sectors, as many columns follow for each of: sectors
        that were read, bytes 0 to 63 and 64 to 127 that were written, the last writer, an instruction plus one, and
        the time of the last use.
    """
    lines = device.l1.bytes_per_cu // device.l1.line_bytes
    sets = lines // device.l1.ways
    left = 1.0
    if device.lds.reserved_bytes is not None:
        shared = workgroups_per_cu * (lds_bytes + device.lds.reserved_bytes)
        left -= next((size for size in _SHARED_SIZES if size >= shared), _SHARED_SIZES[-1]) / device.l1.bytes_per_cu
    ways = max(1, int(device.l1.ways * left) // workgroups_per_cu)
    return np.full((sets, ways * (1 if device.l2.sector_bytes is None else _FIELDS)), EMPTY, dtype=np.uint64)


@compiled
def l1_set_of(line: Any, sets: Any, is_hashed: Any) -> Any:
    """Set of a line: its lowest bits, or all groups of as many bits on top of one another.

    Args:
        line: uint64.
        sets: A power of two.
        is_hashed: Whether the other bits decide too, so that no power of two crowds into one set.
    """
    bits = 0
    while np.int64(1) << bits < sets:
        bits += 1
    # Half of the groups on the other half, down to one: by whole groups, so that no bits between are lost.
    shift = bits if is_hashed else 0
    while 0 < shift <= 16:
        shift *= 2
    while shift >= bits and shift > 0:
        line ^= line >> np.uint64(shift)
        shift //= 2
    return np.int64(line & np.uint64(sets - 1))


@compiled
def clear(l1: np.ndarray) -> Any:
    """Forget all lines."""
    l1[:] = EMPTY


@compiled_borrowing
def send_written(row: np.ndarray, way: Any, levels: np.ndarray) -> Any:
    """Send what was written to a line to the L2, and forget it.

    Args:
        row: A set of an L1 with sectors.
        way: The line's place.
        levels: int64 (instructions, LEVELS), added to.
    """
    ways = len(row) // _FIELDS
    writer = row[_WRITER * ways + way]
    if row[way] != EMPTY and writer != np.uint64(0):
        for field in (_LOW, _HIGH):
            mask = row[field * ways + way]
            for sector in (mask & _HALF, mask >> np.uint64(32)):
                levels[np.int64(writer) - 1, Level.SENT_SECTORS] += sector != np.uint64(0)
                levels[np.int64(writer) - 1, Level.SENT_PARTIAL] += sector != np.uint64(0) and sector != _HALF
    for field in (_SECTORS, _LOW, _HIGH, _WRITER):
        row[field * ways + way] = np.uint64(0)


@compiled_borrowing
def send_all_written(l1: np.ndarray, levels: np.ndarray) -> Any:
    """Send what a workgroup has written when it ends."""
    for index in range(l1.shape[0]):
        row = l1[index]
        for way in range(len(row) // _FIELDS):
            if row[way] != EMPTY:
                send_written(row, way, levels)


@compiled_borrowing
def _write(row: np.ndarray, event: Any, now: Any, levels: np.ndarray) -> Any:
    """Take in a write."""
    ways = len(row) // _FIELDS
    way, hit = _oldest_way(row, event["line"])
    if not hit:
        send_written(row, way, levels)
        row[way] = event["line"]
    row[_USED * ways + way] = now
    touched = sectors_of(event["low"], event["high"])
    for sector in range(4):
        levels[event["instruction"], Level.WRITTEN_SECTORS] += touched >> sector & 1
    row[_LOW * ways + way] |= event["low"]
    row[_HIGH * ways + way] |= event["high"]
    row[_WRITER * ways + way] = np.uint64(event["instruction"] + 1)


@compiled_borrowing
def _oldest_way(row: np.ndarray, line: Any) -> Any:
    """(way, hit): where the line is, or a place for it: a free one, or that of the line unused for longest."""
    ways = len(row) // _FIELDS
    oldest = 0
    for way in range(ways):
        if row[way] == line:
            return way, True
        if row[way] == EMPTY:
            return way, False
        if row[_USED * ways + way] < row[_USED * ways + oldest]:
            oldest = way
    return oldest, False


@compiled_borrowing
def way_of(tags: np.ndarray, line: Any, misses: Any) -> Any:
    """(way, hit): where the line is, or a place for it: a free one, or one that looks random and is the same each time.

    Args:
        tags: uint64, lines of the set.
        line: uint64.
        misses: uint64, number of misses before.
    """
    for way in range(len(tags)):
        if tags[way] == line:
            return way, True
        if tags[way] == EMPTY:
            return way, False
    return np.int64(mixed(line + misses) % np.uint64(len(tags))), False


@compiled
def settle(
    l1: np.ndarray,
    events: np.ndarray,
    first: Any,
    last: Any,
    levels: np.ndarray,
    rows: np.ndarray,
    misses_by_round: np.ndarray,
    stride: Any,
    is_sectored: Any = False,
    is_hashed: Any = False,
) -> Any:
    """Send the reads of a workgroup through its L1, wave beside wave, and drop the lines that are not followed.

    Args:
        l1: Of ``empty_l1``.
        events: ``EVENT``; reads that hit become ``READ_FROM_L1``, and what is left moves to the front.
        first: First event of the workgroup.
        last: One beyond its last.
        levels: int64 (instructions, LEVELS), added to.
        rows: int64, row of each static instruction in ``misses_by_round``.
        misses_by_round: int32 (rows, waves, ROUNDS, 2), added to: executions of each load, by wave of the workgroup and
            by how often the wave had executed it before, and those of them of which some line missed.
        stride: One line in so many is followed.
        is_sectored: Whether a read brings in the sectors that it touches, and not the whole line.
        is_hashed: Of ``l1_set_of``.

    Returns:
        One beyond the last event that is left.
    """
    part = events[first:last]
    _read_and_write(l1, part, in_step(part["order"]), levels, rows, misses_by_round, is_sectored, is_hashed)
    return first + thin_out(part, stride)


@compiled_borrowing
def _read_and_write(
    l1: np.ndarray,
    part: np.ndarray,
    positions: np.ndarray,
    levels: np.ndarray,
    rows: np.ndarray,
    misses_by_round: np.ndarray,
    is_sectored: Any,
    is_hashed: Any,
) -> Any:
    """Send the events of a workgroup through its L1 in the order of their positions; arguments as of ``settle``."""
    misses, now = np.uint64(0), np.uint64(0)
    # Lines of one execution follow one another.
    wave, order, has_missed = -1, -1, False
    for position in positions:
        event = part[position]
        now += np.uint64(1)
        if is_sectored and event["kind"] == WRITE:
            _write(l1[l1_set_of(event["line"], l1.shape[0], is_hashed)], event, now, levels)
            continue
        if event["kind"] != READ:
            continue
        known = misses_by_round[rows[event["instruction"]], event["wave"], event["round"]]
        if event["wave"] != wave or event["order"] != order:
            wave, order, has_missed = event["wave"], event["order"], False
            known[0] += 1
        line = event["line"]
        row = l1[l1_set_of(line, l1.shape[0], is_hashed)]
        ways = len(row) // _FIELDS if is_sectored else len(row)
        tags = row[:ways]
        way, hit = _oldest_way(row, line) if is_sectored else way_of(tags, line, misses)
        missing = np.int64(15)
        if is_sectored:
            if not hit:
                send_written(row, way, levels)
            row[_USED * ways + way] = now
            touched = sectors_of(event["low"], event["high"])
            have = np.int64(row[ways + way])
            missing = touched & ~have
            row[ways + way] = np.uint64(have | touched)
            hit = missing == 0
        if hit:
            levels[event["instruction"], Level.L1_HITS] += 1
            event["kind"] = READ_FROM_L1
        else:
            known[1] += not has_missed
            has_missed = True
            levels[event["instruction"], Level.L2_REQUESTS] += 1
            for sector in range(4):
                levels[event["instruction"], Level.L2_SECTORS] += missing >> sector & 1
            misses += np.uint64(1)
            tags[way] = line


@compiled
def thin_out(events: np.ndarray, stride: Any) -> Any:
    """Keep the lines that are followed, and all atomics; returns the number of events left, which move to the front."""
    kept = 0
    for position in range(len(events)):
        if events[position]["kind"] == ATOMIC or is_followed(events[position]["line"], stride):
            events[kept] = events[position]
            kept += 1
    return kept
