"""What launches leave one another in the memory-side cache."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.traffic.caches import is_followed


@dataclass
class KeptLines:
    """Lines that a device's memory-side cache holds between launches; clean, since a launch writes back at its end.

    Attributes:
        lines: uint64, the least recently used first; of each ``stride`` neighbours the one that is followed.
        stride: One line in so many was followed.
    """

    lines: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    stride: int = 1

    def followed(self, stride: int) -> np.ndarray:
        """The lines as a launch sees them that follows one line in ``stride``, in the same order."""
        if stride < self.stride:
            return _finer(self.lines, self.stride, stride)
        return self.lines if stride == self.stride else _coarser(self.lines, stride)


@compiled
def _coarser(lines: np.ndarray, stride: int) -> np.ndarray:
    """Those of the lines that a larger stride follows as well."""
    count = 0
    out = np.empty_like(lines)
    for line in lines:
        if is_followed(line, stride):
            out[count] = line
            count += 1
    return out[:count]


@compiled
def _finer(lines: np.ndarray, stride: int, finer: int) -> np.ndarray:
    """Every line that a smaller stride follows among the neighbours that each line stands for."""
    count = 0
    out = np.empty(len(lines) * (stride // finer), dtype=np.uint64)
    for line in lines:
        first = line - line % np.uint64(stride)
        for offset in range(stride):
            neighbour = first + np.uint64(offset)
            if is_followed(neighbour, finer):
                out[count] = neighbour
                count += 1
    return out[:count]
