"""Which kernels a call launches: seen where Triton launches them, so that nothing of it is timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

ASSEMBLY = ("amdgcn", "ptx")
"""Where a compiled kernel has its assembly text, by the name of the text."""


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch.

    Attributes:
        name: Symbol of the kernel.
        code_object: Content hash of its assembly text, as in a prediction.
        grid: Workgroups in x, y, z.
        vgpr: Vector registers that its driver reports; None if it does not.
        lds_bytes: Dynamic LDS or shared memory.
    """

    name: str
    code_object: str
    grid: tuple[int, ...]
    vgpr: int | None
    lds_bytes: int | None


@contextmanager
def recorded_launches() -> Iterator[list[Launched]]:
    """The launches that Triton makes within the block, in order."""
    from triton.runtime.jit import JITFunction

    launches: list[Launched] = []
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        grids: list[Any] = [grid]

        def told(bound: Any) -> Any:
            grids.append(grid(bound))
            return grids[-1]

        kernel = original(self, *args, grid=told if callable(grid) else grid, warmup=warmup, **kwargs)
        if kernel is not None and not warmup:
            launches.append(launch_of(kernel, grids[-1]))
        return kernel

    JITFunction.run = run
    try:
        yield launches
    finally:
        JITFunction.run = original


def launch_of(kernel: Any, grid: Any) -> Launched:
    """What is known of a launch of one of Triton's compiled kernels."""
    from wavecast.simulator.compile.code_object import code_digest

    text = next(kernel.asm[name] for name in ASSEMBLY if name in kernel.asm)
    return Launched(
        name=kernel.metadata.name,
        code_object=code_digest(text),
        grid=(*map(int, grid), 1, 1)[:3],
        vgpr=getattr(kernel, "n_regs", None),
        lds_bytes=getattr(kernel.metadata, "shared", None),
    )
