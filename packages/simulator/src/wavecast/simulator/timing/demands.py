"""What the average wave of a launch asks of its compute unit."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.timing.network import Demands
from wavecast.simulator.timing.opcodes import Unit, issue_clk, unit_of
from wavecast.simulator.timing.waits import exposed_waits
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic

_QUADS_PER_CYCLE = 4
_LANES_PER_QUAD = 4
_DWORD = 4
_ADDRESS_BYTES_PER_CLK = 64
_LANE_EXCHANGE = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")


@dataclass(frozen=True, slots=True)
class WaveDemands:
    """Demands of the average wave.

    Attributes:
        demands: For the queueing network.
        longest_wait: Memory instruction that holds a wave longest over its life, or None if none does.
        longest_wait_clk: Cycles it does.
    """

    demands: Demands
    longest_wait: int | None
    longest_wait_clk: float


def wave_demands(execution: Execution, traffic: Traffic, device: Device, *, warm: float) -> WaveDemands:
    """Derive the demands from executed counts and traffic.

    Args:
        execution: Executed counts.
        traffic: Traffic of the same launch.
        device: Constants.
        warm: Part of the memory-side cache's misses that a repeated launch finds there.
    """
    kernel = execution.kernel
    executed_waves = max(1, len(execution.workgroups) * traffic.residency.waves_per_workgroup)
    waves = max(1, traffic.workgroups * traffic.residency.waves_per_workgroup)
    rows = {row.index: row for row in traffic.instructions}
    simd = think = exchange = 0.0
    for instruction in kernel.instructions:
        times = float(execution.executed[instruction.index]) / executed_waves
        if not times:
            continue
        clk = times * issue_clk(instruction, device)
        if unit_of(instruction) in (Unit.VALU, Unit.MATRIX):
            simd += clk
        else:
            think += clk
        if instruction.opcode == "buffer_inv":
            think += times * device.fences.invalidate_clk
        if instruction.opcode in _LANE_EXCHANGE:
            exchange += times * _DWORD * device.compute.wave_lanes / device.lds.bytes_per_clk
    by_cause: dict[int, float] = {}

    def latency(index: int) -> float:
        return latency_clk(execution, rows.get(index), index, device, warm=warm)

    for wait in exposed_waits(kernel, device, latency_clk=latency):
        clk = wait.clk * float(execution.executed[wait.index]) / executed_waves
        by_cause[wait.decided_by] = by_cause.get(wait.decided_by, 0.0) + clk
    longest = max(by_cause, key=lambda index: by_cause[index]) if by_cause else None
    demands = Demands(
        think_clk=think + sum(by_cause.values()) + device.issue.wave_overhead_clk,
        simd_clk=simd,
        address_clk=sum(address_clk(row, device) for row in traffic.instructions) / waves
        + traffic.scratch_bytes / _ADDRESS_BYTES_PER_CLK / waves,
        fill_clk=traffic.l2_read_bytes / device.l1.fill_bytes_per_clk / waves,
        lds_clk=traffic.lds_clk / waves + exchange,
    )
    return WaveDemands(demands, longest, by_cause[longest] if longest is not None else 0.0)


def latency_clk(
    execution: Execution, row: InstructionTraffic | None, index: int, device: Device, *, warm: float
) -> float:
    """Mean latency of a memory instruction: by the levels that serve it, as the traffic says."""
    instruction = execution.kernel.instructions[index]
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
