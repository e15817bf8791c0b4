"""Distinct lines that a launch touches, and what they say about the workgroups that did not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.traffic.caches import is_followed


@dataclass(frozen=True, slots=True)
class BufferRange:
    """A buffer of the launch: an upper bound for what can be touched in it.

    Attributes:
        address: First byte.
        size_bytes: Length.
        name: Argument name, if known.
    """

    address: int
    size_bytes: int
    name: str = ""


LINE = np.dtype(
    [
        ("line", np.uint64),
        ("low", np.uint64),  # bytes 0 to 63 touched
        ("high", np.uint64),  # bytes 64 to 127 touched
        ("cluster", np.int32),  # cluster of workgroups that touched it first, plus one; 0 marks a free entry
        ("shared", np.bool_),  # whether another cluster touched it too
        ("xcds", np.uint16),  # a bit for every XCD that touched it
    ],
    align=True,
)
_CHUNK = 1 << 16
_FIRST_SIZE = 1 << 10


@dataclass
class UniqueLines:
    """A hash table of the lines touched, with open addressing; filled batch by batch."""

    _table: np.ndarray = field(default_factory=lambda: np.zeros(_FIRST_SIZE, dtype=LINE))
    _count: int = 0

    def add(self, events: np.ndarray, kinds: tuple[int, ...], *, clusters: np.ndarray, stride: int = 1) -> None:
        """Add the accesses of a batch that are of the given kinds.

        Args:
            events: ``EVENT`` records.
            kinds: First and last kind to take.
            clusters: int64, cluster of each workgroup slot.
            stride: One line in so many is taken, see ``is_followed``.
        """
        for start in range(0, len(events), _CHUNK):
            part = events[start : start + _CHUNK]
            needed = 2 * (self._count + len(part))
            if needed > len(self._table):
                grown = np.zeros(1 << (needed - 1).bit_length(), dtype=LINE)
                _rehash(self._table, grown)
                self._table = grown
            self._count += _insert(self._table, part, kinds[0], kinds[-1], clusters, stride)

    def merged(self, stride: int = 1) -> Footprint:
        """Every line once, ascending.

        Args:
            stride: The one that lines were added with.
        """
        found = self._table[self._table["cluster"] > 0]
        found = found[np.argsort(found["line"])]
        touched = np.bitwise_count(found["low"]).astype(np.int64) + np.bitwise_count(found["high"])
        return Footprint(
            found["line"], touched, found["shared"], np.bitwise_count(found["xcds"]).astype(np.int64), stride
        )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct lines of the workgroups that ran.

    Attributes:
        lines: uint64, ascending.
        touched_bytes: int64, bytes touched in each line.
        shared: bool, whether workgroups of several clusters touched it.
        xcds: int64, XCDs that touched it.
        stride: Lines that each of them stands for.
    """

    lines: np.ndarray
    touched_bytes: np.ndarray
    shared: np.ndarray
    xcds: np.ndarray
    stride: int = 1

    def total(self, values: np.ndarray | None = None) -> int:
        """The sum over the workgroups that ran; None counts the lines."""
        return self.stride * (len(self.lines) if values is None else int(values.sum()))

    def scaled(self, scale: float, values: np.ndarray | None = None) -> float:
        """The sum over the whole grid.

        A line that one cluster of consecutive workgroups touched is taken as private to them, and grows with the grid;
        a line that several clusters touched is taken as shared by all, and does not.

        Args:
            scale: Workgroups of the grid over those that ran.
            values: What to sum per line; None counts the lines.
        """
        shared = self.total(self.shared if values is None else values[self.shared])
        return (self.total(values) - shared) * scale + shared

    def part(self, first: int, last: int) -> Footprint:
        """The lines at some positions."""
        chosen = slice(first, last)
        return Footprint(
            self.lines[chosen], self.touched_bytes[chosen], self.shared[chosen], self.xcds[chosen], self.stride
        )


