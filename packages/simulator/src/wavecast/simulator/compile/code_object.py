"""The compiler's product, on which everything after it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

# Directives and labels that only debuggers read.
_DEBUG_DIRECTIVES = (".file", ".loc", ".cfi_", ".Ltmp", ".Lfunc", ".ident")


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A kernel compiled for one architecture.

    Attributes:
        name: Symbol of the kernel.
        arch: ``gfx942`` or ``gfx950``.
        assembly: AMDGCN assembly text, exactly as the compiler emitted it.
        toolchain: Compiler and version, ``triton 3.7.1``.
        num_warps: Waves a workgroup.
        lds_bytes: Dynamic LDS bytes the launch must give (Triton's ``shared``).
    """

    name: str
    arch: str
    assembly: str
    toolchain: str
    num_warps: int
    lds_bytes: int

    @property
    def digest(self) -> str:
        """``code_digest`` of the assembly: what a prediction is keyed by."""
        return code_digest(self.assembly)


def code_digest(assembly: str) -> str:
    """Short hash of what runs of an assembly text.

    Source files, line numbers and comments do not count, so the same code has the same digest on every machine.
    """
    return hashlib.sha256("\n".join(_lines_that_run(assembly)).encode()).hexdigest()[:16]


def _lines_that_run(assembly: str) -> Iterator[str]:
    """Instructions, labels they jump to, descriptor and metadata."""
    in_debug_section = False
    for line in assembly.splitlines():
        text = line.partition(";")[0].strip()
        if text.startswith((".section", ".text", ".amdgpu_metadata")):
            in_debug_section = ".debug_" in text
        if text and not in_debug_section and not text.startswith(_DEBUG_DIRECTIVES):
            yield text
