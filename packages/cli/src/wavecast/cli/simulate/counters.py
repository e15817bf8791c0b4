"""What hardware counters would show of a launch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wavecast.cli.measuring.metrics import LINE_BYTES, SECTOR_BYTES

if TYPE_CHECKING:
    from wavecast.cli.simulate.either import AnyLaunch
    from wavecast.simulator.devices import Device
    from wavecast.simulator.launch import LaunchResult


def predicted_counters(launch: AnyLaunch) -> dict[str, float]:
    """What hardware counters would show of a launch: those of the memory side count between the L2 and the fabric."""
    traffic, arch = launch.result.traffic, launch.code_object.arch
    executed = Counter[str]()
    for row in traffic.instructions:
        executed[str(row.kind)] += row.executed
    lds = _shared_instructions(launch.result) or sum(
        count for kind, count in executed.items() if kind in ("lds_read", "lds_write", "lds_atomic")
    )
    found = {
        "memory.hbm_read_bytes": traffic.fabric_read_bytes,
        "memory.hbm_write_bytes": traffic.fabric_write_bytes,
        "memory.bytes_transferred_hbm": traffic.fabric_read_bytes + traffic.fabric_write_bytes,
        "memory.l2_read_requests": traffic.l2_read_requests,
        "memory.l2_write_requests": traffic.l2_write_requests,
        "memory.load_requests": executed["load"] + executed["lds_direct"],
        "memory.store_requests": executed["store"],
        "memory.l2_hit_rate": 100.0 * traffic.l2_hit_rate,
        "memory.lds_conflict_clk": traffic.lds_conflict_clk,
        "memory.lds_instructions": lds,
    }
    if lds:
        found["memory.lds_bank_conflicts"] = traffic.lds_conflict_clk / lds
    if arch.startswith("sm_"):
        found["memory.l2_read_sectors"] = traffic.l2_read_bytes / SECTOR_BYTES
        found["memory.l2_write_sectors"] = traffic.l2_write_bytes / SECTOR_BYTES
        found["memory.bytes_transferred_l2"] = traffic.l2_read_bytes + traffic.l2_write_bytes
        found |= counted_memory(traffic.fabric_read_bytes, traffic.fabric_write_bytes, launch.result.device)
        found["memory.load_sectors"] = sum(row.sectors for row in traffic.instructions if row.kind == "load")
        found["memory.store_sectors"] = sum(row.sectors for row in traffic.instructions if row.kind == "store")
        # Writes are counted in sectors here, and hits of lines read: neither is what the profiler counts.
        del found["memory.l2_write_requests"], found["memory.l2_hit_rate"]
    else:
        requests = traffic.l2_read_requests + traffic.l2_write_requests
        found["memory.bytes_transferred_l2"] = requests * LINE_BYTES
    return {name: float(value) for name, value in found.items()}


def counted_memory(read_bytes: float, written_bytes: float, device: Device) -> dict[str, float]:
    """Counters of HBM where the L2 keeps what is dirty at the end, and pushes out first what the profiler left."""
    from wavecast.simulator.traffic.dirty import left_by_profiler, written_among

    written, _ = written_among(read_bytes, written_bytes, device, before=left_by_profiler(device))
    return {
        "memory.hbm_read_bytes": read_bytes,
        "memory.hbm_write_bytes": written,
        "memory.bytes_transferred_hbm": read_bytes + written,
    }


def _shared_instructions(result: LaunchResult) -> float:
    """Loads and stores of shared memory in machine code, also by warps no lane of which takes part; 0 if unknown."""
    execution = result.execution
    counts = (
        float(execution.executed[index]) * sum(head in ("LDS", "STS") for head in work.heads) / work.copies
        for index, work in result.kernel.machine.items()
    )
    return sum(counts) * execution.scale
