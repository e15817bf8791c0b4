"""The compiler's product, on which everything after it stands."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from wavecast.simulator.program.assembly import kernel_names, target_of, workgroup_bound
from wavecast.simulator.program.kept import KERNELS
from wavecast.simulator.program.machine import MachineInstruction
from wavecast.simulator.program.ptx import is_ptx

# Directives and labels that only debuggers read.
_DEBUG_DIRECTIVES = (".file", ".loc ", ".loc\t", ".cfi_", ".Ltmp", ".Lfunc", ".ident", "$L__tmp", "$L__func", ".b8 ")
_KERNEL = ".amdhsa_kernel"
_WAVE_SIZE = 64


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A kernel compiled for one architecture.

    Attributes:
        name: Symbol of the kernel.
        arch: ``gfx942``, ``gfx950`` or ``sm_90``.
        assembly: AMDGCN assembly text, or PTX, exactly as the compiler emitted it.
        toolchain: Compiler and version, ``triton 3.7.1``.
        num_warps: Waves a workgroup; if the launch decides that, as in HIP, the most it may have.
        lds_bytes: Dynamic LDS bytes the launch must give (Triton's ``shared``).
        registers: Registers of a lane, where the text does not say, as in PTX.
        stack_bytes: Stack of a lane, likewise.
        machine: Of PTX, the machine code that it was assembled to.
    """

    name: str
    arch: str
    assembly: str
    toolchain: str
    num_warps: int
    lds_bytes: int
    registers: int = 0
    stack_bytes: int = 0
    machine: tuple[MachineInstruction, ...] = ()

    @property
    def digest(self) -> str:
        """``code_digest`` of the assembly: what a prediction is keyed by."""
        return code_digest(self.assembly, name=self.name)


@functools.lru_cache(maxsize=KERNELS)
def code_digest(assembly: str, *, name: str | None = None) -> str:
    """Short hash of what runs of an assembly text.

    Source files, line numbers and comments do not count, so the same code has the same digest on every machine.

    Args:
        assembly: The text.
        name: Kernel that is meant, where the text has several: each has its own digest.
    """
    lines = list(_lines_that_run(assembly))
    if name is not None and sum(line.startswith(_KERNEL) for line in lines) > 1:
        lines.append(name)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def code_objects_of(assembly: str, *, toolchain: str) -> tuple[CodeObject, ...]:
    """Every kernel of an assembly text, in the order of the text, without dynamic LDS.

    Args:
        assembly: AMDGCN assembly text with descriptors and metadata.
        toolchain: Compiler and version.

    Raises:
        AssemblyError: The text has no kernel, or does not say for which architecture it is.
    """
    arch = target_of(assembly)
    return tuple(
        CodeObject(name, arch, assembly, toolchain, -(-workgroup_bound(assembly, name) // _WAVE_SIZE), 0)
        for name in kernel_names(assembly)
    )


def _lines_that_run(assembly: str) -> Iterator[str]:
    """Instructions, labels they jump to, descriptor and metadata."""
    in_debug_section = False
    # PTX ends its statements with a semicolon, and begins its comments otherwise.
    comment = "//" if is_ptx(assembly) else ";"
    for line in assembly.splitlines():
        text = line.partition(comment)[0].strip()
        if text.startswith((".section", ".text", ".amdgpu_metadata")):
            in_debug_section = ".debug_" in text
        if text and not in_debug_section and not text.startswith(_DEBUG_DIRECTIVES):
            yield text
