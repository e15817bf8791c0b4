"""A kernel as the program stage hands it on: instructions, resources, arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavecast.simulator.program.instruction import Instruction
from wavecast.simulator.program.machine import MachineWork


@dataclass(frozen=True, slots=True)
class Argument:
    """One entry of the kernel-argument segment.

    Attributes:
        offset: Byte offset in the segment.
        size: Bytes.
        kind: ``value_kind`` of the metadata: ``global_buffer``, ``by_value``, ``hidden_block_count_x``, …
        name: Name in the source, if the compiler kept it.
    """

    offset: int
    size: int
    kind: str
    name: str = ""

    @property
    def is_hidden(self) -> bool:
        return self.kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one wave or workgroup occupies, as the compiler states it.

    Attributes:
        vgpr: Vector registers a wave is allocated, accumulation registers included (``amdhsa_next_free_vgpr``).
        arch_vgpr: Those of them that are ordinary vector registers (``NumVgprs``).
        agpr: Those of them that are accumulation registers.
        accum_offset: First accumulation register in the unified file.
        sgpr: Scalar registers (``TotalNumSgprs``).
        lds_bytes: LDS bytes a workgroup: static, plus the dynamic bytes of the launch metadata.
        scratch_bytes: Private (spill) bytes a lane.
        vgpr_spills: Vector registers spilled.
        sgpr_spills: Scalar registers spilled.
    """

    vgpr: int
    arch_vgpr: int
    agpr: int
    accum_offset: int
    sgpr: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of a code object.

    Attributes:
        name: Symbol.
        arch: ``gfx942``, ``gfx950`` or ``sm_90``.
        instructions: In the order of the text; ``instructions[i].index == i``.
        blocks: First instruction index of each basic block, ascending.
        descriptor: The ``.amdhsa_*`` directives without the prefix (``user_sgpr_count``: 16, …).
        arguments: Kernel-argument segment, ascending by offset.
        kernarg_bytes: Size of that segment.
        workgroup_size: Work-items a workgroup, at most (``.max_flat_workgroup_size``).
        resources: Registers, LDS, scratch.
        functions: First instruction index of each function that the kernel calls; their instructions follow its own.
        constants: Bytes of each constant that the code refers to by name.
        files: Path of each source file that source lines name, as the compiler wrote it.
        machine: Of PTX whose binary is at hand, what each instruction became in machine code.
    """

    name: str
    arch: str
    instructions: tuple[Instruction, ...]
    blocks: tuple[int, ...]
    descriptor: Mapping[str, int]
    arguments: tuple[Argument, ...]
    kernarg_bytes: int
    workgroup_size: int
    resources: Resources
    functions: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[int, MachineWork] = field(default_factory=dict)

    @property
    def is_ptx(self) -> bool:
        """Whether its instructions are PTX."""
        return self.arch.startswith("sm_")
