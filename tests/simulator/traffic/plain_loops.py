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
    before: tuple[object, ...] = ()
    run: tuple[object, ...] = ()
    group: set[int] = set()
    written: set[int] = set()
    for quad in range(16):
        lanes = [lane for lane in active_lanes(exec_mask) if lane // 4 == quad]
        segments = list(
            dict.fromkeys(s for lane in lanes for s in (address[lane] >> 6, address[lane] + width - 1 >> 6))
        )
        origins = {address[lane] - width * lane for lane in lanes}
        places = {address[lane] for lane in lanes}
        shape: tuple[object, ...] = ()
        if len(places) == 1:
            shape = ("uniform", *places)
        elif len(origins) == 1:
            shape = ("contiguous", *origins)
        columns = Counter({address[lane] >> 2: address[lane] >> 2 & 3 for lane in lanes}.values()) if width <= 4 else {}
        clk = max([len(segments), *columns.values()])
        quad_clk += clk
        # Quads of 16 lanes go together if they continue one another, those of no more than 64 bytes.
        together = 4 if shape[:1] == ("uniform",) else min(4, max(1, 16 // width))
        if shape and shape == before and quad % together:
            run_clk += len(set(segments) - group)
            group |= set(segments)
        else:
            run_clk += clk
            group = set(segments)
        before = shape
        # A run lies in one segment and makes one request.
        key = (*shape, *segments) if shape and len(segments) == 1 else ()
        if not key or key != run:
            partial += bool(run) and len(written) < 64
            run, written = key, set()
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


def l2_channel(line: int, *, hashed: bool) -> int:
    """Channel of a 128-byte line: address bits 8 to 11, the groups of four above them on top."""
    address = line << 7
    channel = address >> 8 & 15
    for bit in range(12, 60 if hashed else 0):
        channel ^= (address >> bit & 1) << bit % 4
    return channel


def l2_set(line: int, *, hashed: bool) -> int:
    """Set of a line among 2,048: address bit 7, the channel, and bits 12 to 17 with the groups of six above on top."""
    address = line << 7
    above = address >> 12 & 63
    for bit in range(18, 60 if hashed else 0):
        above ^= (address >> bit & 1) << bit % 6
    return address >> 7 & 1 | l2_channel(line, hashed=hashed) << 1 | above << 5


def split_mix(word: int) -> int:
    """SplitMix's finaliser."""
    mask = (1 << 64) - 1
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
    word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
    return word ^ word >> 31


def scattered_set(line: int, sets: int) -> int:
    """Set of a line where nobody knows the map: the upper half of its hash scaled to the sets."""
    return (split_mix(line) >> 32) * sets >> 32


def l1_misses(lines: Iterable[int], ways: int) -> list[int]:
    """Lines of a stream of reads that miss an L1 of four sets, which their lowest two bits number."""
    sets: list[list[int]] = [[], [], [], []]
    missed: list[int] = []
    for line in lines:
        held = sets[line % 4]
        if line in held:
            continue
        if len(held) < ways:
            held.append(line)
        else:
            held[split_mix(line + len(missed)) % ways] = line
        missed.append(line)
    return missed


class Hierarchy:
    """The L2s and the memory-side cache over a stream of line accesses; a dirty byte is a member of a set."""

    def __init__(self, xcds: int, mall_sets: int, *, hashed: bool) -> None:
        self.l2 = [LruSets(2048, 16) for _ in range(xcds)]
        self.filled: set[tuple[int, int]] = set()
        self.mall = LruSets(mall_sets, 16)
        self.mall_sets, self.hashed = mall_sets, hashed
        self.counts: Counter[str] = Counter()
        # Steps in which lines were asked for: of HBM, and by an L2, there with whether HBM had to be waited for.
        self.fetched: dict[int, int] = {}
        self.brought: dict[tuple[int, int], tuple[int, bool]] = {}

    def _mall(self, line: int, dirtied: set[int], *, step: int | None = None) -> bool:
        """Touch the memory-side cache; ``dirtied`` holds 32-byte sectors, ``step`` says that HBM is asked."""
        index = scattered_set(line, self.mall_sets)
        hit, victim = self.mall.access(line, index)
        if not hit:
            self.fetched[line] = -1 if step is None else step
        if victim:
            self.counts["hbm_write_bytes"] += 32 * len(victim[1])
        self.mall.sets[index][line] |= dirtied
        return hit

    def _write_back(self, line: int, dirty: set[int]) -> None:
        for half in (0, 64):
            written = {byte for byte in dirty if half <= byte < half + 64}
            sectors = {byte // 32 for byte in written}
            self.counts["fabric_writes"] += 1 if len(written) == 64 else len(sectors)
            self.counts["fabric_write_bytes"] += 32 * len(sectors)
        self._mall(line, {byte // 32 for byte in dirty})

    def access(self, xcd: int, line: int, kind: str, touched: set[int], step: int) -> None:
        if kind == "atomic":
            hit = self._mall(line, {byte // 32 for byte in touched}, step=step)
            self.counts["mall_hits"] += hit
            self.counts["hbm_reads"] += not hit
            return
        index = l2_set(line, hashed=self.hashed)
        hit, victim = self.l2[xcd].access(line, index)
        if victim:
            self.filled.discard((xcd, victim[0]))
            if victim[1]:
                self._write_back(*victim)
        if not hit:
            self.brought[xcd, line] = -1, False
        dirty = self.l2[xcd].sets[index][line]
        if kind == "write":
            self.counts["l2_hits"] += hit
            dirty |= touched
            return
        if hit and ((xcd, line) in self.filled or touched <= dirty):
            self.counts["l2_hits"] += 1
            came, from_hbm = self.brought[xcd, line]
            self.counts["l2_joined"] += came == step
            self.counts["mall_joined"] += came == step and from_hbm
            return
        self.filled.add((xcd, line))
        self.counts["fabric_reads"] += 1
        mall_hit = self._mall(line, set(), step=step)
        self.counts["mall_hits"] += mall_hit
        self.counts["mall_joined"] += mall_hit and self.fetched[line] == step
        self.brought[xcd, line] = step, self.fetched[line] == step
        self.counts["hbm_reads"] += not mall_hit

    def drain(self) -> int:
        """Write back all that is dirty; returns the bytes that the L2s wrote."""
        before = self.counts["fabric_write_bytes"]
        for cache in self.l2:
            for entries in cache.sets:
                for line, dirty in entries.items():
                    if dirty:
                        self._write_back(line, dirty)
        self.counts["hbm_write_bytes"] += 32 * sum(len(d) for entries in self.mall.sets for d in entries.values())
        return self.counts["fabric_write_bytes"] - before
