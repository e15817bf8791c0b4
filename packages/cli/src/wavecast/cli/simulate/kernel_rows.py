"""Rows of kernels: equal launches summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from wavecast.cli.rows import KernelRow
from wavecast.cli.simulate.modelled import ModelledResult

if TYPE_CHECKING:
    from wavecast.cli.simulate.either import AnyLaunch, AnyTime
    from wavecast.simulator.timing import TimePrediction
    from wavecast.simulator.timing.prediction import ModelledTime


def kernel_rows(launches: Sequence[AnyLaunch], times: Sequence[AnyTime]) -> tuple[KernelRow, ...]:
    """One row for each code object and grid, in the order of the first launch, times and bytes summed."""
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[AnyLaunch, AnyTime]]] = {}
    for launch, time in zip(launches, times, strict=True):
        groups.setdefault((launch.code_object.digest, launch.grid), []).append((launch, time))
    return tuple(kernel_row(members) for members in groups.values())


def kernel_row(members: Sequence[tuple[AnyLaunch, AnyTime]]) -> KernelRow:
    """The row of equal launches; bound, cause and resources are the first one's."""
    launch, time = members[0]
    resources = launch.result.kernel.resources
    if isinstance(launch.result, ModelledResult):
        return _modelled_row(launch, [cast("ModelledTime", item) for _, item in members])
    traffics = [member.result.traffic for member, _ in members]
    return KernelRow(
        name=launch.kernel,
        code_object=launch.code_object.digest,
        launches=len(members),
        grid=launch.grid,
        predicted_us=sum(item.predicted_us for _, item in members),
        predicted_low_us=sum(item.low_us for _, item in members),
        predicted_high_us=sum(item.high_us for _, item in members),
        bound=str(time.bound),
        cause=time.cause,
        hbm_read_bytes=sum(traffic.hbm_read_bytes for traffic in traffics),
        hbm_write_bytes=sum(traffic.hbm_write_bytes for traffic in traffics),
        coalescing_efficiency=traffics[0].coalescing_efficiency,
        fence_release=sum(traffic.release_fences for traffic in traffics),
        fence_acquire=sum(traffic.acquire_fences for traffic in traffics),
        vgpr=resources.vgpr,
        sgpr=resources.sgpr,
        lds_bytes=resources.lds_bytes,
        spill_bytes=resources.scratch_bytes,
        waves_per_simd=cast("TimePrediction", time).waves_per_simd,
    )


def _modelled_row(launch: AnyLaunch, times: Sequence[ModelledTime]) -> KernelRow:
    """Row of launches that were not executed: what the binary says of resources, what the model says of bytes."""
    resources = launch.result.kernel.resources
    return KernelRow(
        name=launch.kernel,
        code_object=launch.code_object.digest,
        launches=len(times),
        grid=launch.grid,
        predicted_us=sum(time.predicted_us for time in times),
        predicted_low_us=sum(time.low_us for time in times),
        predicted_high_us=sum(time.high_us for time in times),
        bound=str(times[0].bound),
        cause=times[0].cause,
        hbm_read_bytes=sum(time.hbm_read_bytes for time in times),
        hbm_write_bytes=sum(time.written_bytes for time in times),
        fence_release=0,
        fence_acquire=0,
        vgpr=resources.vgpr,
        sgpr=resources.sgpr,
        lds_bytes=resources.lds_bytes,
        spill_bytes=resources.scratch_bytes,
    )
