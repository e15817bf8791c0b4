"""What the simulation must know of a kernel: how long it runs alone, and what it moves meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.program import KernelLike

KernelKey = tuple[str, tuple[tuple[str, int | str], ...]]
"""Operator, and the items of the shape in order of their names."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One launch with the GPU to itself, on as many compute units as it may use.

    Attributes:
        alone_us: Time of the launch, launch cost included, behind another kernel.
        hbm_bytes: Bytes between L2 or memory-side cache and HBM.
        tiles: Output tiles, of equal work; None: one a workgroup.
        exclusive: Whether another such kernel of the GPU begins only when this one has ended: persistent kernels of a
            library. On an H200 two products on two streams take as long as on one, though their last rounds leave
            multiprocessors free, and copies get in.
    """

    alone_us: float
    hbm_bytes: float = 0.0
    tiles: int | None = None
    exclusive: bool = False

    def __post_init__(self) -> None:
        if not self.alone_us > 0 or self.hbm_bytes < 0 or (self.tiles is not None and self.tiles < 1):
            raise OverlapError(f"{self}: wanted a time above 0, bytes of at least 0 and at least one tile")


KernelTimes = Mapping[KernelKey, KernelTime] | Callable[[KernelLike], KernelTime]
"""A table, or a function that prices a kernel."""


def kernel_key(operator: str, shape: Mapping[str, int | str]) -> KernelKey:
    """What a table of kernel times is keyed by."""
    return operator, tuple(sorted(shape.items()))


def time_of(kernel: KernelLike, times: KernelTimes) -> KernelTime:
    """The kernel's time.

    Raises:
        OverlapError: if the table has no entry for it.
    """
    if callable(times):
        return times(kernel)
    key = kernel_key(kernel.operator, kernel.shape)
    if key not in times:
        raise OverlapError(
            f"no time is known for {kernel.operator} with {dict(kernel.shape)}; the table has {len(times)} entries",
            hint="predict that launch first, or pass a function that prices kernels",
        )
    return times[key]
