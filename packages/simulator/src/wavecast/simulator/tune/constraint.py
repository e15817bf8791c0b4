"""What the hardware, or the user, does not let a configuration do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.kernel import Resources
from wavecast.simulator.traffic import Residency
from wavecast.simulator.virtual.driver import MAXIMUM_WORKGROUP_THREADS


class Constraint(StrEnum):
    """What a configuration was ruled out by."""

    WAVEFRONT = "wavefront size"
    COMPILER = "compiler"
    LDS = "LDS capacity"
    REGISTERS = "registers"
    SPILLS = "spills"
    OCCUPANCY = "occupancy"


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Why a configuration is not considered.

    Attributes:
        constraint: What it breaks.
        reason: What it needs and what there is.
    """

    constraint: Constraint
    reason: str

    def __str__(self) -> str:
        return f"{self.constraint}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a configuration may do that the hardware would allow.

    Attributes:
        spill_bytes: Scratch bytes a lane, at most; None for any number.
        waves_per_simd: Waves that a SIMD holds at once, at least.
    """

    spill_bytes: int | None = 0
    waves_per_simd: int = 1

    def __post_init__(self) -> None:
        if (self.spill_bytes or 0) < 0 or self.waves_per_simd < 1:
            raise LaunchError(
                f"limits of {self.spill_bytes} spilled bytes and {self.waves_per_simd} waves a SIMD",
                hint="give spill_bytes of 0 or more, or None, and waves_per_simd of 1 or more",
            )


def check_workgroup(num_warps: int, device: Device) -> RuledOut | None:
    """Whether a workgroup of ``num_warps`` waves exists: known before anything is compiled."""
    lanes = num_warps * device.compute.wave_lanes
    if lanes <= MAXIMUM_WORKGROUP_THREADS:
        return None
    reason = (
        f"{num_warps} waves of {device.compute.wave_lanes} lanes are {lanes:,} work-items, "
        f"and a workgroup has at most {MAXIMUM_WORKGROUP_THREADS:,}"
    )
    return RuledOut(Constraint.WAVEFRONT, reason)


def check_resources(
    resources: Resources, residency: Residency | None, device: Device, limits: Limits
) -> RuledOut | None:
    """Whether compiled code fits the device and the limits.

    Args:
        resources: What the code object says it occupies.
        residency: Its occupancy; None if a compute unit cannot hold one workgroup.
        device: Where it would run.
        limits: What the user allows.
    """
    if resources.lds_bytes > device.lds.bytes_per_cu:
        reason = f"{resources.lds_bytes:,} bytes a workgroup of the {int(device.lds.bytes_per_cu):,} that there are"
        return RuledOut(Constraint.LDS, reason)
    if residency is None:
        reason = f"{resources.vgpr} vector and {resources.sgpr} scalar registers a wave, so that no workgroup fits"
        return RuledOut(Constraint.REGISTERS, reason)
    if limits.spill_bytes is not None and resources.scratch_bytes > limits.spill_bytes:
        reason = (
            f"{resources.vgpr_spills} vector and {resources.sgpr_spills} scalar registers spilled, "
            f"{resources.scratch_bytes:,} bytes of scratch a lane, and {limits.spill_bytes:,} allowed"
        )
        return RuledOut(Constraint.SPILLS, reason)
    if residency.waves_per_simd < limits.waves_per_simd:
        reason = f"{residency.waves_per_simd} waves a SIMD ({residency.limiter}), and {limits.waves_per_simd} wanted"
        return RuledOut(Constraint.OCCUPANCY, reason)
    return None
