"""Turns the address trace of a launch into its traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import ATOMIC, EVENT, LEVELS, READ, WRITE, CacheState
from wavecast.simulator.traffic.channels import STEPS, ChannelLoad
from wavecast.simulator.traffic.coalescing import COUNTS, MAX_LINES, Count, lds_cycles, touch_lines, walk_quads
from wavecast.simulator.traffic.footprint import BufferRange, UniqueLines
from wavecast.simulator.traffic.residency import residency
from wavecast.simulator.traffic.summary import Observed, summarise
from wavecast.simulator.traffic.tables import GLOBAL, LDS, instruction_tables
from wavecast.simulator.traffic.traffic import Traffic

# Line accesses kept before a batch is simulated: bounds memory to about 100 MB.
_EVENT_CAPACITY = 2_000_000


class TrafficObserver:
    """Observer of the execution engine; hand it to ``execute``, then ask it for ``result``.

    Workgroups whose ids lie within one filling of the device are simulated as co-resident, those of one XCD on one L2.

    Args:
        kernel: What runs.
        device: Where it would run.
        total_workgroups: Size of the grid.
        executed_workgroups: How many of them will run; None for all.
        buffers: Buffers of the launch; they bound what the workgroups that do not run can touch.
    """

    def __init__(
        self,
        kernel: Kernel,
        device: Device,
        *,
        total_workgroups: int,
        executed_workgroups: int | None = None,
        buffers: Sequence[BufferRange] = (),
    ) -> None:
        self._kernel, self._device, self._buffers = kernel, device, tuple(buffers)
        self._tables = instruction_tables(kernel)
        self._residency = residency(kernel, device)
        executed = total_workgroups if executed_workgroups is None else executed_workgroups
        self._resident = self._residency.workgroups_per_cu * device.compute.num_cu
        fraction = executed / total_workgroups
        self._caches = CacheState(device, self._sharing_l1(total_workgroups), fraction, fraction)
        self._counts = np.zeros((len(kernel.instructions), COUNTS), dtype=np.int64)
        self._levels = np.zeros((len(kernel.instructions), LEVELS), dtype=np.int64)
        self._order = np.zeros(max(1, self._residency.waves_per_workgroup), dtype=np.int64)
        self._events = np.zeros(_EVENT_CAPACITY, dtype=EVENT)
        self._event_count = 0
        self._batch: list[int] = []
        self._clusters: list[int] = []
        self._last_workgroup = -1
        self._cluster = 0
        self._reads, self._writes = UniqueLines(), UniqueLines()
        self._channels = ChannelLoad(device)
        self._window_start = 0
        self._atomic_lines: list[np.ndarray] = []

    def _sharing_l1(self, total_workgroups: int) -> int:
        """Workgroups on one compute unit: fewer than fit if the grid does not fill the device."""
        filling = -(-total_workgroups // self._device.compute.num_cu)
        return max(1, min(self._residency.workgroups_per_cu, filling))

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``, in the order of execution."""
        workgroups = records["workgroup"]
        starts = np.flatnonzero(np.concatenate([[True], workgroups[1:] != workgroups[:-1]]))
        for first, last in zip(starts, [*starts[1:], len(records)], strict=True):
            self._consume_workgroup(int(workgroups[first]), records[first:last])

    def _consume_workgroup(self, workgroup: int, records: np.ndarray) -> None:
        if workgroup != self._last_workgroup:
            if workgroup - self._window_start >= self._resident:
                self._simulate()
                self._channels.close()
                self._window_start = workgroup
            self._cluster += workgroup != self._last_workgroup + 1
            self._last_workgroup = workgroup
            self._join(workgroup)
            self._order[:] = 0
        done = 0
        while done < len(records):
            if self._event_count + MAX_LINES > len(self._events):
                self._simulate()
                self._join(workgroup)
            part = records[done:]
            taken, self._event_count = _scan(
                part["instruction"],
                part["wave"],
                part["exec"],
                part["address"],
                self._tables.space,
                self._tables.event_kind,
                self._tables.width,
                self._tables.offsets,
                self._tables.pieces,
                self._tables.phase_of_lane,
                self._tables.banks,
                self._tables.serial,
                self._counts,
                self._order,
                self._events,
                self._event_count,
                self._channels.counts,
                self._channels.lines_per_interleave,
                len(self._batch) - 1,
                workgroup % self._device.compute.num_xcd,
            )
            done += taken

    def _join(self, workgroup: int) -> None:
        self._batch.append(workgroup)
        self._clusters.append(self._cluster)

    def _simulate(self) -> None:
        """Send the collected batch through the caches and forget it."""
        events = self._events[: self._event_count]
        self._caches.run(events, len(self._batch), self._levels)
        clusters = np.array(self._clusters, dtype=np.int64)
        self._reads.add(events, (READ,), clusters=clusters)
        self._writes.add(events, (WRITE, ATOMIC), clusters=clusters)
        atomics = events["line"][events["kind"] == ATOMIC]
        if len(atomics):
            self._atomic_lines.append(np.array(atomics))
        self._event_count = 0
        self._batch, self._clusters = [], []

    def result(self, execution: Execution) -> Traffic:
        """The traffic of the launch; call it once, after the engine has returned.

        Args:
            execution: What the engine returned for the same launch.
        """
        self._simulate()
        self._channels.close()
        dirty = self._caches.dirty_lines_per_xcd
        self._caches.drain()
        observed = Observed(
            counts=self._counts,
            levels=self._levels,
            totals=self._caches.totals,
            reads=self._reads.merged(),
            writes=self._writes.merged(),
            atomic_lines=np.concatenate(self._atomic_lines) if self._atomic_lines else np.zeros(0, dtype=np.uint64),
            dirty_lines_per_xcd=dirty,
            channel_imbalance=self._channels.imbalance,
        )
        return summarise(
            self._kernel,
            self._device,
            execution=execution,
            residency=self._residency,
            accesses=self._tables.accesses,
            observed=observed,
            buffers=self._buffers,
        )


