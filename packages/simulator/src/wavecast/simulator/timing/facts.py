"""What a kernel's code alone tells, before anything is executed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.devices import Device
from wavecast.simulator.errors import UnsupportedInstructionError
from wavecast.simulator.program.instruction import PTX, WARP_WAIT, Instruction
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.opcodes import unit_of
from wavecast.simulator.timing.ptx_opcodes import is_fence
from wavecast.simulator.timing.units import Unit
from wavecast.simulator.traffic import AccessKind, Residency, classify, residency


class Group(StrEnum):
    """Kinds of instruction, in the order in which they are reported."""

    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    GLOBAL_ATOMIC = "global atomic"
    SCRATCH = "scratch"
    FENCE_RELEASE = "fence release"
    FENCE_ACQUIRE = "fence acquire"
    LDS = "LDS"
    SCALAR_LOAD = "scalar load"
    MATRIX = "matrix"
    VECTOR = "vector"
    SCALAR = "scalar"
    BRANCH = "branch"
    BARRIER = "barrier"
    WAIT = "wait"
    NONE = "no instruction of the machine"


_FENCES = {
    "buffer_wbl2": Group.FENCE_RELEASE,
    "buffer_wbinvl1": Group.FENCE_RELEASE,
    "buffer_wbinvl1_vol": Group.FENCE_RELEASE,
    "buffer_inv": Group.FENCE_ACQUIRE,
}
_OF_ACCESS = {
    AccessKind.LOAD: Group.GLOBAL_LOAD,
    AccessKind.LDS_DIRECT: Group.GLOBAL_LOAD,
    AccessKind.STORE: Group.GLOBAL_STORE,
    AccessKind.ATOMIC: Group.GLOBAL_ATOMIC,
    AccessKind.SCRATCH_LOAD: Group.SCRATCH,
    AccessKind.SCRATCH_STORE: Group.SCRATCH,
    AccessKind.SCALAR_LOAD: Group.SCALAR_LOAD,
}
_OF_UNIT = {
    Unit.MATRIX: Group.MATRIX,
    Unit.VALU: Group.VECTOR,
    Unit.LDS: Group.LDS,
    Unit.BRANCH: Group.BRANCH,
    Unit.SCALAR: Group.SCALAR,
    Unit.SCALAR_MEMORY: Group.SCALAR,
    Unit.NONE: Group.NONE,
}
_ENDS = ("s_endpgm", "s_setpc_b64", "s_swappc_b64")
_WAITS = ("s_waitcnt", "s_nop", "s_sleep")


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """One opcode of a kernel.

    Attributes:
        group: Its kind.
        opcode: Base mnemonic.
        count: How often it stands in the code; in a loop it counts once.
        lane_bytes: Bytes a lane (for a scalar load: the wave) moves with it; None if it moves none.
    """

    group: Group
    opcode: str
    count: int
    lane_bytes: int | None


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Static counts of a kernel, and what it occupies.

    Attributes:
        kernel: The kernel, with its resources.
        instructions: Opcodes, by group and then by name.
        residency: Occupancy and its limiter; None if no device was asked about.
    """

    kernel: Kernel
    instructions: tuple[InstructionCount, ...]
    residency: Residency | None

    def total(self, group: Group) -> int:
        """Instructions of one group."""
        return sum(item.count for item in self.instructions if item.group is group)

    def widths(self, group: Group) -> dict[int, int]:
        """Bytes a lane to the number of instructions of one group that move so many."""
        found: Counter[int] = Counter()
        for item in self.instructions:
            if item.group is group and item.lane_bytes is not None:
                found[item.lane_bytes] += item.count
        return dict(sorted(found.items()))


def kernel_facts(kernel: Kernel, device: Device | None = None) -> KernelFacts:
    """Count the instructions of a kernel, and work out its occupancy if a device is given.

    Raises:
        UnsupportedInstructionError: if an instruction is of no known kind.
        LaunchError: if one workgroup does not fit a compute unit of the device.
    """
    counts: Counter[tuple[Group, str, int | None]] = Counter()
    for instruction in kernel.instructions:
        access = classify(instruction)
        counts[group_of(instruction), instruction.opcode, access.bytes_per_lane if access else None] += 1
    order = list(Group)
    ranked = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1], item[0][2] or 0))
    return KernelFacts(
        kernel=kernel,
        instructions=tuple(InstructionCount(group, opcode, count, width) for (group, opcode, width), count in ranked),
        residency=None if device is None else residency(kernel, device),
    )


def group_of(instruction: Instruction) -> Group:
    """The kind of an instruction.

    Raises:
        UnsupportedInstructionError: if it is no scalar, vector, memory or LDS instruction.
    """
    opcode = instruction.opcode
    if instruction.encoding == PTX:
        return _group_of_ptx(instruction)
    if opcode in _FENCES:
        return _FENCES[opcode]
    access = classify(instruction)
    if access is not None and access.kind in _OF_ACCESS:
        return _OF_ACCESS[access.kind]
    if opcode.startswith(_WAITS):
        return Group.WAIT
    if opcode == "s_barrier":
        return Group.BARRIER
    if opcode in _ENDS:
        return Group.BRANCH
    group = _OF_UNIT.get(unit_of(instruction))
    if group is None or (group is Group.SCALAR and not opcode.startswith("s_")):
        raise UnsupportedInstructionError(f"opcode {opcode!r} belongs to no known group of instructions")
    return group


def _group_of_ptx(instruction: Instruction) -> Group:
    opcode, access = instruction.opcode, classify(instruction)
    if access is not None and access.kind in _OF_ACCESS:
        return _OF_ACCESS[access.kind]
    if opcode == WARP_WAIT:
        return Group.WAIT
    if opcode.startswith(("bar.sync", "barrier")):
        return Group.BARRIER
    return Group.FENCE_RELEASE if is_fence(opcode) else _OF_UNIT[unit_of(instruction)]
