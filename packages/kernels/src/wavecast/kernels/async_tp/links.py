"""How the GPUs of a node are joined: asked of the runtime, not assumed of an architecture."""

from __future__ import annotations

from functools import cache

from wavecast.kernels.device import active_arch
from wavecast.kernels.hip.runtime import hip_runtime


@cache
def is_full_mesh(here: int, peers: tuple[int, ...]) -> bool:
    """Whether a link of its own leads from one GPU of this process to each of some others.

    CUDA does not say what is at the other end of a link. NVIDIA's nodes whose GPUs all reach each other have switches.
    """
    arch = active_arch()
    if arch is None or not arch.startswith("gfx"):
        return False
    runtime = hip_runtime()
    return all(runtime.has_own_link(here, other) for other in peers if other != here)
