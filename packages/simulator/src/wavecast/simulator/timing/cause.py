"""One sentence on what decides a prediction."""

from __future__ import annotations

from collections.abc import Callable

from wavecast.simulator.devices import Device
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.demands import address_clk
from wavecast.simulator.timing.model import Evaluation
from wavecast.simulator.timing.prediction import Bound
from wavecast.simulator.traffic import AccessKind, InstructionTraffic, Traffic


def explain(kernel: Kernel, traffic: Traffic, device: Device, evaluation: Evaluation) -> str:
    """Name the count that decides, and the instruction and source line it comes from where one stands out."""
    bound = evaluation.bound
    if bound is Bound.LAUNCH:
        return f"the launch itself takes {evaluation.terms[bound]:.1f} µs, more than the work of the kernel"
    if bound is Bound.WORKGROUP_LAUNCH:
        waves = traffic.residency.waves_per_workgroup
        return f"{traffic.workgroups:,} workgroups of {waves} waves are started one after another"
    if bound is Bound.L2:
        return _l2(traffic)
    if bound in (Bound.MALL, Bound.HBM):
        return _memory(traffic, bound)
    if bound is Bound.ATOMICS:
        top = _largest(traffic, lambda row: row.requests if row.kind is AccessKind.ATOMIC else 0)
        return f"{traffic.atomic_requests:,} atomic requests, {_from(top)}"
    if bound is Bound.FENCES:
        return f"{traffic.release_fences:,} waves write back their L2 with buffer_wbl2"
    if bound is Bound.WRITE_BACK:
        return (
            f"at its end the launch writes back {traffic.last_write_back_bytes / 1e6:,.1f} MB that lie dirty in the L2s"
        )
    if bound is Bound.LDS:
        top = _largest(traffic, lambda row: row.lds_clk)
        share = 100 * traffic.lds_conflict_clk / max(1, traffic.lds_clk)
        return f"{traffic.lds_clk:,} LDS cycles, {share:.0f} % of them bank conflicts, {_from(top)}"
    if bound is Bound.L1:
        top = _largest(traffic, lambda row: address_clk(row, device))
        cycles = round(sum(address_clk(row, device) for row in traffic.instructions))
        return f"{cycles:,} cycles of the L1 address units, {_from(top)}"
    if bound is Bound.ISSUE:
        clk = evaluation.wave.demands.simd_clk
        return f"every wave issues {clk:,.0f} cycles of vector and matrix instructions"
    return _latency(kernel, traffic, evaluation)


def _l2(traffic: Traffic) -> str:
    if not traffic.l2_write_requests:
        top = _largest(traffic, lambda row: row.l2_requests)
        return f"{traffic.l2_read_requests:,} line reads reach the L2, {_from(top)}"
    top = _largest(traffic, lambda row: row.requests if row.kind is AccessKind.STORE else 0)
    share = 100 * traffic.l2_partial_write_requests / traffic.l2_write_requests
    skew = f"; up to {traffic.channel_imbalance:.1f} times the mean at one channel"
    return (
        f"{traffic.l2_write_requests:,} write requests reach the L2, {share:.0f} % of them for less than 64 bytes, "
        f"{_from(top)}{skew if traffic.channel_imbalance > 1.5 else ''}"
    )


def _memory(traffic: Traffic, bound: Bound) -> str:
    read, write, level = (traffic.hbm_read_bytes, traffic.hbm_write_bytes, "HBM")
    if bound is Bound.MALL:
        read, write, level = (traffic.fabric_read_bytes, traffic.fabric_write_bytes, "the memory-side cache")
    excess = (read + write) / max(1, traffic.minimum_bytes)
    return (
        f"{level} moves {read / 1e6:,.1f} MB in and {write / 1e6:,.1f} MB out, "
        f"{excess:.2f} times the least the kernel could do with"
    )


def _latency(kernel: Kernel, traffic: Traffic, evaluation: Evaluation) -> str:
    index, clk = evaluation.wave.longest_wait, evaluation.wave.longest_wait_clk
    occupancy = f"{traffic.residency.waves_per_simd} waves a SIMD ({traffic.residency.limiter})"
    if evaluation.wave.supply_clk > clk:
        held = traffic.residency.workgroups_per_cu
        others = "no other workgroup" if held == 1 else f"{held - 1} other workgroup{'s' if held > 2 else ''}"
        return (
            f"a workgroup with barriers waits {evaluation.wave.supply_clk:,.0f} cycles for its own data, and a compute "
            f"unit holds {others} to work meanwhile ({traffic.residency.limiter})"
        )
    if index is None:
        return f"start, scalar work and branches of the waves, with {occupancy}"
    instruction = kernel.instructions[index]
    where = f"{instruction.opcode} at {instruction.source}" if instruction.source else instruction.opcode
    return f"every wave waits {clk:,.0f} cycles for {where}, with {occupancy}"


def _largest(traffic: Traffic, measure: Callable[[InstructionTraffic], float]) -> InstructionTraffic | None:
    return max(traffic.instructions, key=measure, default=None)


def _from(row: InstructionTraffic | None) -> str:
    return f"most from {row.where}" if row else "from no single instruction"
