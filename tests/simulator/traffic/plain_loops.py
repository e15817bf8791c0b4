"""The compiled loops of the traffic stage once more, in plain Python: slow and easy to check."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence


def active_lanes(exec_mask: int) -> list[int]:
    """Lanes whose bit is set."""
    return [lane for lane in range(64) if exec_mask >> lane & 1]


def touched_bytes(address: Sequence[int], exec_mask: int, width: int) -> dict[int, set[int]]:
    """Line number to the byte positions touched in it, in order of first touch."""
    touched: dict[int, set[int]] = {}
    for lane in active_lanes(exec_mask):
        for byte in range(address[lane], address[lane] + width):
            touched.setdefault(byte >> 7, set()).add(byte & 127)
    return touched


def quad_walk(address: Sequence[int], exec_mask: int, width: int) -> tuple[int, int, int, int, Counter[int]]:
    """Cycles without and with merging, requests, partial requests, requests by line."""
    quad_clk = run_clk = requests = partial = 0
    by_line: Counter[int] = Counter()
    run: tuple[object, ...] = ()
    quads = 0
    written: set[int] = set()
    for quad in range(16):
        lanes = [lane for lane in active_lanes(exec_mask) if lane // 4 == quad]
        key: tuple[object, ...] = ()
        segments = list(
            dict.fromkeys(s for lane in lanes for s in (address[lane] >> 6, address[lane] + width - 1 >> 6))
        )
        if len(segments) == 1:
            origins = {address[lane] - width * lane for lane in lanes}
            places = {address[lane] for lane in lanes}
            if len(places) == 1:
                key = ("uniform", segments[0], places.pop())
            elif len(origins) == 1:
                key = ("contiguous", segments[0], origins.pop())
        columns = Counter({address[lane] >> 2: address[lane] >> 2 & 3 for lane in lanes}.values()) if width <= 4 else {}
        clk = max([len(segments), *columns.values()])
        quad_clk += clk
        if key and key == run:
            quads += 1
            run_clk += quads % 4 == 1
        else:
            partial += bool(run) and len(written) < 64
            run, quads, written = key, 1, set()
            run_clk += clk
            requests += len(segments)
            by_line.update(segment >> 1 for segment in segments)
            partial += 0 if key else len(segments)
        written |= {byte for lane in lanes for byte in range(address[lane], address[lane] + width)}
    partial += bool(run) and len(written) < 64
    return quad_clk, run_clk, requests, partial, by_line


def lds_conflicts(
    address: Sequence[int], exec_mask: int, width: int, phase_of_lane: Sequence[int], banks: int, *, serial: bool
) -> tuple[int, int]:
    """LDS cycles, and those of an access without conflicts."""
    cycles = free = 0
    for phase in sorted(set(phase_of_lane)):
        wanted = [
            byte >> 2
            for lane in active_lanes(exec_mask)
            if phase_of_lane[lane] == phase
            for byte in range(address[lane] & ~3, address[lane] + width, 4)
        ]
        if wanted:
            load = Counter(dword % banks for dword in (wanted if serial else set(wanted)))
            cycles += max(load.values())
            free += 1
    return cycles, free


class LruSets:
    """A set-associative cache with least-recently-used replacement; ``index`` gives the set of a line."""

    def __init__(self, sets: int, ways: int) -> None:
        self.ways = ways
        self.sets: list[OrderedDict[int, set[int]]] = [OrderedDict() for _ in range(sets)]

    def access(self, line: int, index: int) -> tuple[bool, tuple[int, set[int]] | None]:
        """Touch a line; returns whether it was there, and the line with its payload that left."""
        entries = self.sets[index]
        victim = None
        hit = line in entries
        if hit:
            entries.move_to_end(line)
        else:
            if len(entries) == self.ways:
                victim = entries.popitem(last=False)
            entries[line] = set()
        return hit, victim


def miss_count(lines: Iterable[int], sets: int, ways: int, index_of: Sequence[int]) -> int:
    """Misses of a stream of reads in one cache; ``index_of`` gives the set of each access."""
    cache = LruSets(sets, ways)
    return sum(not cache.access(line, index)[0] for line, index in zip(lines, index_of, strict=True))
