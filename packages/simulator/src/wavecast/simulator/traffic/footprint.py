"""Distinct lines that a launch touches, and what they say about the workgroups that did not run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing
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
        ("cluster", np.int32),  # cluster of workgroups that touched it last, plus one; 0 marks a free entry
        ("instruction", np.int32),  # that touched it first
        ("clusters", np.uint8),  # how many did, at most three
        ("new", np.bool_),  # whether the first of the last cluster to touch it was a counted workgroup
        # A bit for every XCD:
        ("now", np.uint16),  # that touched it in the last cluster
        ("once", np.uint16),  # in at least one cluster
        ("twice", np.uint16),
        ("thrice", np.uint16),
        ("new_on", np.uint16),  # whose first touch in the last cluster that had one was by a counted workgroup
    ],
    align=True,
)
_CHUNK = 1 << 16
_FIRST_SIZE = 1 << 10
# Of an estimate, that another value may be away from it.
_STANDARD_ERRORS = 3
# Of the search for a mean: the largest, below which it is as good as 0, and steps.
_MOST_FINDS, _SMALL, _HALVINGS = 64.0, 1e-3, 40


@dataclass
class UniqueLines:
    """A hash table of the lines touched, with open addressing; filled batch by batch."""

    _table: np.ndarray = field(default_factory=lambda: np.zeros(_FIRST_SIZE, dtype=LINE))
    _count: int = 0

    def add(
        self,
        events: np.ndarray,
        kinds: tuple[int, ...],
        *,
        clusters: np.ndarray,
        counted: np.ndarray | None = None,
        near: int = 0,
        stride: int = 1,
    ) -> None:
        """Add the accesses of a batch that are of the given kinds, in the order of their workgroups.

        Args:
            events: ``EVENT`` records.
            kinds: First and last kind to take.
            clusters: int64, cluster of each workgroup slot.
            counted: bool, whether the neighbours before each of them ran too, see ``Sample``; None for all.
            near: Clusters whose numbers differ by no more count as one.
            stride: One line in so many is taken, see ``is_followed``.
        """
        if counted is None:
            counted = np.ones(len(clusters), dtype=np.bool_)
        for start in range(0, len(events), _CHUNK):
            part = events[start : start + _CHUNK]
            needed = 2 * (self._count + len(part))
            if needed > len(self._table):
                grown = np.zeros(1 << (needed - 1).bit_length(), dtype=LINE)
                _rehash(self._table, grown)
                self._table = grown
            self._count += _insert(self._table, part, kinds[0], kinds[-1], clusters, counted, near, stride)

    def merged(self, stride: int = 1) -> Footprint:
        """Every line once, ascending.

        Args:
            stride: The one that lines were added with.
        """
        places = np.flatnonzero(self._table["cluster"])
        order = np.argsort(self._table["line"][places])
        found = np.empty(len(places), dtype=LINE)
        _gather(self._table, places[order], found)
        return Footprint(found, stride)


@dataclass(frozen=True, slots=True)
class Growth:
    """How a sample of clusters grows to a grid.

    Attributes:
        clusters: Clusters of the sample.
        fraction: Counted workgroups over those of the grid; 1 or more for a whole grid.
        executed: Executed ones over those of the grid.
    """

    clusters: int
    fraction: float
    executed: float

    def factor(self, once: float, twice: float, more: float = 0.0) -> float:
        """Lines of the grid for each that was found in one cluster and not among its neighbours, itself included.

        Where no cluster finds what another found, lines are private and grow with the grid. Lines that clusters share
        are found by some number of them that varies as chance has it: how many are found by more than two, for each
        found twice, tells the mean, and so how many of those found once are of this kind; the rest are private. The
        more are found twice, the fewer are left to be found: a bound from below by Chao and Lin (Biometrics 68, 2012,
        912) for a sample without replacement.

        Args:
            once: Lines that one cluster touches.
            twice: Lines that two clusters touch.
            more: Lines that more than two touch.
        """
        if self.fraction >= 1 or not once:
            return 1.0
        left = 1 - self.fraction
        shared = min(once, 2 * twice / _mean_finds(more / twice)) if twice else 0.0
        pairs = 2 * twice * self.clusters / max(1, self.clusters - 1)
        private_left = (once - shared) * left / self.fraction
        shared_left = shared**2 * left / (shared * self.fraction + pairs * left) if shared else 0.0
        return 1 + (private_left + shared_left) / once


def _mean_finds(ratio: float) -> float:
    """Mean of a Poisson distribution in which three and more are ``ratio`` times as frequent as two."""
    low, high = 0.0, _MOST_FINDS
    for _ in range(_HALVINGS):
        mean = (low + high) / 2
        # exp(mean) less its series to the second order, over the term of the second order; the series where that is 0.
        found = (math.expm1(mean) - mean - mean**2 / 2) / (mean**2 / 2) if mean > _SMALL else mean / 3
        low, high = (mean, high) if found < ratio else (low, mean)
    return max(low, _SMALL)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Distinct lines of the workgroups that ran.

    Attributes:
        entries: ``LINE``, one for each line, ascending.
        stride: Lines that each of them stands for.
    """

    entries: np.ndarray
    stride: int = 1

    @property
    def lines(self) -> np.ndarray:
        """uint64, ascending."""
        return np.asarray(self.entries["line"])

    @property
    def touched_bytes(self) -> np.ndarray:
        """int64, bytes touched in each line."""
        return np.bitwise_count(self.entries["low"]).astype(np.int64) + np.bitwise_count(self.entries["high"])

    @property
    def xcds(self) -> np.ndarray:
        """int64, XCDs that touched each line."""
        return np.asarray(np.bitwise_count(self.entries["once"]).astype(np.int64))

    def total(self, values: np.ndarray | None = None) -> int:
        """The sum over the workgroups that ran; None counts the lines."""
        return self.stride * (len(self.entries) if values is None else int(values.sum()))

    def scaled(self, growth: Growth) -> float:
        """Lines over the whole grid."""
        if growth.fraction >= 1:
            return self.total()
        clusters = self.entries["clusters"]
        return max(self.total(), self.stride * self._grown(growth, self._new, clusters == 2, clusters > 2))

    def scaled_on_xcds(self, growth: Growth) -> float:
        """Lines of each XCD over the whole grid, summed."""
        if growth.fraction >= 1:
            return self.total(self.xcds)
        found = (np.bitwise_count(bits) for bits in (self._new_on, self._twice_on, self.entries["thrice"]))
        return max(self.total(self.xcds), self.stride * self._grown(growth, *found))

    def _grown(self, growth: Growth, *found: np.ndarray) -> float:
        """Finds over the whole grid of what one cluster, two or more find, each by line.

        Lines of one instruction are of one kind, more or less: all workgroups read the row of the pivot, and each its
        own part of the matrix that has it. So they grow apart.
        """
        counts = [np.bincount(self.entries["instruction"], weights=times) for times in found]
        return sum(
            twice + more + growth.factor(once, twice, more) * once for once, twice, more in zip(*counts, strict=True)
        )

    def new_by_cluster(self, growth: Growth, *, per_xcd: bool) -> np.ndarray:
        """float64, lines that each cluster alone touched and not what runs before its counted workgroups.

        Args:
            growth: The sample.
            per_xcd: Count a line for each XCD.
        """
        new = np.bitwise_count(self._new_on) if per_xcd else self._new
        return self.stride * np.bincount(self.entries["cluster"] - 1, weights=new, minlength=growth.clusters)

    @property
    def _new(self) -> np.ndarray:
        return np.asarray(self.entries["new"] & (self.entries["clusters"] == 1))

    @property
    def _new_on(self) -> np.ndarray:
        return np.asarray(self.entries["new_on"] & ~self.entries["twice"])

    @property
    def _twice_on(self) -> np.ndarray:
        return np.asarray(self.entries["twice"] & ~self.entries["thrice"])

    def part(self, first: int, last: int) -> Footprint:
        """The lines at some positions."""
        return Footprint(self.entries[first:last], self.stride)


