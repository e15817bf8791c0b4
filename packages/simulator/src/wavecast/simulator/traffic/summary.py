"""Scales what was observed to the whole grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import Flow, Level
from wavecast.simulator.traffic.coalescing import Count
from wavecast.simulator.traffic.dirty import held_bytes, writes_back
from wavecast.simulator.traffic.footprint import Footprint, GridLines, Growth
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess
from wavecast.simulator.traffic.residency import Residency
from wavecast.simulator.traffic.sampling import Sample, sampling_error
from wavecast.simulator.traffic.traffic import InstructionTraffic, Traffic

_SEGMENT_BYTES = 64
_SECTOR_BYTES, _SECTORS = 32, 4  # of a line
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
        grid_reads: What of ``reads`` is known of the whole grid.
        grid_writes: The same of ``writes``.
        atomic_lines: uint64, line of every atomic wave instruction and line.
        dirty_lines_per_xcd: Dirty lines an L2 holds at the end.
        last_write_back_bytes: Bytes that all L2s write back then, of the whole grid.
        channel_imbalance: Hottest L2 channel over the mean.
        misses: Of each load by its index, int32 (waves, ROUNDS, 2), see ``InstructionTraffic.l1_misses``.
        is_cold: Whether the memory-side cache held nothing when the launch began.
        sample: What ran, None for the whole grid.
    """

    counts: np.ndarray
    levels: np.ndarray
    totals: np.ndarray
    reads: Footprint
    writes: Footprint
    rewritten: int
    grid_reads: GridLines
    grid_writes: GridLines
    atomic_lines: np.ndarray
    dirty_lines_per_xcd: float
    last_write_back_bytes: int
    channel_imbalance: float
    misses: Mapping[int, np.ndarray]
    is_cold: bool = True
    sample: Sample | None = None

    @property
    def growth(self) -> Growth:
        """How footprints grow to the grid."""
        return growth_of(self.sample)


def growth_of(sample: Sample | None) -> Growth:
    """How the footprints of a sample grow to the grid; None for the whole grid."""
    if sample is None:
        return Growth(1, 1.0, 1.0)
    counted = np.count_nonzero(sample.counted)
    return Growth(int(sample.clusters.max()) + 1, counted / sample.total_workgroups, sample.fraction)


