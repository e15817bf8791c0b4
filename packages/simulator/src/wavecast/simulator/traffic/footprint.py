"""Distinct lines that a launch touches, and what they say about the workgroups that did not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


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


@dataclass
class UniqueLines:
    """Keys (line numbers, or lines of one XCD) with the bytes touched, gathered cluster by cluster."""

    _keys: list[np.ndarray] = field(default_factory=list)
    _bytes: list[np.ndarray] = field(default_factory=list)
    _clusters: list[np.ndarray] = field(default_factory=list)

    def add(self, keys: np.ndarray, low: np.ndarray, high: np.ndarray, *, clusters: np.ndarray) -> None:
        """Add accesses: uint64 keys, byte masks of the two halves of the line, int64 cluster of the workgroup."""
        if not len(keys):
            return
        order = np.lexsort((clusters, keys))
        keys, clusters = keys[order], clusters[order]
        new = (keys[1:] != keys[:-1]) | (clusters[1:] != clusters[:-1])
        starts = np.flatnonzero(np.concatenate([[True], new]))
        touched = np.bitwise_count(np.bitwise_or.reduceat(low[order], starts)).astype(np.int64)
        touched += np.bitwise_count(np.bitwise_or.reduceat(high[order], starts))
        self._keys.append(keys[starts])
        self._bytes.append(touched)
        self._clusters.append(clusters[starts])

    def merged(self) -> Footprint:
        """Every key once, with the most bytes any batch touched in it and whether several clusters did."""
        if not self._keys:
            return Footprint(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
        keys, inverse = np.unique(np.concatenate(self._keys), return_inverse=True)
        clusters = np.concatenate(self._clusters)
        touched = np.zeros(len(keys), dtype=np.int64)
        np.maximum.at(touched, inverse, np.concatenate(self._bytes))
        first, last = np.full(len(keys), clusters.max()), np.zeros(len(keys), dtype=np.int64)
        np.minimum.at(first, inverse, clusters)
        np.maximum.at(last, inverse, clusters)
        return Footprint(keys, touched, first != last)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct keys of the workgroups that ran.

    Attributes:
        keys: uint64, ascending.
        touched_bytes: int64, bytes touched in each line.
        shared: bool, whether workgroups of several clusters touched it.
    """

    keys: np.ndarray
    touched_bytes: np.ndarray
    shared: np.ndarray

    def scaled(self, scale: float, values: np.ndarray | None = None) -> float:
        """The sum over the whole grid.

        A line that one cluster of consecutive workgroups touched is taken as private to them, and grows with the grid;
        a line that several clusters touched is taken as shared by all, and does not.

        Args:
            scale: Workgroups of the grid over those that ran.
            values: What to sum per key; None counts the keys.
        """
        if values is None:
            values = np.ones(len(self.keys), dtype=np.int64)
        return float(values[~self.shared].sum() * scale + values[self.shared].sum())


def capped(lines: Footprint, scale: float, buffers: Sequence[BufferRange], *, line_bytes: int) -> float:
    """Bytes touched over the whole grid, no more in any buffer than it has.

    Args:
        lines: Footprint keyed by line number.
        scale: Workgroups of the grid over those that ran.
        buffers: Buffers of the launch; lines outside all of them are scaled without a bound.
        line_bytes: Bytes of a line.
    """
    total, left = 0.0, np.ones(len(lines.keys), dtype=np.bool_)
    for buffer in buffers:
        first, last = buffer.address // line_bytes, (buffer.address + buffer.size_bytes - 1) // line_bytes
        inside = left & (lines.keys >= first) & (lines.keys <= last)
        part = Footprint(lines.keys[inside], lines.touched_bytes[inside], lines.shared[inside])
        total += min(part.scaled(scale, part.touched_bytes), float(buffer.size_bytes))
        left &= ~inside
    rest = Footprint(lines.keys[left], lines.touched_bytes[left], lines.shared[left])
    return total + rest.scaled(scale, rest.touched_bytes)