@dataclass(frozen=True, slots=True)
class GridLines:
    """What a grid touches, as its sample says.

    Attributes:
        lines: Distinct lines.
        bytes: Distinct bytes.
        lines_on_xcds: Distinct lines of each XCD, summed.
        by_cluster: float64, what of ``lines_on_xcds`` each cluster of the sample says beyond what the buffers' sizes
            say: its variance is that of the estimate.
    """

    lines: float
    bytes: float
    lines_on_xcds: float
    by_cluster: np.ndarray


def grid_lines(
    footprint: Footprint, growth: Growth, buffers: Sequence[BufferRange], *, line_bytes: int, xcds: int
) -> GridLines:
    """The distinct lines of a whole grid, no more in any buffer than it has.

    Lines grow by those that counted workgroups touch first. Where panels are long this is a rare event: a buffer of
    which the sample cannot rule out that the grid touches all of it is taken to be touched in full, and what XCDs
    share of it is as ``_filled`` says.

    Args:
        footprint: Lines of the workgroups that ran.
        growth: The sample.
        buffers: Buffers of the launch; lines outside all of them grow without a bound.
        line_bytes: Bytes of a line.
        xcds: Caches that may each fetch a line.
    """
    lines = touched = on_xcds = 0.0
    by_cluster = np.zeros(growth.clusters)
    for buffer, part in _by_buffer(footprint, buffers, line_bytes):
        if not len(part.entries):
            continue
        bound = float(_line_count(buffer, line_bytes)) if buffer else float("inf")
        grown, grown_on_xcds = part.scaled(growth), part.scaled_on_xcds(growth)
        if growth.fraction < 1:
            new, new_on = (part.new_by_cluster(growth, per_xcd=per_xcd) for per_xcd in (False, True))
            if _may_be(part, growth, bound, grown=grown, new=new):
                grown_on_xcds, by_line, by_pair = _filled(
                    grown, grown_on_xcds, bound, xcds=xcds if growth.clusters > 1 else None
                )
                new_on = by_pair * new_on + by_line * new
                grown = bound
            by_cluster += new_on
        found = min(grown, bound)
        lines += found
        on_xcds += min(grown_on_xcds, xcds * bound)
        touched += _bytes_of(part, growth, buffer, lines=found, is_full=found == bound)
    return GridLines(lines, touched, on_xcds, by_cluster)


