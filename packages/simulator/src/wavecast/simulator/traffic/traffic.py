"""What a launch moves, level by level."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavecast.simulator.program.instruction import SourceLine
from wavecast.simulator.traffic.memory_access import AccessKind
from wavecast.simulator.traffic.residency import Residency


@dataclass(frozen=True, slots=True)
class InstructionTraffic:
    """One static memory instruction; counts are of the whole grid.

    Attributes:
        index: Position in the kernel.
        opcode: Base mnemonic.
        source: Source line, if the compiler gave one.
        kind: What it does.
        executed: Wave instructions.
        lanes: Active lanes.
        bytes_asked: Bytes the lanes ask for.
        distinct_bytes: Distinct bytes of each wave instruction, summed.
        segments: Distinct 64-byte segments of each wave instruction, summed.
        lines: Distinct 128-byte lines of each wave instruction, summed.
        quad_clk: Address cycles if quads never share one.
        run_clk: Address cycles if quads that continue one another share one.
        requests: Requests to L2 before the L1 filters loads: lines for loads, runs and segments for stores and atomics.
        partial_requests: Write requests that cover less than 64 bytes.
        sectors: Distinct 32-byte sectors of each wave instruction, summed.
        l2_requests: Requests that reach the L2, or for atomics the memory-side cache.
        l2_bytes: Bytes that loads bring from the L2.
        l1_hits: Lines found in L1.
        l2_hits: Requests served by L2.
        mall_hits: Requests served by the memory-side cache.
        l2_joined: Those that L2 serves after waiting for a line that another of the same step asked for.
        mall_joined: Those that L2 or the memory-side cache serves after waiting so for HBM.
        lds_clk: LDS cycles.
        lds_conflict_clk: Those of them that bank conflicts cost.
        cost_us: Time the busiest unit it uses would need for it alone, were it spread evenly: ranks the table.
        l1_misses: Of a load, int32 (waves, ROUNDS, 2): by wave of the workgroup and by how often the wave had executed
            it before, executions of the workgroups that ran, and those of them of which some line missed L1. The last
            round stands for all from there on. None for the others, and where nobody looked.
    """

    index: int
    opcode: str
    source: SourceLine | None
    kind: AccessKind
    executed: int
    lanes: int
    bytes_asked: int
    distinct_bytes: int
    segments: int
    lines: int
    quad_clk: int
    run_clk: int
    requests: int
    partial_requests: int
    sectors: int
    l2_requests: int
    l2_bytes: int
    l1_hits: int
    l2_hits: int
    mall_hits: int
    l2_joined: int
    mall_joined: int
    lds_clk: int
    lds_conflict_clk: int
    cost_us: float
    l1_misses: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def where(self) -> str:
        """``opcode at file:line``, or the instruction's number where the line is unknown."""
        return f"{self.opcode} at {self.source}" if self.source else f"{self.opcode} (instruction {self.index})"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic of one launch, scaled to its whole grid.

    Attributes:
        kernel: Name of the kernel.
        workgroups: Workgroups of the grid.
        executed_workgroups: Those that ran.
        sampling_error: Relative standard error of the scaled totals, from the variance between clusters.
        residency: Occupancy the caches were shared by.
        bytes_asked: Bytes asked by all lanes of global loads, stores and atomics.
        l2_read_requests: Line reads that miss L1.
        l2_read_bytes: Their bytes: of whole lines, or of the sectors that they miss where the device has sectors.
        l2_write_requests: Write requests that reach L2; where the device has sectors, sectors of 32 bytes.
        l2_write_bytes: Bytes written by them; where the device has sectors, those of whole sectors.
        l2_partial_write_requests: Write requests that cover less than 64 bytes, or less than their sector.
        l1_hit_rate: Of line reads; 0 without any.
        l2_hit_rate: Of line reads that miss L1.
        mall_hit_rate: Of line reads that miss L2.
        fabric_read_bytes: L2 to fabric.
        fabric_write_requests: Write-backs in requests of 32 or 64 bytes.
        fabric_write_bytes: Their bytes.
        last_write_back_bytes: Those of them that L2s still hold when the last wave ends, and write back then.
        hbm_read_bytes: Read from HBM; less than the distinct bytes where an earlier launch left some of them in the
            memory-side cache.
        hbm_write_bytes: Written to HBM, write-back at the end included.
        minimum_read_bytes: Distinct bytes read: no cache can do with less.
        minimum_write_bytes: Distinct bytes written.
        footprint_bytes: Bytes of all distinct lines.
        rewritten_share: Part of the distinct lines read that the launch also writes.
        coalescing_efficiency: Distinct bytes each wave instruction asks for, over the bytes of the 64-byte segments
            (where the device has sectors, of those) it moves at the L2, in (0, 1]; 1 if it moves nothing.
        channel_imbalance: Hottest L2 channel over the mean. An upper bound: workgroups are taken to run in step.
        atomic_requests: Atomic requests.
        hot_line_atomics: Wave instructions whose atomics go to the line that most of them go to.
        scratch_bytes: Bytes of spilled registers moved.
        lds_clk: LDS cycles of all compute units.
        lds_conflict_clk: Those of them that bank conflicts cost.
        release_fences: ``buffer_wbl2`` executed by waves.
        acquire_fences: ``buffer_inv`` executed by waves.
        dirty_lines_per_xcd: Dirty lines an L2 holds at the end.
        instructions: Memory instructions, most costly first.
        with_plain_map: The same if addresses go to L2 channels and sets without a hash; None for that traffic itself.
            Of a sample only the channel imbalance differs.
    """

    kernel: str
    workgroups: int
    executed_workgroups: int
    sampling_error: float
    residency: Residency
    bytes_asked: int
    l2_read_requests: int
    l2_read_bytes: int
    l2_write_requests: int
    l2_write_bytes: int
    l2_partial_write_requests: int
    l1_hit_rate: float
    l2_hit_rate: float
    mall_hit_rate: float
    fabric_read_bytes: int
    fabric_write_requests: int
    fabric_write_bytes: int
    last_write_back_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    minimum_read_bytes: int
    minimum_write_bytes: int
    footprint_bytes: int
    rewritten_share: float
    coalescing_efficiency: float
    channel_imbalance: float
    atomic_requests: int
    hot_line_atomics: int
    scratch_bytes: int
    lds_clk: int
    lds_conflict_clk: int
    release_fences: int
    acquire_fences: int
    dirty_lines_per_xcd: float
    instructions: tuple[InstructionTraffic, ...]
    with_plain_map: Traffic | None = None

    @property
    def minimum_bytes(self) -> int:
        return self.minimum_read_bytes + self.minimum_write_bytes