@njit(cache=True)
def _scan(
    instructions: np.ndarray,
    waves: np.ndarray,
    masks: np.ndarray,
    addresses: np.ndarray,
    space: np.ndarray,
    event_kind: np.ndarray,
    width: np.ndarray,
    offsets: np.ndarray,
    pieces: np.ndarray,
    phase_of_lane: np.ndarray,
    banks: np.ndarray,
    serial: np.ndarray,
    counts: np.ndarray,
    order: np.ndarray,
    events: np.ndarray,
    event_count: Any,
    channels: np.ndarray,
    lines_per_interleave: Any,
    slot: Any,
    xcd: Any,
) -> Any:
    """Count records and append their line accesses. Returns (records taken, events used)."""
    lines = np.zeros(MAX_LINES, dtype=np.uint64)
    touched = np.zeros((MAX_LINES, 2), dtype=np.uint64)
    weights = np.zeros(MAX_LINES, dtype=np.int64)
    table = np.zeros((2, 256), dtype=np.int64)
    segments = np.zeros(16, dtype=np.uint64)
    dwords, load = np.zeros((64, 8, 64), dtype=np.uint64), np.zeros((8, 64), dtype=np.int64)
    for record in range(len(instructions)):
        if event_count + MAX_LINES > len(events):
            return record, event_count
        index, exec_mask, address = instructions[record], masks[record], addresses[record]
        count = counts[index]
        count[Count.EXECUTED] += 1
        lanes = 0
        for lane in range(64):
            lanes += int((exec_mask >> np.uint64(lane)) & np.uint64(1))
        count[Count.LANES] += lanes
        count[Count.BYTES] += lanes * width[index] * pieces[index]
        if space[index] == LDS:
            for piece in range(pieces[index]):
                cycles, free = lds_cycles(
                    address,
                    exec_mask,
                    width[index],
                    offsets[index, piece],
                    phase_of_lane[index],
                    banks[index],
                    serial[index],
                    dwords,
                    load,
                )
                count[Count.LDS_CLK] += cycles
                count[Count.LDS_CONFLICT_CLK] += cycles - free
        elif space[index] == GLOBAL:
            line_count = touch_lines(address, exec_mask, width[index], lines, touched, table)
            quad_clk, run_clk, requests, partial = walk_quads(
                address, exec_mask, width[index], lines, line_count, table, weights, segments
            )
            count[Count.LINES] += line_count
            count[Count.QUAD_CLK] += quad_clk
            count[Count.RUN_CLK] += run_clk
            count[Count.REQUESTS] += line_count if event_kind[index] == READ else requests
            count[Count.PARTIAL] += 0 if event_kind[index] == READ else partial
            for position in range(line_count):
                low, high = touched[position, 0], touched[position, 1]
                count[Count.UNIQUE_BYTES] += _bits(low) + _bits(high)
                count[Count.SEGMENTS] += (1 if low else 0) + (1 if high else 0)
                event = events[event_count]
                event["line"] = lines[position]
                event["low"] = low
                event["high"] = high
                event["order"] = order[waves[record]]
                event["instruction"] = index
                event["slot"] = slot
                event["xcd"] = xcd
                event["kind"] = event_kind[index]
                requests = 1 if event_kind[index] == READ else weights[position]
                event["requests"] = requests
                channel = int((lines[position] // np.uint64(lines_per_interleave)) % np.uint64(channels.shape[2]))
                channels[xcd, order[waves[record]] % STEPS, channel] += requests
                event_count += 1
            order[waves[record]] += 1
    return len(instructions), event_count


@njit(cache=True)
def _bits(word: Any) -> Any:
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count