def _filled(grown: float, grown_on_xcds: float, bound: float, *, xcds: int | None) -> tuple[float, float, float]:
    """Lines of each XCD, summed, of a buffer that the grid touches in full, and how they grow with both estimates.

    With more lines than the buffer has, the grid touches each several times, so far apart that no cluster sees it: as
    the rows and the columns of a matrix do in different workgroups. Each time some XCDs fetch it, and which ones has
    nothing to do with those of the other times. With fewer, the estimate of both is too small by the same part.

    Args:
        grown: Estimated lines, as if clusters shared none but those that they are known to share.
        grown_on_xcds: The same of each XCD, summed.
        bound: Lines of the buffer.
        xcds: XCDs; None if a single cluster tells nothing of what lies far apart.

    Returns:
        (lines of each XCD, summed; its derivatives by ``grown`` and by ``grown_on_xcds``).
    """
    times, each = grown / bound, grown_on_xcds / grown
    if times <= 1 or xcds is None:
        return bound * each, -each / times, 1 / times
    hit = min(each / xcds, 1 - 1e-9)
    missed = (1 - hit) ** times
    by_line = -xcds * missed * (math.log1p(-hit) + hit / (1 - hit))
    return bound * xcds * (1 - missed), by_line, missed / (1 - hit)


def _bytes_of(part: Footprint, growth: Growth, buffer: BufferRange | None, *, lines: float, is_full: bool) -> float:
    """Bytes touched in so many lines: as much of each as in those of the sample, or, where all lines are touched and
    those at the rims of the sample lack what neighbours touch, as if workgroups shared no bytes."""
    sampled = part.total(part.touched_bytes)
    grown = sampled / growth.executed if is_full and growth.fraction < 1 else sampled * lines / part.total()
    return min(grown, float(buffer.size_bytes) if buffer else float("inf"))


def _may_be(part: Footprint, growth: Growth, bound: float, *, grown: float, new: np.ndarray) -> bool:
    """Whether the grid may touch all ``bound`` lines of a buffer.

    The lines of the sample reach from end to end, as far as so many clusters can tell; they would be enough if they
    shared nothing with the rest; and the estimate ``grown`` is within so many standard errors.
    """
    span = float(part.lines[-1] - part.lines[0]) + part.stride
    # Of a range, so many random places leave out at both ends together two parts in one more than them, give or take.
    left_out = (2 + _STANDARD_ERRORS * 2**0.5) / (growth.clusters + 1)
    if span < (1 - left_out) * bound or part.total() / growth.executed < bound:
        return False
    error = new.std(ddof=1) * np.sqrt(len(new)) / growth.fraction if len(new) > 1 else np.inf
    return not new.any() or bool(abs(grown - bound) <= _STANDARD_ERRORS * error)


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


@compiled_borrowing
def _slot(table: np.ndarray, line: Any) -> Any:
    """Entry of a line, or the free one where it belongs."""
    mask = len(table) - 1
    slot = np.int64((line * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[slot]["cluster"] != 0 and table[slot]["line"] != line:
        slot = (slot + 1) & mask
    return slot


@compiled_borrowing
def _insert(
    table: np.ndarray,
    events: np.ndarray,
    first_kind: Any,
    last_kind: Any,
    clusters: np.ndarray,
    counted: np.ndarray,
    near: Any,
    stride: Any,
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
        cluster, is_counted = clusters[event["slot"]] + 1, counted[event["slot"]]
        xcd = np.uint16(1 << event["xcd"])
        if entry["cluster"] == 0 or abs(entry["cluster"] - cluster) > near:
            if entry["cluster"] == 0:
                entry["line"] = event["line"]
                entry["instruction"] = event["instruction"]
                new += 1
            entry["cluster"] = cluster
            entry["clusters"] = min(entry["clusters"] + 1, 3)
            entry["new"] = is_counted
            entry["now"] = np.uint16(0)
        if not entry["now"] & xcd:
            if is_counted:
                entry["new_on"] |= xcd
            entry["thrice"] |= entry["twice"] & xcd
            entry["twice"] |= entry["once"] & xcd
            entry["once"] |= xcd
            entry["now"] |= xcd
        entry["low"] |= event["low"]
        entry["high"] |= event["high"]
    return new


@compiled_borrowing
def _gather(table: np.ndarray, places: np.ndarray, found: np.ndarray) -> None:
    """Copy entries; several times as fast as an array of places is for records."""
    for position in range(len(places)):
        found[position] = table[places[position]]


@compiled_borrowing
def _rehash(table: np.ndarray, grown: np.ndarray) -> None:
    for position in range(len(table)):
        if table[position]["cluster"] != 0:
            grown[_slot(grown, table[position]["line"])] = table[position]
