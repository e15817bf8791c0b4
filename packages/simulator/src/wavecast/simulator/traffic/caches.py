"""L2 and memory-side cache, simulated over the line accesses of co-resident workgroups that L1 lets through.

* L2 of an XCD: 16 ways, write-back with a byte mask, least recently used out first. A write allocates without reading.
  What leaves is written in requests of 64 bytes, or of 32 bytes for each touched half of a segment.
* Where the device has sectors, a read brings in those it touches instead of the whole line, two neighbours at a time,
  and a sector of which only a part was written is read before it is written back.
* Memory-side cache: behind every L2. Atomics go there directly.
* What one access of a step brings in, others of the same step find on its way: they move nothing, and wait as long.
  Workgroups that read the same lines come into step by that, since who goes ahead waits for memory, and who follows
  for the L2 alone until it has caught up.

The L2 of a whole grid has its sets by an ``L2Map``, the memory-side cache by a hash of the line number, since nobody
knows its map. When only a part of the workgroups that are resident together runs, both keep that part of their sets, by
a hash, and what others would have brought in between goes through them as lines that nobody finds. When only one line
in ``stride`` is followed, they keep one set in ``stride``, and whoever reads the totals multiplies: caches treat all
lines alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_borrowing
from wavecast.simulator.devices import Device
from wavecast.simulator.traffic.l2_map import L2Map, hashed_map, l2_set_of

# A read that L1 serves touches the line but goes no further.
READ_FROM_L1, READ, WRITE, ATOMIC = -1, 0, 1, 2
WAYS = 16
# Executions of an instruction by a wave that are told apart; the last stands for all from there on.
ROUNDS = 64
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)

EVENT = np.dtype(
    [
        ("line", np.uint64),
        ("low", np.uint64),  # bytes 0 to 63 of the line that are touched
        ("high", np.uint64),  # bytes 64 to 127
        ("order", np.int32),  # position in the memory stream of its wave
        ("instruction", np.int32),
        ("slot", np.int32),  # workgroup in the batch
        ("xcd", np.int16),
        ("kind", np.int8),
        ("wave", np.int8),  # in its workgroup
        ("round", np.uint8),  # how often the wave has executed the instruction before, as far as ``ROUNDS`` tells
    ]
)


class Level(IntEnum):
    """Columns of what the simulation counts for every static instruction."""

    L1_HITS = 0
    L2_REQUESTS = 1  # of reads; those of writes and atomics do not depend on the caches
    L2_HITS = 2
    MALL_HITS = 3
    L2_SECTORS = 4  # sectors of 32 bytes that reads ask the L2 for: four a request where lines come whole
    # Of writes, where the device has sectors, and of the lines that are followed: sectors written by instructions, sent
    # to the L2, and those of them that are sent in part.
    WRITTEN_SECTORS = 5
    SENT_SECTORS = 6
    SENT_PARTIAL = 7
    # Of reads: those that find their line in the L2 while it is still on its way there, and those that wait for HBM
    # although they find theirs, in the L2 or in the memory-side cache.
    L2_JOINED = 8
    MALL_JOINED = 9


LEVELS = len(Level)
# Columns to which only the lines that are followed add.
BEYOND_L1 = (Level.L2_HITS, Level.MALL_HITS, Level.L2_JOINED, Level.MALL_JOINED)


class Flow(IntEnum):
    """Totals of the simulation."""

    FABRIC_READS = 0  # lines
    FABRIC_WRITES = 1  # requests
    FABRIC_WRITE_BYTES = 2
    HBM_READS = 3  # lines
    HBM_WRITE_BYTES = 4
    L2_FILLS = 5  # lines
    MALL_FILLS = 6
    # Of reads of a sample: those that had not missed before, of an XCD and of all, and those that had and are by
    # workgroups that the sample counts.
    FIRST_FABRIC_READS = 7
    FIRST_HBM_READS = 8
    AGAIN_FABRIC_READS = 9
    AGAIN_HBM_READS = 10
    READ_SECTORS = 11  # sectors of 32 bytes in the lines that FABRIC_READS counts: four each where lines come whole
    FILL_BYTES = 12  # read because only a part of a sector was written


@dataclass
class CacheState:
    """Contents of the caches; plain arrays that the compiled loop updates.

    Args:
        device: Sizes.
        fraction: Part that runs of the workgroups that are resident together: scales L2 and memory-side cache.
        stride: One line in so many is followed.
        l2_map: How lines go to sets of the L2; None for the hashed map of the device.
    """

    device: Device
    fraction: float
    stride: int = 1
    l2_map: L2Map | None = None
    l2_tags: np.ndarray = field(init=False)
    l2_used: np.ndarray = field(init=False)
    l2_masks: np.ndarray = field(init=False)
    l2_filled: np.ndarray = field(init=False)
    l2_brought: np.ndarray = field(init=False)
    l2_sets: np.ndarray = field(init=False)
    mall_tags: np.ndarray = field(init=False)
    mall_used: np.ndarray = field(init=False)
    mall_dirty: np.ndarray = field(init=False)
    mall_brought: np.ndarray = field(init=False)
    mall_sets: np.ndarray = field(init=False)
    totals: np.ndarray = field(init=False)
    clock: np.ndarray = field(init=False)
    map: np.ndarray = field(init=False)
    missed: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        line, xcds = self.device.l2.line_bytes, self.device.compute.num_xcd
        l2_sets = _scaled_sets(self.device.l2.bytes_per_xcd, line, self.device.l2.ways, self.fraction / self.stride)
        # A launch touches few sets, as a rule: a set gets its content when it is first touched, and only those that
        # were are looked at in the end. The first number is how many there are, behind it their numbers stand in that
        # order, counted through all XCDs, and behind those a mark for each set.
        mall_sets = _scaled_sets(self.device.mall.bytes, line, WAYS, self.fraction / self.stride)
        shape = (xcds, l2_sets, self.device.l2.ways), (1, mall_sets, WAYS)
        arrays = _arrays_of(shape)
        self._arrays: _Arrays | None = arrays
        self.l2_tags, self.l2_used, self.l2_masks = arrays.l2_tags, arrays.l2_used, arrays.l2_masks
        self.l2_filled, self.l2_brought, self.l2_sets = arrays.l2_filled, arrays.l2_brought, arrays.l2_sets
        self.mall_tags, self.mall_used = arrays.mall_tags, arrays.mall_used
        self.mall_dirty, self.mall_brought, self.mall_sets = arrays.mall_dirty, arrays.mall_brought, arrays.mall_sets
        self.totals = np.zeros(len(Flow), dtype=np.int64)
        l2_map = self.l2_map or hashed_map(self.device)
        stride_bits = self.stride.bit_length() - 1
        is_sectored = self.device.l2.sector_bytes is not None
        self.map = np.array([self.fraction >= 1, stride_bits, *l2_map, is_sectored], dtype=np.int64)
        self.clock = np.zeros(1, dtype=np.int64)
        # Of a sample, lines that missed: a hash table of a line, a bit for each XCD on which it missed the L2, and the
        # last bit if it missed the memory-side cache. An entry without bits is free.
        self.missed = np.zeros((1, 2), dtype=np.uint64)

    @property
    def dirty_lines_per_xcd(self) -> float:
        """Dirty lines in an L2 now, scaled back to all workgroups and lines and bounded by its capacity."""
        xcds, sets, ways = self.l2_tags.shape
        masks = self.l2_masks.reshape(xcds * sets, ways, 2)[_touched(self.l2_sets)]
        dirty = np.count_nonzero(masks[..., 0] | masks[..., 1]) / xcds
        capacity = self.device.l2.bytes_per_xcd / self.device.l2.line_bytes
        return float(min(dirty * self._lines_for_each, capacity))

    @property
    def _lines_for_each(self) -> float:
        """Lines of an L2 that each of those in it now stands for; those passed over are taken to be alike."""
        touched, ways = _touched(self.l2_sets), self.l2_tags.shape[2]
        tags, used = self.l2_tags.reshape(-1, ways)[touched], self.l2_used.reshape(-1, ways)[touched]
        held = int(np.count_nonzero(tags != EMPTY))
        passed = int(np.count_nonzero((tags == EMPTY) & (used > 0)))
        return self.stride / min(1.0, self.fraction) * (1 + passed / max(1, held))

    def run(self, events: np.ndarray, levels: np.ndarray, counted: np.ndarray | None = None) -> None:
        """Send a batch through the caches, all its workgroups side by side.

        Args:
            events: ``EVENT`` records of the batch in the order of execution.
            levels: int64 (instructions, LEVELS), added to by the lines that are followed.
            counted: bool, whether a sample counts the workgroup of each slot; None for all.
        """
        if counted is None:
            counted = np.ones(int(events["slot"].max(initial=0)) + 1, dtype=np.bool_)
        if self.fraction < 1:
            held = int(np.count_nonzero(self.missed[:, 1]))
            if 2 * (held + len(events)) > len(self.missed):
                grown = np.zeros((1 << (2 * (held + len(events))).bit_length(), 2), dtype=np.uint64)
                _move_missed(self.missed, grown)
                self.missed = grown
        _run(
            events,
            in_step(events["order"]),
            self.l2_tags,
            self.l2_used,
            self.l2_masks,
            self.l2_filled,
            self.l2_brought,
            self.l2_sets,
            self.mall_tags,
            self.mall_used,
            self.mall_dirty,
            self.mall_brought,
            self.mall_sets,
            levels,
            counted,
            self.missed,
            self.totals,
            self.clock,
            self.stride,
            self.map,
        )

    def pass_over(self, l2_lines_per_xcd: float, mall_lines: float) -> None:
        """Let lines through that nobody finds again, those of workgroups that do not run.

        Args:
            l2_lines_per_xcd: Lines that each L2, of its present size, takes in.
            mall_lines: Lines that the memory-side cache takes in.
        """
        mall = self.mall_tags, self.mall_used, self.mall_dirty, self.mall_brought, self.mall_sets
        l2 = self.l2_tags, self.l2_used, self.l2_masks, self.l2_filled, self.l2_sets
        _pass_over_l2(*l2, l2_lines_per_xcd, *mall, self.totals, self.clock, self.map[-1])
        of_mall = self.mall_tags, self.mall_used, self.mall_dirty, self.mall_sets
        _pass_over_mall(*of_mall, mall_lines, self.totals, self.clock)

    def fill_mall(self, lines: np.ndarray) -> None:
        """Put clean lines into the memory-side cache, the least recently used first, before anything runs."""
        fills = int(self.totals[Flow.MALL_FILLS])
        mall = self.mall_tags, self.mall_used, self.mall_dirty, self.mall_brought, self.mall_sets
        _fill_mall(lines, *mall, self.totals, self.clock)
        self.totals[Flow.MALL_FILLS] = fills

    @property
    def mall_lines(self) -> np.ndarray:
        """Lines in the memory-side cache now, uint64, the least recently used first."""
        touched = _touched(self.mall_sets)
        tags, used = self.mall_tags[0, touched], self.mall_used[0, touched]
        held = tags != EMPTY
        return np.asarray(tags[held][np.argsort(used[held])])

    def release(self) -> None:
        """Let another state have the memory; this one must not be used any more."""
        if self._arrays is None:
            return
        arrays, self._arrays = self._arrays, None
        arrays.close_sets()
        _spare[:] = [arrays, *(other for other in _spare if other.shape == arrays.shape)][:_MOST_SPARE]

    def drain(self) -> int:
        """Write back what is dirty at the end of the launch: L2 to the fabric, then the memory-side cache to HBM.

        Returns:
            Bytes that all L2s wrote, scaled back to all workgroups and lines and bounded by their capacity.
        """
        before, lines_for_each = int(self.totals[Flow.FABRIC_WRITE_BYTES]), self._lines_for_each
        mall = self.mall_tags, self.mall_used, self.mall_dirty, self.mall_brought, self.mall_sets
        l2_sets = np.sort(_touched(self.l2_sets))
        _drain(self.l2_tags, self.l2_masks, self.l2_filled, l2_sets, *mall, self.totals, self.clock, self.map[-1])
        written = (int(self.totals[Flow.FABRIC_WRITE_BYTES]) - before) * lines_for_each
        return min(round(written), self.device.l2.bytes_per_xcd * self.device.compute.num_xcd)


class _Arrays:
    """Memory of the caches. A set means nothing before it is opened, so the next launch can have it as it is.

    To map it anew costs more than to simulate a small launch.
    """

    def __init__(self, shape: tuple[tuple[int, int, int], tuple[int, int, int]]) -> None:
        self.shape = l2, mall = shape
        self.l2_tags, self.l2_used = np.empty(l2, dtype=np.uint64), np.empty(l2, dtype=np.int64)
        self.l2_masks, self.l2_filled = np.empty((*l2, 2), dtype=np.uint64), np.empty(l2, dtype=np.uint8)
        # When each line came, negative if it came from HBM; 0 if it was made here.
        self.l2_brought, self.mall_brought = np.empty(l2, dtype=np.int64), np.empty(mall, dtype=np.int64)
        self.l2_sets = np.zeros(1 + 2 * l2[0] * l2[1], dtype=np.int64)
        self.mall_tags, self.mall_used = np.empty(mall, dtype=np.uint64), np.empty(mall, dtype=np.int64)
        self.mall_dirty = np.empty(mall, dtype=np.uint8)
        self.mall_sets = np.zeros(1 + 2 * mall[1], dtype=np.int64)

    def close_sets(self) -> None:
        """No set is open any more."""
        for sets in (self.l2_sets, self.mall_sets):
            sets[1 + len(sets) // 2 + _touched(sets)] = 0
            sets[0] = 0


# Of launches before: those of the last shape, one for each map.
_spare: list[_Arrays] = []
_MOST_SPARE = 2


def _arrays_of(shape: tuple[tuple[int, int, int], tuple[int, int, int]]) -> _Arrays:
    """Memory of a launch before if it fits, or new one."""
    try:
        arrays = _spare.pop()
    except IndexError:
        return _Arrays(shape)
    return arrays if arrays.shape == shape else _Arrays(shape)


def _touched(sets: np.ndarray) -> np.ndarray:
    """Numbers of the sets that were touched, in that order."""
    return sets[1 : 1 + sets[0]]


def _scaled_sets(capacity: int, line: int, ways: int, fraction: float) -> int:
    return max(1, round(capacity / line / ways * min(1.0, fraction)))


@compiled
def is_followed(line: Any, stride: Any) -> Any:
    """Whether a line is the one of its ``stride`` neighbours that goes through the caches for all of them.

    Of each two neighbours one is chosen, of each two chosen ones again one, and so on: a contiguous range is
    represented evenly, and what a larger stride follows, a smaller one follows too. Which of the two looks random, so
    that no regular pattern falls in step with it.

    Args:
        line: uint64.
        stride: A power of two.
    """
    pairs = np.uint64(stride)
    while pairs > np.uint64(1):
        # Two choices at once: a processor cannot foresee how one ends, and most lines lose one of two.
        lost = mixed(line >> np.uint64(1)) ^ line
        if pairs > np.uint64(2):
            lost |= mixed(line >> np.uint64(2)) ^ (line >> np.uint64(1))
        if lost & np.uint64(1):
            return False
        line >>= np.uint64(2)
        pairs >>= np.uint64(2)
    return True


@compiled
def in_step(order: np.ndarray) -> np.ndarray:
    """Positions of events by their place in the streams, equal ones as they come: a stable counting sort."""
    # A loop: the compiler needs seconds for ``max`` of an array.
    last = 0
    for place in order:
        last = max(last, place)
    starts = np.zeros(last + 2, dtype=np.int64)
    for place in order:
        starts[place + 1] += 1
    for place in range(1, len(starts)):
        starts[place] += starts[place - 1]
    positions = np.zeros(len(order), dtype=np.int32)
    for position in range(len(order)):
        positions[starts[order[position]]] = position
        starts[order[position]] += 1
    return positions


@compiled
def mixed(word: Any) -> Any:
    """The 64-bit finaliser of SplitMix, whose every output bit depends on every input bit.

    A single multiplication does not do: rows of a matrix would crowd into a third of the sets.
    """
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled
def set_of(line: Any, sets: Any) -> Any:
    """Set of a line: a multiplication maps its hash onto the sets as evenly as a remainder does, and faster."""
    return np.int64(((mixed(line) >> np.uint64(32)) * np.uint64(sets)) >> np.uint64(32))


@compiled_borrowing
def find_way(tags: np.ndarray, used: np.ndarray, line: Any, now: Any) -> Any:
    """(way, hit): where the line is, or the way that it replaces; the way counts as used now."""
    for way in range(tags.shape[0]):
        if tags[way] == line:
            used[way] = now
            return way, True
    victim = 0
    for way in range(1, tags.shape[0]):
        if used[way] < used[victim]:
            victim = way
    used[victim] = now
    return victim, False


@compiled
def _half_requests(mask: Any) -> Any:
    """(requests, bytes) that write one 64-byte segment of which ``mask`` is dirty."""
    if mask == np.uint64(0):
        return 0, 0
    if mask == EMPTY:
        return 1, 64
    low = 1 if mask & np.uint64(0xFFFFFFFF) else 0
    high = 1 if mask >> np.uint64(32) else 0
    return low + high, 32 * (low + high)


@compiled
def _sectors(low: Any, high: Any) -> Any:
    """A bit for every 32-byte sector with a dirty byte."""
    bits = 0
    if low & np.uint64(0xFFFFFFFF):
        bits |= 1
    if low >> np.uint64(32):
        bits |= 2
    if high & np.uint64(0xFFFFFFFF):
        bits |= 4
    if high >> np.uint64(32):
        bits |= 8
    return np.uint8(bits)


@compiled
def sectors_of(low: Any, high: Any) -> Any:
    """As ``_sectors``, as an integer."""
    return np.int64(_sectors(low, high))


@compiled
def _bytes_of_pair(bits: Any) -> Any:
    """Mask of the bytes of two sectors of which the lower two bits say whether they are meant."""
    low = np.uint64(0xFFFFFFFF) if bits & 1 else np.uint64(0)
    return low | (np.uint64(0xFFFFFFFF) << np.uint64(32) if bits & 2 else np.uint64(0))


@compiled
def _fill_bytes(low: Any, high: Any, filled: Any) -> Any:
    """Bytes to read before a line is written back: of sectors that are dirty in part and were not brought in."""
    count = 0
    for sector in range(4):
        mask = low if sector < 2 else high
        part = (mask >> np.uint64(32)) if sector & 1 else mask & np.uint64(0xFFFFFFFF)
        is_partial = part != np.uint64(0) and part != np.uint64(0xFFFFFFFF)
        count += is_partial and not (np.int64(filled) >> sector) & 1
    return 32 * count


@compiled
def _sector_bytes(bits: Any) -> Any:
    count = 0
    for sector in range(4):
        count += (int(bits) >> sector) & 1
    return 32 * count


@compiled
def _open(sets: np.ndarray, number: Any) -> Any:
    """Mark a set as touched; whether it was not before, and has to be emptied."""
    mark = 1 + len(sets) // 2 + number
    if sets[mark] != 0:
        return False
    sets[mark] = 1
    sets[0] += 1
    sets[sets[0]] = number
    return True


@compiled_borrowing
def _open_l2(
    tags: np.ndarray,
    used: np.ndarray,
    masks: np.ndarray,
    filled: np.ndarray,
    sets: np.ndarray,
    xcd: Any,
    index: Any,
) -> Any:
    """Empty a set of an L2 unless it was touched before."""
    if _open(sets, xcd * tags.shape[1] + index):
        for way in range(tags.shape[2]):
            tags[xcd, index, way], used[xcd, index, way], filled[xcd, index, way] = EMPTY, 0, 0
            masks[xcd, index, way, 0] = masks[xcd, index, way, 1] = np.uint64(0)


@compiled_borrowing
def _touch_mall(
    tags: np.ndarray,
    used: np.ndarray,
    dirty: np.ndarray,
    brought: np.ndarray,
    sets: np.ndarray,
    line: Any,
    dirtied: Any,
    totals: np.ndarray,
    now: Any,
    is_fetched: Any,
) -> Any:
    """Access the memory-side cache; what leaves it dirty is written to HBM.

    Args:
        brought: int64, when each line was fetched from HBM; 0 if it was written.
        is_fetched: Whether HBM is asked for what is missing.

    Returns:
        (whether it hit, when the line was fetched).
    """
    index = set_of(line, tags.shape[1])
    if _open(sets, index):
        for way in range(tags.shape[2]):
            tags[0, index, way], used[0, index, way], dirty[0, index, way] = EMPTY, 0, 0
    way, hit = find_way(tags[0, index], used[0, index], line, now)
    if not hit:
        totals[Flow.MALL_FILLS] += 1
        totals[Flow.HBM_WRITE_BYTES] += _sector_bytes(dirty[0, index, way])
        tags[0, index, way] = line
        dirty[0, index, way] = 0
        brought[0, index, way] = now if is_fetched else 0
    dirty[0, index, way] |= dirtied
    return hit, brought[0, index, way]


@compiled_borrowing
def _fill_mall(
    lines: np.ndarray,
    tags: np.ndarray,
    used: np.ndarray,
    dirty: np.ndarray,
    brought: np.ndarray,
    sets: np.ndarray,
    totals: np.ndarray,
    clock: np.ndarray,
) -> Any:
    for line in lines:
        clock[0] += 1
        _touch_mall(tags, used, dirty, brought, sets, line, np.uint8(0), totals, clock[0], False)


@compiled_borrowing
def _write_back(
    line: Any,
    low: Any,
    high: Any,
    mall_tags: np.ndarray,
    mall_used: np.ndarray,
    mall_dirty: np.ndarray,
    mall_brought: np.ndarray,
    mall_sets: np.ndarray,
    totals: np.ndarray,
    now: Any,
) -> Any:
    for mask in (low, high):
        requests, size = _half_requests(mask)
        totals[Flow.FABRIC_WRITES] += requests
        totals[Flow.FABRIC_WRITE_BYTES] += size
    mall = mall_tags, mall_used, mall_dirty, mall_brought, mall_sets
    _touch_mall(*mall, line, _sectors(low, high), totals, now, False)


@compiled_borrowing
def missed_slot(missed: np.ndarray, line: Any) -> Any:
    """Entry of a line, or the free one where it belongs."""
    mask = len(missed) - 1
    slot = np.int64(mixed(line) >> np.uint64(16)) & mask
    while missed[slot, 1] != 0 and missed[slot, 0] != line:
        slot = (slot + 1) & mask
    return slot


@compiled_borrowing
def _move_missed(missed: np.ndarray, grown: np.ndarray) -> Any:
    for place in range(len(missed)):
        if missed[place, 1] != 0:
            at = missed_slot(grown, missed[place, 0])
            grown[at, 0] = missed[place, 0]
            grown[at, 1] = missed[place, 1]


@compiled_borrowing
def _run(
    events: np.ndarray,
    order: np.ndarray,
    l2_tags: np.ndarray,
    l2_used: np.ndarray,
    l2_masks: np.ndarray,
    l2_filled: np.ndarray,
    l2_brought: np.ndarray,
    l2_sets: np.ndarray,
    mall_tags: np.ndarray,
    mall_used: np.ndarray,
    mall_dirty: np.ndarray,
    mall_brought: np.ndarray,
    mall_sets: np.ndarray,
    levels: np.ndarray,
    counted: np.ndarray,
    missed: np.ndarray,
    totals: np.ndarray,
    clock: np.ndarray,
    stride: Any,
    l2_map: np.ndarray,
) -> Any:
    now = clock[0]
    is_whole, is_sectored = l2_map[0] != 0, l2_map[-1] != 0
    none, beyond = np.uint64(0), np.uint64(1) << np.uint64(63)
    mall = mall_tags, mall_used, mall_dirty, mall_brought, mall_sets
    step, step_began = np.int32(-1), now
    for position in order:
        event = events[position]
        line, kind, instruction, xcd = event["line"], event["kind"], event["instruction"], event["xcd"]
        if event["order"] != step:
            step, step_began = event["order"], now
        if kind == READ_FROM_L1 or not is_followed(line, stride):
            continue
        now += 1
        if kind == ATOMIC:
            hit, _ = _touch_mall(*mall, line, _sectors(event["low"], event["high"]), totals, now, True)
            levels[instruction, Level.MALL_HITS] += hit
            totals[Flow.HBM_READS] += not hit
            if not hit and not is_whole:
                at = missed_slot(missed, line)
                is_again = missed[at, 1] & beyond != none
                totals[Flow.FIRST_HBM_READS] += not is_again
                totals[Flow.AGAIN_HBM_READS] += is_again and counted[event["slot"]]
                missed[at, 0] = line
                missed[at, 1] |= beyond
            continue
        sets = l2_tags.shape[1]
        index = (
            l2_set_of(line, l2_map[1], l2_map[2], l2_map[3], l2_map[4], l2_map[5]) if is_whole else set_of(line, sets)
        )
        _open_l2(l2_tags, l2_used, l2_masks, l2_filled, l2_sets, xcd, index)
        way, hit = find_way(l2_tags[xcd, index], l2_used[xcd, index], line, now)
        masks = l2_masks[xcd, index, way]
        if not hit:
            totals[Flow.L2_FILLS] += 1
            if masks[0] | masks[1]:
                if is_sectored:
                    totals[Flow.FILL_BYTES] += _fill_bytes(masks[0], masks[1], l2_filled[xcd, index, way])
                _write_back(l2_tags[xcd, index, way], masks[0], masks[1], *mall, totals, now)
            l2_tags[xcd, index, way] = line
            l2_filled[xcd, index, way] = 0
            l2_brought[xcd, index, way] = 0
            masks[0] = np.uint64(0)
            masks[1] = np.uint64(0)
        if kind == WRITE:
            levels[instruction, Level.L2_HITS] += hit
            masks[0] |= event["low"]
            masks[1] |= event["high"]
            continue
        have = np.int64(l2_filled[xcd, index, way])
        low, high = masks[0] | _bytes_of_pair(have), masks[1] | _bytes_of_pair(have >> 2)
        if hit and event["low"] & ~low == 0 and event["high"] & ~high == 0:
            levels[instruction, Level.L2_HITS] += 1
            came = l2_brought[xcd, index, way]
            levels[instruction, Level.L2_JOINED] += abs(came) > step_began
            levels[instruction, Level.MALL_JOINED] += -came > step_began
            continue
        # Two sectors that are neighbours come together.
        brought = np.int64(15)
        if is_sectored:
            brought = np.int64(3 if event["low"] & ~low != 0 else 0) | np.int64(12 if event["high"] & ~high != 0 else 0)
        for sector in range(4):
            totals[Flow.READ_SECTORS] += (brought & ~have) >> sector & 1
        l2_filled[xcd, index, way] = have | brought
        totals[Flow.FABRIC_READS] += 1
        mall_hit, fetched = _touch_mall(*mall, line, np.uint8(0), totals, now, True)
        levels[instruction, Level.MALL_HITS] += mall_hit
        levels[instruction, Level.MALL_JOINED] += mall_hit and fetched > step_began
        l2_brought[xcd, index, way] = -now if fetched > step_began else now
        totals[Flow.HBM_READS] += not mall_hit
        if is_whole:
            continue
        at = missed_slot(missed, line)
        before = missed[at, 1]
        of_xcd = np.uint64(1) << np.uint64(xcd)
        is_again = before & of_xcd != none
        totals[Flow.FIRST_FABRIC_READS] += not is_again
        totals[Flow.AGAIN_FABRIC_READS] += is_again and counted[event["slot"]]
        before |= of_xcd
        if not mall_hit:
            is_again = before & beyond != none
            totals[Flow.FIRST_HBM_READS] += not is_again
            totals[Flow.AGAIN_HBM_READS] += is_again and counted[event["slot"]]
            before |= beyond
        missed[at, 0] = line
        missed[at, 1] = before
    clock[0] = now


@compiled_borrowing
def _drain(
    l2_tags: np.ndarray,
    l2_masks: np.ndarray,
    l2_filled: np.ndarray,
    l2_sets: np.ndarray,
    mall_tags: np.ndarray,
    mall_used: np.ndarray,
    mall_dirty: np.ndarray,
    mall_brought: np.ndarray,
    mall_sets: np.ndarray,
    totals: np.ndarray,
    clock: np.ndarray,
    is_sectored: Any,
) -> Any:
    for number in l2_sets:
        xcd, index = number // l2_tags.shape[1], number % l2_tags.shape[1]
        for way in range(l2_tags.shape[2]):
            masks = l2_masks[xcd, index, way]
            if masks[0] | masks[1]:
                clock[0] += 1
                if is_sectored:
                    totals[Flow.FILL_BYTES] += _fill_bytes(masks[0], masks[1], l2_filled[xcd, index, way])
                mall = mall_tags, mall_used, mall_dirty, mall_brought, mall_sets
                _write_back(l2_tags[xcd, index, way], masks[0], masks[1], *mall, totals, clock[0])
                masks[0] = np.uint64(0)
                masks[1] = np.uint64(0)
    for place in range(1, 1 + mall_sets[0]):
        index = mall_sets[place]
        for way in range(mall_tags.shape[2]):
            totals[Flow.HBM_WRITE_BYTES] += _sector_bytes(mall_dirty[0, index, way])
            mall_dirty[0, index, way] = 0


@compiled
def _lines_of_set(lines: Any, index: Any, sets: Any, ways: Any) -> Any:
    """Lines that go to one of the sets, of so many that are spread evenly; no more than it has ways."""
    if lines >= sets * ways:
        return ways
    return np.int64(lines * (index + 1) / sets) - np.int64(lines * index / sets)


@compiled_borrowing
def _oldest(used: np.ndarray) -> Any:
    oldest = 0
    for way in range(1, len(used)):
        if used[way] < used[oldest]:
            oldest = way
    return oldest


@compiled_borrowing
def _pass_over_l2(
    tags: np.ndarray,
    used: np.ndarray,
    masks: np.ndarray,
    filled: np.ndarray,
    sets: np.ndarray,
    lines: Any,
    mall_tags: np.ndarray,
    mall_used: np.ndarray,
    mall_dirty: np.ndarray,
    mall_brought: np.ndarray,
    mall_sets: np.ndarray,
    totals: np.ndarray,
    clock: np.ndarray,
    is_sectored: Any,
) -> Any:
    clock[0] += 1
    for xcd in range(tags.shape[0]):
        for index in range(tags.shape[1]):
            passing = _lines_of_set(lines, index, tags.shape[1], tags.shape[2])
            if passing:
                _open_l2(tags, used, masks, filled, sets, xcd, index)
            for _ in range(passing):
                way = _oldest(used[xcd, index])
                held = masks[xcd, index, way]
                if held[0] | held[1]:
                    if is_sectored:
                        totals[Flow.FILL_BYTES] += _fill_bytes(held[0], held[1], filled[xcd, index, way])
                    mall = mall_tags, mall_used, mall_dirty, mall_brought, mall_sets
                    _write_back(tags[xcd, index, way], held[0], held[1], *mall, totals, clock[0])
                tags[xcd, index, way] = EMPTY
                used[xcd, index, way] = clock[0]
                held[0] = np.uint64(0)
                held[1] = np.uint64(0)


@compiled_borrowing
def _pass_over_mall(
    tags: np.ndarray,
    used: np.ndarray,
    dirty: np.ndarray,
    sets: np.ndarray,
    lines: Any,
    totals: np.ndarray,
    clock: np.ndarray,
) -> Any:
    clock[0] += 1
    for place in range(1, 1 + sets[0]):
        index = sets[place]
        for _ in range(_lines_of_set(lines, index, tags.shape[1], tags.shape[2])):
            way = _oldest(used[0, index])
            totals[Flow.HBM_WRITE_BYTES] += _sector_bytes(dirty[0, index, way])
            tags[0, index, way] = EMPTY
            used[0, index, way] = clock[0]
            dirty[0, index, way] = 0
