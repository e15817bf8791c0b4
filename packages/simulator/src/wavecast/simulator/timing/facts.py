"""What a kernel's code alone tells, before anything is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from wavecast.simulator.devices import Device
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.opcodes import Unit, unit_of
from wavecast.simulator.traffic import AccessKind, Residency, classify, residency


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Static counts of a kernel; an instruction in a loop counts once.

    Attributes:
        kernel: Name.
        arch: Architecture it is compiled for.
        loads: Global loads by bytes a lane.
        stores: Global stores by bytes a lane.
        atomics: Global atomics.
        lds_reads: LDS reads by bytes a lane.
        lds_writes: LDS writes by bytes a lane.
        release_fences: ``buffer_wbl2``.
        acquire_fences: ``buffer_inv``.
        matrix: MFMA instructions.
        vgpr: Vector registers a wave, accumulation registers included.
        sgpr: Scalar registers a wave.
        lds_bytes: LDS a workgroup.
        vgpr_spills: Vector registers spilled.
        sgpr_spills: Scalar registers spilled.
        spill_bytes: Scratch bytes a lane.
        residency: Occupancy and its limiter.
    """

    kernel: str
    arch: str
    loads: Mapping[int, int]
    stores: Mapping[int, int]
    atomics: int
    lds_reads: Mapping[int, int]
    lds_writes: Mapping[int, int]
    release_fences: int
    acquire_fences: int
    matrix: int
    vgpr: int
    sgpr: int
    lds_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    spill_bytes: int
    residency: Residency

    @property
    def byte_stores(self) -> int:
        """Global stores of one byte a lane."""
        return self.stores.get(1, 0)


def kernel_facts(kernel: Kernel, device: Device) -> KernelFacts:
    """Count the instructions of a kernel and work out its occupancy.

    Raises:
        LaunchError: if one workgroup does not fit a compute unit.
    """
    widths: dict[AccessKind, Counter[int]] = {kind: Counter() for kind in AccessKind}
    for instruction in kernel.instructions:
        access = classify(instruction)
        if access is not None:
            widths[access.kind][access.bytes_per_lane] += 1
    opcodes = Counter(instruction.opcode for instruction in kernel.instructions)
    resources = kernel.resources
    return KernelFacts(
        kernel=kernel.name,
        arch=kernel.arch,
        loads=_frozen(widths[AccessKind.LOAD] + widths[AccessKind.LDS_DIRECT]),
        stores=_frozen(widths[AccessKind.STORE]),
        atomics=widths[AccessKind.ATOMIC].total(),
        lds_reads=_frozen(widths[AccessKind.LDS_READ]),
        lds_writes=_frozen(widths[AccessKind.LDS_WRITE]),
        release_fences=opcodes["buffer_wbl2"],
        acquire_fences=opcodes["buffer_inv"],
        matrix=sum(unit_of(instruction) is Unit.MATRIX for instruction in kernel.instructions),
        vgpr=resources.vgpr,
        sgpr=resources.sgpr,
        lds_bytes=resources.lds_bytes,
        vgpr_spills=resources.vgpr_spills,
        sgpr_spills=resources.sgpr_spills,
        spill_bytes=resources.scratch_bytes,
        residency=residency(kernel, device),
    )


def _frozen(counts: Counter[int]) -> Mapping[int, int]:
    return MappingProxyType(dict(sorted(counts.items())))
