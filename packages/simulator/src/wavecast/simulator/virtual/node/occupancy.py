"""Compute units of one device: which of them has room for a workgroup, and who is on it.

The dispatcher deals the workgroups of a kernel out to the XCDs in turn, and those of an XCD to its shader engines in
turn. A workgroup waits for room in the shader engine whose turn it is, even if another one has some: that is why
leaving compute units free in the total does not help a kernel that has to start beside a full one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.residency import residency


@dataclass(frozen=True, slots=True)
class Need:
    """What one workgroup occupies.

    Attributes:
        waves: Waves.
        vgpr: Vector registers of each wave, rounded up to what is allocated.
        sgpr: Scalar registers likewise.
        lds_bytes: LDS likewise.
    """

    waves: int
    vgpr: int = 0
    sgpr: int = 0
    lds_bytes: int = 0


def need_of(kernel: Kernel, device: Device, workgroup_size: int) -> Need:
    """What a workgroup of a kernel occupies on a device.

    Raises:
        LaunchError: It does not fit an empty compute unit.
    """
    waves = residency(kernel, device, workgroup_size=workgroup_size).waves_per_workgroup
    compute, used = device.compute, kernel.resources
    return Need(
        waves,
        _rounded(max(used.vgpr, 1), compute.vgpr_granule),
        _rounded(max(used.sgpr, 1), compute.sgpr_granule or 1),
        _rounded(used.lds_bytes, device.lds.granule_bytes),
    )


def _rounded(wanted: int, granule: int) -> int:
    return -(-wanted // granule) * granule


@dataclass(slots=True)
class ComputeUnit:
    """One compute unit.

    Attributes:
        waves: Waves on each SIMD.
        vgpr: Vector registers taken on each SIMD.
        sgpr: Scalar registers likewise.
        lds_bytes: LDS taken.
        barriers: Workgroups of more than one wave.
        holders: Who is on it; for messages.
    """

    waves: list[int]
    vgpr: list[int]
    sgpr: list[int]
    lds_bytes: int = 0
    barriers: int = 0
    holders: list[object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workgroup is.

    Attributes:
        xcd: Index of the XCD.
        shader_engine: Index in the XCD.
        unit: The compute unit.
        simds: SIMD of each wave.
    """

    xcd: int
    shader_engine: int
    unit: ComputeUnit
    simds: tuple[int, ...]


class ComputeUnits:
    """All compute units of a device.

    Args:
        device: Its specification.
        first: Shader engine of each XCD whose turn comes first; a real device's depends on what ran before.

    Raises:
        LaunchError: The device's specification does not say how many shader engines there are.
    """

    def __init__(self, device: Device, first: list[int]) -> None:
        if device.link is None:
            raise LaunchError(
                f"the specification of {device.name} has no [link] section, which a node needs",
                hint="take mi300x, mi325x or mi355x",
            )
        self._device = device
        self._engines = device.link.shader_engines_per_xcd
        # Made when a workgroup first comes there: a node of large devices has thousands of them.
        self._made: dict[int, list[list[ComputeUnit]]] = {}
        self._turn = [start % self._engines for start in first]

    def _xcd(self, xcd: int) -> list[list[ComputeUnit]]:
        """Compute units of each shader engine of an XCD; where they do not divide, the first engines have one more."""
        if xcd not in self._made:
            compute = self._device.compute
            units = compute.num_cu // compute.num_xcd
            sizes = [units // self._engines + (engine < units % self._engines) for engine in range(self._engines)]
            self._made[xcd] = [[self._empty() for _ in range(size)] for size in sizes]
        return self._made[xcd]

    def _empty(self) -> ComputeUnit:
        simds = self._device.compute.simd_per_cu
        return ComputeUnit([0] * simds, [0] * simds, [0] * simds)

    @property
    def xcds(self) -> int:
        """XCDs of the device."""
        return self._device.compute.num_xcd

    def place(self, xcd: int, need: Need, holder: object) -> Place | None:
        """Put a workgroup on a compute unit of the shader engine whose turn it is; None if none there has room."""
        engine = self._engine(xcd)
        # The emptiest first, as dispatchers spread workgroups.
        for unit in sorted(self._xcd(xcd)[engine], key=lambda unit: sum(unit.waves)):
            simds = self._room(unit, need)
            if simds is not None:
                for simd in simds:
                    unit.waves[simd] += 1
                    unit.vgpr[simd] += need.vgpr
                    unit.sgpr[simd] += need.sgpr
                unit.lds_bytes += need.lds_bytes
                unit.barriers += need.waves > 1
                unit.holders.append(holder)
                self._turn[xcd] = (engine + 1) % len(self._xcd(xcd))
                return Place(xcd, engine, unit, simds)
        return None

    def free(self, place: Place, need: Need, holder: object) -> None:
        """Take a workgroup off its compute unit."""
        unit = place.unit
        for simd in place.simds:
            unit.waves[simd] -= 1
            unit.vgpr[simd] -= need.vgpr
            unit.sgpr[simd] -= need.sgpr
        unit.lds_bytes -= need.lds_bytes
        unit.barriers -= need.waves > 1
        unit.holders.remove(holder)

    def awaited(self, xcd: int) -> tuple[int, list[object]]:
        """The shader engine whose turn it is in an XCD, and who is on its compute units."""
        engine = self._engine(xcd)
        return engine, [holder for unit in self._xcd(xcd)[engine] for holder in unit.holders]

    def _engine(self, xcd: int) -> int:
        """The shader engine whose turn it is; one without compute units has none."""
        engines = self._xcd(xcd)
        return next(
            engine
            for engine in ((self._turn[xcd] + step) % len(engines) for step in range(len(engines)))
            if engines[engine]
        )

    def _room(self, unit: ComputeUnit, need: Need) -> tuple[int, ...] | None:
        """SIMDs for the waves of a workgroup, the emptiest first; None if it does not fit."""
        compute = self._device.compute
        if unit.lds_bytes + need.lds_bytes > self._device.lds.bytes_per_cu:
            return None
        if need.waves > 1 and unit.barriers >= compute.barriers_per_cu:
            return None
        waves, vgpr, sgpr = list(unit.waves), list(unit.vgpr), list(unit.sgpr)
        chosen = []
        for _ in range(need.waves):
            simd = min(range(len(waves)), key=lambda index: waves[index])
            if waves[simd] >= compute.waves_per_simd or vgpr[simd] + need.vgpr > compute.vgpr_per_simd:
                return None
            if compute.sgpr_per_simd is not None and sgpr[simd] + need.sgpr > compute.sgpr_per_simd:
                return None
            waves[simd] += 1
            vgpr[simd] += need.vgpr
            sgpr[simd] += need.sgpr
            chosen.append(simd)
        return tuple(chosen)
