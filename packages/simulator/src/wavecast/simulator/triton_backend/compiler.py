"""The compiler of the backend: none of its own, since Triton's AMD backend compiles for virtual devices."""

from __future__ import annotations

from typing import Any

from triton.backends.amd import compiler as amd


class VirtualBackend(amd.HIPBackend):
    """Claims no target, so that the AMD backend stays the only one for gfx942 and gfx950."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """False."""
        return False
