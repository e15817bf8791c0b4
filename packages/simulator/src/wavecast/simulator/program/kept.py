"""What is worked out of a kernel once and kept for its next launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from wavecast.simulator.program.kernel import Kernel

Found = TypeVar("Found")

KERNELS = 256
"""Kernels of which something is kept: more than any experiment launches, and each takes at most a few MB."""


class OfKernels(Generic[Found]):
    """A function of kernels that remembers what it found of those asked for last.

    By identity, since comparing kernels would cost more than it saves; a kernel is kept alive, so that no other can
    take its place. Several threads may ask at once; at worst both work it out.

    Args:
        find: Works it out.
        most: Kernels that are remembered.
    """

    def __init__(self, find: Callable[[Kernel], Found], most: int = KERNELS) -> None:
        self._find, self._most = find, most
        self._known: dict[int, tuple[Kernel, Found]] = {}

    def __call__(self, kernel: Kernel) -> Found:
        # Taken out and put back: the one used longest ago is the first in the order.
        known = self._known.pop(id(kernel), None) or (kernel, self._find(kernel))
        self._known[id(kernel)] = known
        while len(self._known) > self._most:
            self._known.pop(next(iter(self._known)), None)
        return known[1]