def summarise(
    kernel: Kernel,
    device: Device,
    *,
    execution: Execution,
    residency: Residency,
    accesses: Sequence[MemoryAccess | None],
    observed: Observed,
) -> Traffic:
    """The traffic of the whole grid from the counts of the workgroups that ran."""
    scale, line = execution.scale, device.l2.line_bytes
    counts = observed.counts
    kinds = [access.kind if access else None for access in accesses]
    reads, writes, atomics = (
        np.array([kind in wanted for kind in kinds], dtype=np.bool_)
        for wanted in ((AccessKind.LOAD, AccessKind.LDS_DIRECT), (AccessKind.STORE,), (AccessKind.ATOMIC,))
    )
    touching = reads | writes | atomics
    read_requests = float(observed.levels[reads, Level.L2_REQUESTS].sum()) * scale
    write_requests = float(observed.levels[writes, Level.L2_REQUESTS].sum()) * scale
    read, written = observed.grid_reads, observed.grid_writes
    fabric_lines, hbm_lines = _read_misses(observed, read)
    lines, written_lines = read.lines, written.lines
    if (lines + written_lines) * line <= device.mall.bytes:
        # A sample shares its part of the cache among lines that the whole grid reads: here nothing has to leave it.
        hbm_lines = min(hbm_lines, lines)
    read_bytes, write_bytes = read.bytes, written.bytes
    share = _ratio(observed.totals[Flow.READ_SECTORS], _SECTORS * observed.totals[Flow.FABRIC_READS])
    fill_bytes = float(observed.totals[Flow.FILL_BYTES]) * scale
    levels = observed.levels
    if observed.sample is not None:
        levels = _levels_for(levels, reads, fabric_lines=fabric_lines / scale, hbm_lines=hbm_lines / scale)
    table = _instruction_table(
        kernel, device, accesses=accesses, counts=counts, levels=levels, misses=observed.misses, scale=scale
    )
    fabric_write_bytes = round(float(observed.totals[Flow.FABRIC_WRITE_BYTES]) * scale)
    asked, moved = _coalescing(counts, reads, writes | atomics, device)
    return Traffic(
        kernel=kernel.name,
        workgroups=execution.total_workgroups,
        executed_workgroups=len(execution.workgroups),
        sampling_error=_sampling_error(execution, observed, read, fabric_lines=fabric_lines),
        residency=residency,
        bytes_asked=round(float(counts[touching, Count.BYTES].sum()) * scale),
        l2_read_requests=round(read_requests),
        l2_read_bytes=round(float(observed.levels[reads, Level.L2_SECTORS].sum()) * scale * _SECTOR_BYTES),
        l2_write_requests=round(write_requests),
        l2_write_bytes=round(_written_at_l2(counts[writes], device) * scale),
        l2_partial_write_requests=round(float(counts[writes, Count.PARTIAL].sum()) * scale),
        l1_hit_rate=_share(levels[reads, Level.L1_HITS].sum(), counts[reads, Count.LINES].sum()),
        l2_hit_rate=_share(levels[reads, Level.L2_HITS].sum(), levels[reads, Level.L2_REQUESTS].sum()),
        mall_hit_rate=_share(levels[reads, Level.MALL_HITS].sum(), fabric_lines / scale),
        fabric_read_bytes=round(fabric_lines * line * share + fill_bytes),
        fabric_write_requests=round(float(observed.totals[Flow.FABRIC_WRITES]) * scale),
        fabric_write_bytes=fabric_write_bytes,
        last_write_back_bytes=_held_at_the_end(observed, hbm_lines * line * share, fabric_write_bytes, device),
        hbm_read_bytes=round(max(hbm_lines * line * share, read_bytes if observed.is_cold else 0) + fill_bytes),
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


def _held_at_the_end(observed: Observed, read_bytes: float, written_bytes: int, device: Device) -> int:
    """Dirty bytes in the L2s at the end: those simulated where all are then written back, else as ``held_bytes``."""
    if writes_back(device):
        return min(observed.last_write_back_bytes, written_bytes)
    return round(held_bytes(read_bytes, written_bytes, device))


def _read_misses(observed: Observed, read: GridLines) -> tuple[float, float]:
    """(fabric, HBM) line reads of the grid.

    First ones are as many as lines touched, those beyond them as frequent as among the counted workgroups.
    """
    totals, reads, growth = observed.totals, observed.reads, observed.growth
    if observed.sample is None:
        return float(totals[Flow.FABRIC_READS]), float(totals[Flow.HBM_READS])
    fabric = read.lines_on_xcds * min(1.0, _ratio(totals[Flow.FIRST_FABRIC_READS], reads.total(reads.xcds)))
    hbm = read.lines * min(1.0, _ratio(totals[Flow.FIRST_HBM_READS], reads.total()))
    return (
        float(fabric + totals[Flow.AGAIN_FABRIC_READS] / growth.fraction),
        float(hbm + totals[Flow.AGAIN_HBM_READS] / growth.fraction),
    )


def _levels_for(levels: np.ndarray, reads: np.ndarray, *, fabric_lines: float, hbm_lines: float) -> np.ndarray:
    """Levels of a sample whose reads miss as often, in all, as those of the grid do; the misses keep their shares.

    Who misses the L2 in the sample and not in the grid waits there with a workgroup that runs beside it and that the
    sample left out: an L2 is too small to keep what workgroups share for those that come later. The memory-side cache
    is not: who waits with a miss for HBM is scaled with it.
    """
    adjusted = levels.astype(np.float64)
    requests, hits, found = (adjusted[reads, level] for level in (Level.L2_REQUESTS, Level.L2_HITS, Level.MALL_HITS))
    misses = requests - hits
    changed = np.minimum(misses * _ratio(fabric_lines, misses.sum()), requests)
    beyond = np.minimum((misses - found) * _ratio(hbm_lines, (misses - found).sum()), changed)
    waiting = np.clip(misses + adjusted[reads, Level.L2_JOINED], changed, requests)
    with_a_miss = adjusted[reads, Level.MALL_JOINED] / np.maximum(misses - found, 1)
    adjusted[reads, Level.L2_HITS], adjusted[reads, Level.MALL_HITS] = requests - changed, changed - beyond
    adjusted[reads, Level.L2_JOINED] = waiting - changed
    adjusted[reads, Level.MALL_JOINED] = np.minimum(beyond * with_a_miss, waiting - beyond)
    return adjusted


def _written_at_l2(counts: np.ndarray, device: Device) -> float:
    """Bytes that stores send to the L2: whole sectors where it has them."""
    if device.l2.sector_bytes is not None:
        return float(counts[:, Count.REQUESTS].sum()) * device.l2.sector_bytes
    return float(counts[:, Count.UNIQUE_BYTES].sum())


def _ratio(wanted: float, found: float) -> float:
    return wanted / found if found else 1.0


def _sampling_error(execution: Execution, observed: Observed, read: GridLines, *, fabric_lines: float) -> float:
    """The larger of the relative standard errors of the work and of the lines read beyond L2."""
    if observed.sample is None:
        return 0.0
    of_work = sampling_error(execution.instructions_per_workgroup, observed.sample.clusters, execution.total_workgroups)
    growth = observed.growth
    if not fabric_lines or growth.clusters < 2:
        return of_work
    of_lines = (
        read.by_cluster.std(ddof=1) * np.sqrt(growth.clusters * (1 - growth.fraction)) / growth.fraction / fabric_lines
    )
    return max(of_work, float(of_lines))


def _scaled_writes(observed: Observed, scale: float, *, written_lines: float) -> float:
    """HBM write bytes: each distinct line once, grown as the footprint does, and what is beyond that with the grid."""
    written = float(observed.totals[Flow.HBM_WRITE_BYTES])
    lines = observed.writes
    if not len(lines.lines) or not written:
        return 0.0
    once = min(written, float(lines.total(lines.touched_bytes)))
    return once * written_lines / lines.total() + (written - once) * scale


def _coalescing(counts: np.ndarray, reads: np.ndarray, writes: np.ndarray, device: Device) -> tuple[float, float]:
    asked = counts[reads | writes, Count.UNIQUE_BYTES].sum()
    if device.l2.sector_bytes is not None:
        return float(asked), float(device.l2.sector_bytes * counts[reads | writes, Count.SECTORS].sum())
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


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0


def _instruction_table(
    kernel: Kernel,
    device: Device,
    *,
    accesses: Sequence[MemoryAccess | None],
    counts: np.ndarray,
    levels: np.ndarray,
    misses: Mapping[int, np.ndarray],
    scale: float,
) -> tuple[InstructionTraffic, ...]:
    rows = []
    for instruction, access in zip(kernel.instructions, accesses, strict=True):
        if access is None or not counts[instruction.index, Count.EXECUTED]:
            continue
        scaled = [round(value * scale) for value in counts[instruction.index].tolist()]
        lines = [round(value * scale) for value in levels[instruction.index].tolist()]
        lds_clk = scaled[Count.LDS_CLK]
        if access.kind is AccessKind.LDS_DIRECT:
            lds_clk = round(scaled[Count.BYTES] / device.lds.bytes_per_clk)
        rows.append(
            InstructionTraffic(
                index=instruction.index,
                opcode=instruction.opcode,
                source=instruction.source,
                kind=access.kind,
                executed=scaled[Count.EXECUTED],
                lanes=scaled[Count.LANES],
                bytes_asked=scaled[Count.BYTES],
                distinct_bytes=scaled[Count.UNIQUE_BYTES],
                segments=scaled[Count.SEGMENTS],
                lines=scaled[Count.LINES],
                quad_clk=scaled[Count.QUAD_CLK],
                run_clk=scaled[Count.RUN_CLK],
                requests=scaled[Count.REQUESTS],
                partial_requests=scaled[Count.PARTIAL],
                sectors=scaled[Count.SECTORS],
                l2_requests=lines[Level.L2_REQUESTS],
                l2_bytes=lines[Level.L2_SECTORS] * _SECTOR_BYTES,
                l1_hits=lines[Level.L1_HITS],
                l2_hits=lines[Level.L2_HITS],
                mall_hits=lines[Level.MALL_HITS],
                l2_joined=lines[Level.L2_JOINED],
                mall_joined=lines[Level.MALL_JOINED],
                lds_clk=lds_clk,
                lds_conflict_clk=scaled[Count.LDS_CONFLICT_CLK],
                cost_us=_cost_us(device, access, scaled, lines, lds_clk),
                l1_misses=misses.get(instruction.index),
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
        whole = (counts[Count.REQUESTS] - counts[Count.PARTIAL]) * device.write_segment_bytes
        full = whole / (device.l2.write_tb_s * 1e6)
        return max(address, counts[Count.PARTIAL] * device.l2.write_request_clk * per_channel + full)
    moved = levels[Level.L2_SECTORS] * _SECTOR_BYTES
    beyond = moved * (1 - levels[Level.L2_HITS] / max(1, levels[Level.L2_REQUESTS]))
    return max(address, moved / (device.l2.read_tb_s * 1e6), beyond / (device.hbm.read_tb_s * 1e6))
