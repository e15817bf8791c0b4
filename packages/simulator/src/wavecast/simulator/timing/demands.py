"""What the average wave of a launch asks of its compute unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.timing.issue import IssueClasses, issue_classes
from wavecast.simulator.timing.network import Demands
from wavecast.simulator.timing.opcodes import Unit, unit_of
from wavecast.simulator.timing.waits import WaitPoint, exposed_waits, wait_points
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic

_QUADS_PER_CYCLE = 4
_LANES_PER_QUAD = 4
_DWORD = 4
_ADDRESS_BYTES_PER_CLK = 64
_LANE_EXCHANGE = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")


@dataclass(frozen=True, slots=True)
class Work:
    """A launch as the average wave sees it; depends on no constant that has a range.

    Attributes:
        execution: Executed counts.
        traffic: Traffic.
        times: float64 per instruction: executions by the average wave.
        classes: Issue classes.
        points: Waits that are executed at all.
        rows: Traffic by instruction.
        lane_exchanges: LDS lane exchanges by the average wave.
        invalidations: ``buffer_inv`` by the average wave.
        has_barrier: Whether waves wait for one another, so that a workgroup goes through its phases as a whole.
    """

    execution: Execution
    traffic: Traffic
    times: np.ndarray
    classes: IssueClasses
    points: tuple[WaitPoint, ...]
    rows: dict[int, InstructionTraffic]
    lane_exchanges: float
    invalidations: float
    has_barrier: bool


@dataclass(frozen=True, slots=True)
class WaveDemands:
    """Demands of the average wave.

    Attributes:
        demands: For the queueing network.
        longest_wait: Memory instruction that holds a wave longest over its life, or None if none does.
        longest_wait_clk: Cycles it does.
        supply_clk: Cycles in which the waves of a workgroup stand still together while the device delivers their data;
            0 without barriers.
    """

    demands: Demands
    longest_wait: int | None
    longest_wait_clk: float
    supply_clk: float


def launch_work(execution: Execution, traffic: Traffic, device: Device) -> Work:
    """Prepare a launch for pricing."""
    waves = max(1, len(execution.workgroups) * traffic.residency.waves_per_workgroup)
    times = np.asarray(execution.executed, dtype=np.float64) / waves
    kernel = execution.kernel

    def executions(*opcodes: str) -> float:
        return float(sum(times[entry.index] for entry in kernel.instructions if entry.opcode in opcodes))

    return Work(
        execution=execution,
        traffic=traffic,
        times=times,
        classes=issue_classes(kernel, device),
        points=tuple(point for point in wait_points(kernel) if times[point.index]),
        rows={row.index: row for row in traffic.instructions},
        lane_exchanges=executions(*_LANE_EXCHANGE),
        invalidations=executions("buffer_inv"),
        has_barrier=any(entry.opcode == "s_barrier" and times[entry.index] for entry in kernel.instructions),
    )


def wave_demands(work: Work, device: Device, *, warm: float, supply_clk: float) -> WaveDemands:
    """Price a launch.

    Args:
        work: The launch.
        device: Constants.
        warm: Part of the memory-side cache's misses that a repeated launch finds there.
        supply_clk: Cycles in which the device delivers what one workgroup waits for, at a compute unit's share of L2
            and memory. Between barriers a workgroup loads as a whole and then computes as a whole, so its waves stand
            still that long; without barriers they drift apart and overlap.
    """
    traffic = work.traffic
    waves = max(1, traffic.workgroups * traffic.residency.waves_per_workgroup)
    supply_clk = supply_clk if work.has_barrier else 0.0
    simd, alone = work.classes.split_clk(work.times, device)
    awaited = {index for point in work.points for index in point.awaits}
    latencies = {index: latency_clk(work, index, device, warm=warm) for index in awaited}
    by_cause: dict[int, float] = {}
    for wait in exposed_waits(work.points, work.classes.clk(device), latency_clk=latencies):
        clk = wait.clk * float(work.times[wait.index])
        by_cause[wait.decided_by] = by_cause.get(wait.decided_by, 0.0) + clk
    longest = max(by_cause, key=lambda index: by_cause[index]) if by_cause else None
    exchange = work.lane_exchanges * _DWORD * device.compute.wave_lanes / device.lds.bytes_per_clk
    address = sum(address_clk(row, device) for row in traffic.instructions)
    demands = Demands(
        think_clk=alone
        + sum(by_cause.values())
        + work.invalidations * device.fences.invalidate_clk
        + device.issue.wave_overhead_clk
        + supply_clk,
        simd_clk=simd,
        address_clk=(address + traffic.scratch_bytes / _ADDRESS_BYTES_PER_CLK) / waves,
        fill_clk=traffic.l2_read_bytes / device.l1.fill_bytes_per_clk / waves,
        lds_clk=traffic.lds_clk / waves + exchange,
    )
    return WaveDemands(demands, longest, by_cause[longest] if longest is not None else 0.0, supply_clk)


def latency_clk(work: Work, index: int, device: Device, *, warm: float) -> float:
    """Mean latency of a memory instruction: by the levels that serve it, as the traffic says."""
    instruction, row = work.execution.kernel.instructions[index], work.rows.get(index)
    unit = unit_of(instruction)
    if unit is Unit.LDS:
        return device.lds.latency_clk
    if unit is Unit.SCALAR_MEMORY:
        return device.issue.argument_load_clk
    if instruction.opcode == "buffer_wbl2":
        return device.fences.writeback_clk + device.mall.latency_clk
    if row is None:
        is_store = "_store" in instruction.opcode
        return device.l2.store_ack_clk if is_store else device.l1.latency_clk
    if row.kind is AccessKind.ATOMIC:
        return device.atomics.latency_clk
    if row.kind is AccessKind.STORE:
        return device.l2.store_ack_clk
    l1 = row.l1_hits / row.lines if row.lines else 0.0
    l2 = row.l2_hits / row.l2_requests if row.l2_requests else 0.0
    beyond = row.l2_requests - row.l2_hits
    mall = row.mall_hits / beyond if beyond > 0 else 0.0
    mall += (1 - mall) * warm
    memory = mall * device.mall.latency_clk + (1 - mall) * device.hbm.latency_clk
    return l1 * device.l1.latency_clk + (1 - l1) * (l2 * device.l2.latency_clk + (1 - l2) * memory)


def address_clk(row: InstructionTraffic, device: Device) -> float:
    """Cycles of the address unit for one static instruction, all its executions together.

    Loads and whole-dword stores: between a cycle a quad and four continuing quads a cycle, as ``merged_quads_per_clk``
    says. Stores of less than a dword: a price a quad.
    """
    if row.kind.is_lds or not row.lanes:
        return 0.0
    if row.kind is AccessKind.STORE and row.bytes_asked < _DWORD * row.lanes:
        return max(float(row.quad_clk), row.lanes / _LANES_PER_QUAD * device.l1.store_quad_clk)
    unmerged = (_QUADS_PER_CYCLE / device.l1.merged_quads_per_clk - 1) / (_QUADS_PER_CYCLE - 1)
    return row.run_clk + (row.quad_clk - row.run_clk) * unmerged
