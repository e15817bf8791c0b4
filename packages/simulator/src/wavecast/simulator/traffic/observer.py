"""Turns the address trace of a launch into its traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import (
    ATOMIC,
    BEYOND_L1,
    EVENT,
    LEVELS,
    READ,
    READ_FROM_L1,
    ROUNDS,
    WRITE,
    CacheState,
    Flow,
    Level,
)
from wavecast.simulator.traffic.channels import ChannelLoad
from wavecast.simulator.traffic.coalescing import COUNTS, Count
from wavecast.simulator.traffic.footprint import BufferRange, Footprint, GridLines, UniqueLines, common, grid_lines
from wavecast.simulator.traffic.kept import KeptLines
from wavecast.simulator.traffic.l1 import empty_l1, send_all_written, settle, thin_out
from wavecast.simulator.traffic.l2_map import hashed_map, plain_map
from wavecast.simulator.traffic.residency import residency
from wavecast.simulator.traffic.sampling import Sample
from wavecast.simulator.traffic.scan import Cursor, scan, start_of_trace, words_of
from wavecast.simulator.traffic.shapes import empty_shapes, release_shapes
from wavecast.simulator.traffic.summary import Observed, growth_of, summarise
from wavecast.simulator.traffic.tables import Column, instruction_tables
from wavecast.simulator.traffic.traffic import Traffic

# Line accesses kept before a batch is simulated: bounds memory to about 100 MB.
_EVENT_CAPACITY = 2_000_000
# Line accesses that the caches are to follow, about, of the workgroups that run.
_FOLLOWED = 250_000
# Of so many lines at least one is followed.
_LARGEST_STRIDE = 256


# Memory of the launch before: to map it anew, page by page, takes longer than a small launch.
_spare: list[np.ndarray] = []


def _batch(capacity: int) -> np.ndarray:
    """Room for so many events, with anything in it."""
    try:
        batch = _spare.pop()
    except IndexError:
        return np.empty(capacity, dtype=EVENT)
    return batch if len(batch) == capacity else np.empty(capacity, dtype=EVENT)


@dataclass
class _Caches:
    """Caches under one map, and the lines that each instruction found in them."""

    state: CacheState
    levels: np.ndarray


@dataclass(frozen=True)
class _Lines:
    """Distinct lines of a launch, whatever the caches did with them: of what ran, and of the grid.

    ``rewritten`` is how many are read and written.
    """

    reads: Footprint
    writes: Footprint
    rewritten: int
    grid_reads: GridLines
    grid_writes: GridLines


class TrafficObserver:
    """Observer of the execution engine; hand it to ``execute``, then ask it for ``result``.

    Workgroups whose ids lie within one filling of the device are simulated as co-resident, those of one XCD on one L2.

    Args:
        kernel: What runs.
        device: Where it would run.
        total_workgroups: Size of the grid.
        sample: Those that will run; None for all.
        workgroup_size: Work-items of a workgroup; None for as many as the kernel was compiled for.
        buffers: Buffers of the launch; they bound what the workgroups that do not run can touch.
        kept: What earlier launches left in the memory-side cache, replaced by what this one leaves; for whole grids.
            None for a cold cache that is forgotten.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Device,
        *,
        total_workgroups: int,
        sample: Sample | None = None,
        workgroup_size: int | None = None,
        buffers: Sequence[BufferRange] = (),
        kept: KeptLines | None = None,
    ) -> None:
        self._kept = kept
        self._kernel, self._device, self._buffers = kernel, device, tuple(buffers)
        self._tables = instruction_tables(kernel)
        self._residency = residency(kernel, device, workgroup_size=workgroup_size)
        self._total = total_workgroups
        self._sample = sample if sample is None or not sample.is_complete else None
        self._resident = self._residency.workgroups_per_cu * device.compute.num_cu
        # Fewer workgroups than fit share a compute unit if the grid does not fill the device.
        filling = -(-total_workgroups // device.compute.num_cu)
        sharing = max(1, min(self._residency.workgroups_per_cu, filling))
        self._l1 = empty_l1(device, sharing, kernel.resources.lds_bytes)
        self._is_sectored = device.l2.sector_bytes is not None
        self._is_hashed = bool(device.l1.hashed_sets)
        self._maps = (hashed_map(device), plain_map(device))
        self._caches: list[_Caches] = []
        self._counts = np.zeros((len(kernel.instructions), COUNTS), dtype=np.int64)
        self._levels = np.zeros((len(kernel.instructions), LEVELS), dtype=np.int64)
        waves, loads = max(1, self._residency.waves_per_workgroup), self._tables.loads
        self._order = np.zeros(waves, dtype=np.int64)
        self._rows = np.full(len(kernel.instructions), -1, dtype=np.int64)
        self._rows[loads] = np.arange(len(loads))
        self._rounds = np.zeros((waves, len(loads)), dtype=np.int64)
        self._misses = np.zeros((len(loads), waves, ROUNDS, 2), dtype=np.int32)
        self._events = _batch(_EVENT_CAPACITY)
        self._slots = np.zeros(self._resident + 1, dtype=np.int64)
        self._cursor = start_of_trace()
        self._shapes = empty_shapes()
        self._reads, self._writes = UniqueLines(), UniqueLines()
        self._channels = ChannelLoad(self._maps, device.compute.num_xcd)
        self._window_start = 0
        self._fills_before = np.zeros(2, dtype=np.int64)
        self._atomic_lines: list[np.ndarray] = []
        self._stride = 1

    @property
    def line_accesses(self) -> int:
        """Lines touched by the wave instructions seen so far, each counted once an instruction."""
        return int(self._counts[:, Count.LINES].sum())

    def expect(self, sample: Sample) -> None:
        """Say which workgroups will run, once some have: decides how large the caches are and what they follow.

        Without effect on what was simulated before, which is nothing unless a batch was full.

        Args:
            sample: With those that have run.
        """
        self._sample = None if sample.is_complete else sample
        self._follow_enough(self._expected_accesses(len(sample.workgroups)))

    def _expected_accesses(self, workgroups: int) -> float:
        """Line accesses of so many workgroups, if the others do as those that were seen."""
        return self.line_accesses * workgroups / max(1, int(self._cursor[Cursor.SLOT]) + 1)

    def _follow_enough(self, accesses: float) -> None:
        while not self._caches and self._stride < _LARGEST_STRIDE and accesses > self._stride * _FOLLOWED:
            self._follow_fewer()

    def _settle(self) -> None:
        """Send what the last workgroup has done so far through its L1."""
        first, last = self._cursor[Cursor.SETTLED], self._cursor[Cursor.EVENTS]
        settled = settle(
            self._l1,
            self._events,
            first,
            last,
            self._levels,
            self._rows,
            self._misses,
            self._stride,
            self._is_sectored,
            self._is_hashed,
        )
        self._cursor[Cursor.SETTLED] = self._cursor[Cursor.EVENTS] = settled

    def _follow_fewer(self) -> None:
        self._settle()
        self._stride *= 2
        self._cursor[Cursor.EVENTS] = thin_out(self._events[: self._cursor[Cursor.EVENTS]], self._stride)
        self._cursor[Cursor.SETTLED] = self._cursor[Cursor.EVENTS]

    def _make_room(self) -> None:
        """Empty a full batch, or follow fewer lines if caches are not sized yet and that frees a good part of it."""
        if not self._caches and self._stride < _LARGEST_STRIDE:
            self._follow_fewer()
            if self._cursor[Cursor.EVENTS] < 3 * len(self._events) // 4:
                return
        self._simulate()

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``, in the order of execution."""
        done = 0
        while True:
            part = records[done:]
            done += scan(
                part["instruction"],
                part["wave"],
                part["workgroup"],
                part["exec"],
                words_of(part),
                self._tables.columns,
                self._tables.phase_of_lane,
                self._shapes,
                self._counts,
                self._order,
                self._rounds,
                self._l1,
                self._levels,
                self._rows,
                self._misses,
                self._events,
                self._slots,
                self._channels.counts,
                self._channels.maps,
                self._cursor,
                self._window_start + self._resident,
                self._stride,
                self._is_sectored,
                self._is_hashed,
            )
            if done == len(records):
                return
            workgroup = int(records["workgroup"][done])
            if workgroup >= self._window_start + self._resident:
                self._simulate()
                self._close_channels()
                self._pass_over(workgroup)
                self._window_start = workgroup
            else:
                self._make_room()

    def _close_channels(self) -> None:
        self._channels.close(int(self._cursor[Cursor.STEPS]))
        self._cursor[Cursor.STEPS] = 0

    def _simulate(self) -> None:
        """Send the collected batch through the caches and forget it."""
        if self._sample is None and not self._caches:
            # A grid that is executed whole without a pilot: a small one is followed in full.
            accesses = self._expected_accesses(self._total)
            if accesses > _EVENT_CAPACITY:
                self._follow_enough(accesses)
        self._settle()
        events = self._events[: self._cursor[Cursor.EVENTS]]
        if len(events):
            clusters, counted = self._sampled_as(self._slots[: self._cursor[Cursor.SLOT] + 1])
            for caches in self._cache_states():
                caches.state.run(events, caches.levels, counted)
            near = self._sample.near if self._sample is not None else 0
            for lines, kinds in ((self._reads, (READ_FROM_L1, READ)), (self._writes, (WRITE, ATOMIC))):
                lines.add(events, kinds, clusters=clusters, counted=counted, near=near, stride=self._stride)
            atomics = events["line"][events["kind"] == ATOMIC]
            if len(atomics):
                self._atomic_lines.append(np.array(atomics))
        self._cursor[Cursor.EVENTS], self._cursor[Cursor.SETTLED], self._cursor[Cursor.SLOT] = 0, 0, -1

    def _sampled_as(self, workgroups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(cluster, whether it is counted) of each."""
        if self._sample is None:
            return np.zeros_like(workgroups), np.ones(len(workgroups), dtype=np.bool_)
        places = np.searchsorted(self._sample.workgroups, workgroups)
        return self._sample.clusters[places], self._sample.counted[places]

    def _density(self, start: int) -> float:
        """Part that runs of the workgroups that are resident together from ``start`` on."""
        if self._sample is None:
            return 1.0
        end = min(start + self._resident, self._total)
        first, last = np.searchsorted(self._sample.workgroups, [start, end])
        return float(last - first) / (end - start)

    @property
    def _largest_density(self) -> float:
        """The largest of all windows: the caches have this part of their size."""
        if self._sample is None:
            return 1.0
        starts = [0]
        while True:
            place = np.searchsorted(self._sample.workgroups, starts[-1] + self._resident)
            if place == len(self._sample.workgroups):
                return max(self._density(start) for start in starts)
            starts.append(int(self._sample.workgroups[place]))

    def _pass_over(self, workgroup: int) -> None:
        """Have the caches take in what workgroups that do not run would have brought, from this window to the next.

        Args:
            workgroup: The first of the next window.
        """
        if self._sample is None or not self._caches:
            # Before anything ran there is nothing to go by, and it is not known yet how large the caches are.
            return
        state = self._caches[0].state
        fills = state.totals[[Flow.L2_FILLS, Flow.MALL_FILLS]]
        density = self._density(self._window_start)
        in_window = (fills - self._fills_before) * (state.fraction / density - 1) if density else np.zeros(2)
        ran = np.searchsorted(self._sample.workgroups, workgroup)
        gap = max(0, workgroup - self._window_start - self._resident)
        l2_lines, mall_lines = in_window + fills / max(1, ran) * gap * state.fraction
        state.pass_over(l2_lines / self._device.compute.num_xcd, mall_lines)
        self._fills_before = fills

    def _cache_states(self) -> list[_Caches]:
        """Caches for each map; for the first alone if a part of the grid runs, since they then have no map."""
        if not self._caches:
            maps = self._maps if self._sample is None else self._maps[:1]
            for l2_map in maps:
                state = CacheState(self._device, self._largest_density, self._stride, l2_map)
                self._caches.append(_Caches(state, np.zeros_like(self._levels)))
                if self._kept is not None:
                    state.fill_mall(self._kept.followed(self._stride))
        return self._caches

    def _levels_of_all_lines(self, caches: _Caches) -> np.ndarray:
        levels = self._levels + caches.levels
        levels[:, BEYOND_L1] *= self._stride
        kind, requests = self._tables.columns[:, Column.EVENT_KIND], self._counts[:, Count.REQUESTS]
        levels[kind != READ, Level.L2_REQUESTS] = requests[kind != READ]
        # The lines that are followed may have hit more often than the others.
        reached = levels[:, Level.L2_REQUESTS]
        levels[:, Level.L2_HITS] = np.minimum(levels[:, Level.L2_HITS], reached)
        levels[:, Level.MALL_HITS] = np.minimum(levels[:, Level.MALL_HITS], reached - levels[:, Level.L2_HITS])
        levels[:, Level.L2_JOINED] = np.minimum(levels[:, Level.L2_JOINED], levels[:, Level.L2_HITS])
        found = levels[:, Level.L2_JOINED] + levels[:, Level.MALL_HITS]
        levels[:, Level.MALL_JOINED] = np.minimum(levels[:, Level.MALL_JOINED], found)
        return np.asarray(levels)

    def result(self, execution: Execution) -> Traffic:
        """The traffic of the launch; call it once, after the engine has returned.

        Args:
            execution: What the engine returned for the same launch.
        """
        self._simulate()
        self._close_channels()
        if self._is_sectored:
            # A store asks for sectors there, and one that fills them changes nothing but their bytes.
            send_all_written(self._l1, self._levels)
            stores = self._tables.columns[:, Column.EVENT_KIND] == WRITE
            written = np.maximum(1, self._levels[stores, Level.WRITTEN_SECTORS])
            for count, level in ((Count.REQUESTS, Level.SENT_SECTORS), (Count.PARTIAL, Level.SENT_PARTIAL)):
                share = self._levels[stores, level] / written
                self._counts[stores, count] = np.rint(self._counts[stores, Count.SECTORS] * share)
        is_cold = self._kept is None or not len(self._kept.lines)
        lines = self._lines()
        results = [
            self._summary(execution, caches, imbalance, lines, is_cold=is_cold)
            for caches, imbalance in zip(self._cache_states(), self._channels.imbalance, strict=False)
        ]
        if self._kept is not None:
            self._kept.lines, self._kept.stride = self._caches[0].state.mall_lines, self._stride
        plain = results[1] if len(results) > 1 else replace(results[0], channel_imbalance=self._channels.imbalance[1])
        self._channels.release()
        release_shapes(self._shapes)
        _spare[:] = [self._events]
        for caches in self._caches:
            caches.state.release()
        return replace(results[0], with_plain_map=plain)

    def _lines(self) -> _Lines:
        reads, writes = self._reads.merged(self._stride), self._writes.merged(self._stride)
        line_bytes, xcds, growth = self._device.l2.line_bytes, self._device.compute.num_xcd, growth_of(self._sample)
        of_grid = (
            grid_lines(lines, growth, self._buffers, line_bytes=line_bytes, xcds=xcds) for lines in (reads, writes)
        )
        return _Lines(reads, writes, common(reads.lines, writes.lines), *of_grid)

    def _summary(
        self, execution: Execution, caches: _Caches, imbalance: float, lines: _Lines, *, is_cold: bool
    ) -> Traffic:
        dirty = caches.state.dirty_lines_per_xcd
        last_bytes = caches.state.drain()
        observed = Observed(
            sample=self._sample,
            counts=self._counts,
            levels=self._levels_of_all_lines(caches),
            totals=caches.state.totals * self._stride,
            reads=lines.reads,
            writes=lines.writes,
            rewritten=lines.rewritten,
            grid_reads=lines.grid_reads,
            grid_writes=lines.grid_writes,
            atomic_lines=np.concatenate(self._atomic_lines) if self._atomic_lines else np.zeros(0, dtype=np.uint64),
            dirty_lines_per_xcd=dirty,
            last_write_back_bytes=last_bytes,
            channel_imbalance=imbalance,
            misses=dict(zip(self._tables.loads.tolist(), self._misses, strict=True)),
            is_cold=is_cold,
        )
        return summarise(
            self._kernel,
            self._device,
            execution=execution,
            residency=self._residency,
            accesses=self._tables.accesses,
            observed=observed,
        )
