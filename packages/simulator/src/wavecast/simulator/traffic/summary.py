"""Scales what was observed to the whole grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import Flow, Level
from wavecast.simulator.traffic.coalescing import Count
from wavecast.simulator.traffic.footprint import BufferRange, Footprint, capped_bytes, capped_lines
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess
from wavecast.simulator.traffic.residency import Residency
from wavecast.simulator.traffic.sampling import sampling_error
from wavecast.simulator.traffic.traffic import InstructionTraffic, Traffic

_SEGMENT_BYTES = 64
RELEASE_FENCE, ACQUIRE_FENCE = "buffer_wbl2", "buffer_inv"


@dataclass(frozen=True, slots=True)
class Observed:
    """Raw counts of the workgroups that ran.

    Attributes:
        counts: int64 (instructions, COUNTS).
        levels: int64 (instructions, LEVELS).
        totals: int64, one entry a ``Flow``.
        reads: Distinct lines read.
        writes: Distinct lines written or updated.
        rewritten: Entries that both of them have.
        atomic_lines: uint64, line of every atomic wave instruction and line.
        dirty_lines_per_xcd: Dirty lines an L2 holds at the end.
        last_write_back_bytes: Bytes that all L2s write back then, of the whole grid.
        channel_imbalance: Hottest L2 channel over the mean.
        is_cold: Whether the memory-side cache held nothing when the launch began.
    """

    counts: np.ndarray
    levels: np.ndarray
    totals: np.ndarray
    reads: Footprint
    writes: Footprint
    rewritten: int
    atomic_lines: np.ndarray
    dirty_lines_per_xcd: float
    last_write_back_bytes: int
    channel_imbalance: float
    is_cold: bool = True


def summarise(
    kernel: Kernel,
    device: Device,
    *,
    execution: Execution,
    residency: Residency,
    accesses: Sequence[MemoryAccess | None],
    observed: Observed,
    buffers: Sequence[BufferRange],
) -> Traffic:
    """The traffic of the whole grid from the counts of the workgroups that ran."""
    scale, line = execution.scale, device.l2.line_bytes
    counts, levels = observed.counts, observed.levels
    kinds = [access.kind if access else None for access in accesses]
    reads, writes, atomics = (
        np.array([kind in wanted for kind in kinds], dtype=np.bool_)
        for wanted in ((AccessKind.LOAD, AccessKind.LDS_DIRECT), (AccessKind.STORE,), (AccessKind.ATOMIC,))
    )
    touching = reads | writes | atomics
    read_requests = float(levels[reads, Level.L2_REQUESTS].sum()) * scale
    write_requests = float(levels[writes, Level.L2_REQUESTS].sum()) * scale
    xcds = device.compute.num_xcd
    fetches = capped_lines(observed.reads, scale, buffers, line_bytes=line, copies=xcds)
    fabric_lines = _scaled_misses(
        int(observed.totals[Flow.FABRIC_READS]), observed.reads.total(observed.reads.xcds), scale, first_touches=fetches
    )
    lines = capped_lines(observed.reads, scale, buffers, line_bytes=line)
    hbm_lines = _scaled_misses(int(observed.totals[Flow.HBM_READS]), observed.reads.total(), scale, first_touches=lines)
    written_lines = capped_lines(observed.writes, scale, buffers, line_bytes=line)
    if (lines + written_lines) * line <= device.mall.bytes:
        # A sample shares its part of the cache among lines that the whole grid reads: here nothing has to leave it.
        hbm_lines = min(hbm_lines, lines)
    read_bytes = capped_bytes(observed.reads, scale, buffers, line_bytes=line)
    write_bytes = capped_bytes(observed.writes, scale, buffers, line_bytes=line)
    table = _instruction_table(kernel, device, accesses=accesses, observed=observed, scale=scale)
    fabric_write_bytes = round(float(observed.totals[Flow.FABRIC_WRITE_BYTES]) * scale)
    asked, moved = _coalescing(counts, reads, writes | atomics)
    return Traffic(
        kernel=kernel.name,
        workgroups=execution.total_workgroups,
        executed_workgroups=len(execution.workgroups),
        sampling_error=sampling_error(
            execution.instructions_per_workgroup, execution.workgroups, execution.total_workgroups
        ),
        residency=residency,
        bytes_asked=round(float(counts[touching, Count.BYTES].sum()) * scale),
        l2_read_requests=round(read_requests),
        l2_read_bytes=round(read_requests * line),
        l2_write_requests=round(write_requests),
        l2_write_bytes=round(float(counts[writes, Count.UNIQUE_BYTES].sum()) * scale),
        l2_partial_write_requests=round(float(counts[writes, Count.PARTIAL].sum()) * scale),
        l1_hit_rate=_share(levels[reads, Level.L1_HITS].sum(), counts[reads, Count.LINES].sum()),
        l2_hit_rate=_share(levels[reads, Level.L2_HITS].sum(), levels[reads, Level.L2_REQUESTS].sum()),
        mall_hit_rate=_share(levels[reads, Level.MALL_HITS].sum(), observed.totals[Flow.FABRIC_READS]),
        fabric_read_bytes=round(fabric_lines * line),
        fabric_write_requests=round(float(observed.totals[Flow.FABRIC_WRITES]) * scale),
        fabric_write_bytes=fabric_write_bytes,
        last_write_back_bytes=min(observed.last_write_back_bytes, fabric_write_bytes),
        hbm_read_bytes=round(max(hbm_lines * line, read_bytes if observed.is_cold else 0)),
        hbm_write_bytes=round(max(_scaled_writes(observed, scale, written_lines=written_lines), write_bytes)),
        minimum_read_bytes=round(read_bytes),
        minimum_write_bytes=round(write_bytes),
        footprint_bytes=round((lines + written_lines) * line),
        rewritten_share=_share(observed.rewritten, len(observed.reads.lines)),
        coalescing_efficiency=min(1.0, asked / moved) if moved else 1.0,
        channel_imbalance=observed.channel_imbalance,
        atomic_requests=round(float(counts[atomics, Count.REQUESTS].sum()) * scale),
        hot_line_atomics=round(_hottest_line(observed.atomic_lines) * scale),
        scratch_bytes=round(_scratch_bytes(accesses, execution, device.compute.wave_lanes) * scale),
        lds_clk=sum(row.lds_clk for row in table),
        lds_conflict_clk=sum(row.lds_conflict_clk for row in table),
        release_fences=round(_executed(kernel, execution, RELEASE_FENCE) * scale),
        acquire_fences=round(_executed(kernel, execution, ACQUIRE_FENCE) * scale),
        dirty_lines_per_xcd=observed.dirty_lines_per_xcd,
        instructions=table,
    )


def _scaled_misses(misses: int, touches: int, scale: float, *, first_touches: float) -> float:
    """First touches grow as their footprint does, misses beyond them with the grid.

    Args:
        misses: Line reads that missed.
        touches: First touches among the workgroups that ran.
        scale: Workgroups of the grid over those that ran.
        first_touches: First touches of the whole grid.
    """
    if not touches:
        return misses * scale
    first = min(misses, touches)
    return first_touches * first / touches + (misses - first) * scale


def _scaled_writes(observed: Observed, scale: float, *, written_lines: float) -> float:
    """HBM write bytes: each distinct line once, grown as the footprint does, and what is beyond that with the grid."""
    written = float(observed.totals[Flow.HBM_WRITE_BYTES])
    lines = observed.writes
    if not len(lines.lines) or not written:
        return 0.0
    once = min(written, float(lines.total(lines.touched_bytes)))
    return once * written_lines / lines.total() + (written - once) * scale


def _coalescing(counts: np.ndarray, reads: np.ndarray, writes: np.ndarray) -> tuple[float, float]:
    asked = counts[reads | writes, Count.UNIQUE_BYTES].sum()
    moved = _SEGMENT_BYTES * (counts[reads, Count.SEGMENTS].sum() + counts[writes, Count.REQUESTS].sum())
    return float(asked), float(moved)


def _hottest_line(lines: np.ndarray) -> int:
    return int(np.unique(lines, return_counts=True)[1].max()) if len(lines) else 0


def _executed(kernel: Kernel, execution: Execution, opcode: str) -> int:
    return sum(int(execution.executed[i.index]) for i in kernel.instructions if i.opcode == opcode)


def _scratch_bytes(accesses: Sequence[MemoryAccess | None], execution: Execution, lanes: int) -> float:
    """Spills are interleaved by lane, so every one moves whole lines; all lanes are taken to be active."""
    return float(
        sum(
            int(execution.executed[index]) * access.bytes_per_lane * lanes
            for index, access in enumerate(accesses)
            if access is not None and access.kind.is_scratch
        )
    )


def _share(part: np.integer | int, whole: np.integer | int) -> float:
    return float(part) / float(whole) if whole else 0.0


def _instruction_table(
    kernel: Kernel,
    device: Device,
    *,
    accesses: Sequence[MemoryAccess | None],
    observed: Observed,
    scale: float,
) -> tuple[InstructionTraffic, ...]:
    rows = []
    for instruction, access in zip(kernel.instructions, accesses, strict=True):
        counts = [round(float(value) * scale) for value in observed.counts[instruction.index]]
        if access is None or not counts[Count.EXECUTED]:
            continue
        levels = [round(float(value) * scale) for value in observed.levels[instruction.index]]
        lds_clk = counts[Count.LDS_CLK]
        if access.kind is AccessKind.LDS_DIRECT:
            lds_clk = round(counts[Count.BYTES] / device.lds.bytes_per_clk)
        rows.append(
            InstructionTraffic(
                index=instruction.index,
                opcode=instruction.opcode,
                source=instruction.source,
                kind=access.kind,
                executed=counts[Count.EXECUTED],
                lanes=counts[Count.LANES],
                bytes_asked=counts[Count.BYTES],
                distinct_bytes=counts[Count.UNIQUE_BYTES],
                segments=counts[Count.SEGMENTS],
                lines=counts[Count.LINES],
                quad_clk=counts[Count.QUAD_CLK],
                run_clk=counts[Count.RUN_CLK],
                requests=counts[Count.REQUESTS],
                partial_requests=counts[Count.PARTIAL],
                l2_requests=levels[Level.L2_REQUESTS],
                l1_hits=levels[Level.L1_HITS],
                l2_hits=levels[Level.L2_HITS],
                mall_hits=levels[Level.MALL_HITS],
                lds_clk=lds_clk,
                lds_conflict_clk=counts[Count.LDS_CONFLICT_CLK],
                cost_us=_cost_us(device, access, counts, levels, lds_clk),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.cost_us, row.index)))


def _cost_us(device: Device, access: MemoryAccess, counts: list[int], levels: list[int], lds_clk: int) -> float:
    per_cu = 1 / (device.compute.num_cu * device.clk_per_us)
    per_channel = 1 / (device.l2_channels * device.clk_per_us)
    if access.kind.is_lds:
        return lds_clk * per_cu
    address = counts[Count.RUN_CLK] * per_cu
    if access.kind is AccessKind.ATOMIC:
        return max(address, counts[Count.REQUESTS] * device.atomics.request_clk * per_channel)
    if access.kind is AccessKind.STORE:
        full = (counts[Count.REQUESTS] - counts[Count.PARTIAL]) * _SEGMENT_BYTES / (device.l2.write_tb_s * 1e6)
        return max(address, counts[Count.PARTIAL] * device.l2.write_request_clk * per_channel + full)
    moved = levels[Level.L2_REQUESTS] * device.l2.line_bytes
    beyond = (levels[Level.L2_REQUESTS] - levels[Level.L2_HITS]) * device.l2.line_bytes
    return max(address, moved / (device.l2.read_tb_s * 1e6), beyond / (device.hbm.read_tb_s * 1e6))