def capped_bytes(footprint: Footprint, scale: float, buffers: Sequence[BufferRange], *, line_bytes: int) -> float:
    """Bytes touched over the whole grid, no more in any buffer than it has.

    Args:
        footprint: Lines of the workgroups that ran.
        scale: Workgroups of the grid over those that ran.
        buffers: Buffers of the launch; lines outside all of them are scaled without a bound.
        line_bytes: Bytes of a line.
    """
    return sum(
        min(part.scaled(scale, part.touched_bytes), float(buffer.size_bytes) if buffer else float("inf"))
        for buffer, part in _by_buffer(footprint, buffers, line_bytes)
    )


def capped_lines(
    footprint: Footprint, scale: float, buffers: Sequence[BufferRange], *, line_bytes: int, copies: int = 1
) -> float:
    """Line fetches over the whole grid, no more for any buffer than it has lines times the caches that hold copies.

    Args:
        footprint: Lines of the workgroups that ran.
        scale: Workgroups of the grid over those that ran.
        buffers: Buffers of the launch; lines outside all of them are scaled without a bound.
        line_bytes: Bytes of a line.
        copies: Caches that may each fetch a line: 1 counts every line once, more counts it for every XCD that touched
            it.
    """
    total = 0.0
    for buffer, part in _by_buffer(footprint, buffers, line_bytes):
        fetched = part.scaled(scale, part.xcds if copies > 1 else None)
        bound = copies * _line_count(buffer, line_bytes) if buffer else float("inf")
        total += min(fetched, bound)
    return total


def _by_buffer(
    footprint: Footprint, buffers: Sequence[BufferRange], line_bytes: int
) -> Iterator[tuple[BufferRange | None, Footprint]]:
    """The lines of each buffer, and last, with None, those between buffers."""
    done, rest = 0, []
    for buffer in sorted(buffers, key=lambda buffer: buffer.address):
        first = buffer.address // line_bytes
        begin, end = np.searchsorted(
            footprint.lines, np.array([first, first + _line_count(buffer, line_bytes)], np.uint64)
        )
        # Of a line that two buffers share, the first has it.
        begin, end = max(done, int(begin)), max(done, int(end))
        rest.append(footprint.part(done, begin))
        yield buffer, footprint.part(begin, end)
        done = end
    for part in (*rest, footprint.part(done, len(footprint.lines))):
        yield None, part


def _line_count(buffer: BufferRange, line_bytes: int) -> int:
    return (buffer.address + buffer.size_bytes - 1) // line_bytes - buffer.address // line_bytes + 1


@compiled
def common(first: np.ndarray, second: np.ndarray) -> Any:
    """How many numbers two ascending arrays without repetitions share."""
    count, here, there = 0, 0, 0
    while here < len(first) and there < len(second):
        count += first[here] == second[there]
        if first[here] <= second[there]:
            here += 1
        else:
            there += 1
    return count


@compiled
def _slot(table: np.ndarray, line: Any) -> Any:
    """Entry of a line, or the free one where it belongs."""
    mask = len(table) - 1
    slot = np.int64((line * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[slot]["cluster"] != 0 and table[slot]["line"] != line:
        slot = (slot + 1) & mask
    return slot


@compiled
def _insert(
    table: np.ndarray, events: np.ndarray, first_kind: Any, last_kind: Any, clusters: np.ndarray, stride: Any
) -> Any:
    """Add events; returns the number of new lines."""
    new = 0
    for position in range(len(events)):
        event = events[position]
        if event["kind"] < first_kind or event["kind"] > last_kind:
            continue
        if not is_followed(event["line"], stride):
            continue
        entry = table[_slot(table, event["line"])]
        cluster = clusters[event["slot"]] + 1
        if entry["cluster"] == 0:
            entry["line"] = event["line"]
            entry["cluster"] = cluster
            new += 1
        elif entry["cluster"] != cluster:
            entry["shared"] = True
        entry["low"] |= event["low"]
        entry["high"] |= event["high"]
        entry["xcds"] |= np.uint16(1 << event["xcd"])
    return new


@compiled
def _rehash(table: np.ndarray, grown: np.ndarray) -> None:
    for position in range(len(table)):
        if table[position]["cluster"] != 0:
            grown[_slot(grown, table[position]["line"])] = table[position]
