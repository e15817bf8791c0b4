"""How many waves and workgroups a compute unit holds at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.kernel import Kernel


class Limiter(StrEnum):
    """The resource that runs out first."""

    WAVE_SLOTS = "wave slots"
    VGPR = "vector registers"
    SGPR = "scalar registers"
    LDS = "LDS"
    BARRIERS = "barriers"


@dataclass(frozen=True, slots=True)
class Residency:
    """Occupancy of one compute unit.

    Attributes:
        waves_per_workgroup: Waves of a workgroup.
        workgroups_per_cu: Workgroups that a compute unit holds at once.
        waves_per_simd: Waves that the fullest SIMD holds then.
        limiter: The resource that runs out first.
    """

    waves_per_workgroup: int
    workgroups_per_cu: int
    waves_per_simd: int
    limiter: Limiter


def residency(kernel: Kernel, device: Device, *, workgroup_size: int | None = None) -> Residency:
    """Occupancy from real registers, LDS, wave slots and barriers, with the allocation granules of the device.

    Args:
        kernel: Whose resources count.
        device: What it runs on.
        workgroup_size: Work-items of a workgroup; None for as many as the kernel was compiled for.

    Raises:
        LaunchError: if one workgroup alone does not fit a compute unit.
    """
    compute = device.compute
    waves = max(1, -(-(workgroup_size or kernel.workgroup_size) // compute.wave_lanes))
    per_simd = {
        Limiter.WAVE_SLOTS: compute.waves_per_simd,
        Limiter.VGPR: _fits(compute.vgpr_per_simd, kernel.resources.vgpr, compute.vgpr_granule),
    }
    if compute.sgpr_per_simd is not None and compute.sgpr_granule is not None:
        per_simd[Limiter.SGPR] = _fits(compute.sgpr_per_simd, kernel.resources.sgpr, compute.sgpr_granule)
    # The waves of a workgroup spread evenly over the SIMDs; a workgroup of one wave takes any.
    limits = {limiter: count * compute.simd_per_cu // waves for limiter, count in per_simd.items()}
    if kernel.resources.lds_bytes:
        limits[Limiter.LDS] = _fits(device.lds.bytes_per_cu, kernel.resources.lds_bytes, device.lds.granule_bytes)
    if waves > 1:
        limits[Limiter.BARRIERS] = compute.barriers_per_cu
    limiter = min(limits, key=lambda name: limits[name])
    workgroups = limits[limiter]
    if workgroups < 1:
        raise LaunchError(
            f"kernel {kernel.name}: one workgroup of {waves} waves does not fit a compute unit of {device.name}: "
            f"too many {limiter}",
            hint=f"VGPR {kernel.resources.vgpr}, SGPR {kernel.resources.sgpr}, LDS {kernel.resources.lds_bytes} B",
        )
    fullest = -(-workgroups * waves // compute.simd_per_cu)
    return Residency(waves, workgroups, fullest, limiter)


def _fits(capacity: int, wanted: int, granule: int) -> int:
    """How many requests of ``wanted``, rounded up to the granule, fit ``capacity``."""
    rounded = max(granule, -(-wanted // granule) * granule)
    return capacity // rounded
