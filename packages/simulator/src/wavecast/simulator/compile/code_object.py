"""The compiler's product, on which everything after it stands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


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
        """Short content hash of the assembly: what a prediction is keyed by."""
        return hashlib.sha256(self.assembly.encode()).hexdigest()[:16]
