"""What a launch moves and executes, as plain data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from wavecast.cli.launches import LaunchFacts, LevelBytes
from wavecast.cli.measuring.metrics import SECTOR_BYTES
from wavecast.cli.simulate.counters import counted_memory, predicted_counters
from wavecast.cli.simulate.modelled import ModelledResult

if TYPE_CHECKING:
    from wavecast.cli.simulate.either import AnyLaunch, AnyTime
    from wavecast.simulator.timing.prediction import ModelledTime


def launch_facts(launch: AnyLaunch, time: AnyTime) -> LaunchFacts:
    """Terms, bytes and operations of a launch, with what counters would show of it."""
    from wavecast.simulator.timing import executed_operations

    if isinstance(launch.result, ModelledResult):
        return _modelled_facts(launch, cast("ModelledTime", time))
    traffic = launch.result.traffic
    operations = executed_operations(launch.result.execution)
    asked = Counter[str]()
    for row in traffic.instructions:
        asked[str(row.kind)] += row.bytes_asked
    return LaunchFacts(
        kernel=launch.kernel,
        predicted_us=time.predicted_us,
        terms={str(name): us for name, us in time.terms.items()},
        bytes=LevelBytes(
            asked_read=asked["load"] + asked["lds_direct"],
            asked_write=asked["store"],
            asked_atomic=asked["atomic"],
            l2_read=traffic.l2_read_bytes,
            l2_write=traffic.l2_write_bytes,
            mall_read=traffic.fabric_read_bytes,
            mall_write=traffic.fabric_write_bytes,
            hbm_read=traffic.hbm_read_bytes,
            hbm_write=traffic.hbm_write_bytes,
        ),
        workgroups=traffic.workgroups,
        matrix_flop=operations.matrix_flop,
        vector_ops=operations.vector_ops,
        instructions=operations.instructions,
        l2_requests=traffic.l2_read_requests + traffic.l2_write_requests,
        lds_clk=traffic.lds_clk,
        atomic_requests=traffic.atomic_requests,
        release_fences=traffic.release_fences,
        last_write_back_bytes=traffic.last_write_back_bytes,
        counters=predicted_counters(launch),
    )


def _modelled_facts(launch: AnyLaunch, time: ModelledTime) -> LaunchFacts:
    """Facts of a launch that was not executed: none of its instructions."""
    from wavecast.simulator.timing.modelled import kept_bytes

    read, written = time.hbm_read_bytes, time.written_bytes
    return LaunchFacts(
        kernel=launch.kernel,
        predicted_us=time.predicted_us,
        terms={str(name): us for name, us in time.terms.items()},
        bytes=LevelBytes(read, written, 0, time.l2_read_bytes, written, read, written, read, written),
        workgroups=math.prod(launch.grid),
        matrix_flop=0,
        vector_ops=0,
        instructions=0,
        l2_requests=0,
        lds_clk=0,
        atomic_requests=0,
        release_fences=0,
        last_write_back_bytes=kept_bytes(time, launch.result.device),
        counters={
            **counted_memory(read, written, launch.result.device),
            "memory.l2_read_sectors": time.l2_read_bytes / SECTOR_BYTES,
            "memory.l2_write_sectors": written / SECTOR_BYTES,
            "memory.bytes_transferred_l2": time.l2_read_bytes + written,
        },
    )


def width_shares(launches: Sequence[AnyLaunch], kinds: Sequence[str]) -> dict[int, float]:
    """Bytes a lane of executed instructions of these kinds to their share of all bytes that they ask for."""
    asked: Counter[int] = Counter()
    for launch in launches:
        if isinstance(launch.result, ModelledResult):
            continue
        for row in launch.result.traffic.instructions:
            if row.kind in kinds and row.lanes:
                asked[round(row.bytes_asked / row.lanes)] += row.bytes_asked
    total = asked.total()
    return {width: asked[width] / total for width in sorted(asked)} if total else {}
