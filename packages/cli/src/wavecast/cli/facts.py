"""What the instructions of a compiled kernel are: how many of which kind, and how wide its memory accesses are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wavecast.cli.schema import check_types


class Group(StrEnum):
    """Kinds of instruction, in the order in which they are shown; those of the simulator's facts."""

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


MEMORY_GROUPS = (
    Group.GLOBAL_LOAD,
    Group.GLOBAL_STORE,
    Group.GLOBAL_ATOMIC,
    Group.SCRATCH,
    Group.LDS,
    Group.SCALAR_LOAD,
)


@dataclass(frozen=True, slots=True)
class InstructionCount:
    """One opcode of a kernel.

    Attributes:
        group: Its kind.
        opcode: Base mnemonic.
        count: How often it stands in the code.
        lane_bytes: Bytes a lane (for a scalar load: the wave) moves with it; None if it moves none.
    """

    group: Group
    opcode: str
    count: int
    lane_bytes: int | None

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One compiled kernel.

    Attributes:
        name: Symbol.
        arch: ``gfx942`` or ``gfx950``.
        code_object: Content hash of the assembly text.
        toolchain: Compiler and version, if known.
        variant: Variant of the experiment that launched it; None for a kernel from a file.
        workgroup_size: Work-items a workgroup.
        vgpr: Vector registers a wave, accumulation registers included.
        sgpr: Scalar registers a wave.
        lds_bytes: LDS bytes a workgroup.
        spill_bytes: Private bytes a lane.
        waves_per_simd: Waves that fit a SIMD at once; None for a kernel from a file, whose device is not known.
        instructions: Opcodes, by group and then by name.
    """

    name: str
    arch: str
    code_object: str
    toolchain: str | None
    variant: str | None
    workgroup_size: int
    vgpr: int
    sgpr: int
    lds_bytes: int
    spill_bytes: int
    waves_per_simd: int | None
    instructions: tuple[InstructionCount, ...]

    def __post_init__(self) -> None:
        check_types(self)

    def total(self, group: Group) -> int:
        """Static instructions of one group."""
        return sum(item.count for item in self.instructions if item.group is group)
