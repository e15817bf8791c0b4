"""How evenly requests spread over the L2 channels under a map of addresses to channels.

Co-resident workgroups are taken to run in step: requests at the same position of their memory streams arrive together.
That is the worst case; waves that drift apart spread better.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled, compiled_inline
from wavecast.simulator.traffic.l2_map import L2Map, channel_of

# Steps of a wave's memory stream that are told apart; longer streams wrap round.
STEPS = 4096
# Requests of one XCD over which the hottest channel is compared with the mean: about as many as are in flight.
WINDOW = 4096
# Counts of the launch before, all zero again: to map the memory anew costs more than a small launch.
_spare: list[np.ndarray] = []


class ChannelLoad:
    """Requests by map, XCD, step and channel of the workgroups that are co-resident now, and totals of those before.

    Args:
        maps: Maps to compare.
        num_xcd: XCDs.

    Attributes:
        counts: int32 (XCDs, STEPS, maps, channels): what one instruction adds to lies together.
        maps: int64 (maps, fields of ``L2Map``).
    """

    def __init__(self, maps: tuple[L2Map, ...], num_xcd: int) -> None:
        shape = num_xcd, STEPS, len(maps), maps[0].channels
        self.counts = _zeros(shape)
        self.maps = np.array(maps, dtype=np.int64)
        self._hottest, self._total = np.zeros(len(maps), dtype=np.int64), np.zeros(len(maps), dtype=np.int64)

    @property
    def imbalance(self) -> tuple[float, ...]:
        """Hottest channel over the mean for each map, at least 1."""
        channels = self.counts.shape[-1]
        pairs = zip(self._hottest.tolist(), self._total.tolist(), strict=True)
        return tuple(max(1.0, hottest * channels / total) if total else 1.0 for hottest, total in pairs)

    def release(self) -> None:
        """Let another one have the memory, when everything is closed; this one must not be used any more."""
        _spare[:] = [self.counts]

    def close(self, steps: int = STEPS) -> None:
        """Take stock of the co-resident workgroups and start anew with the next.

        Args:
            steps: Steps that any of them has taken.
        """
        reached = self.counts[:, :steps]
        for number in range(len(self.maps)):
            hottest, total = _windows(reached[:, :, number])
            self._hottest[number] += hottest
            self._total[number] += total
        reached[:] = 0


def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    try:
        spare = _spare.pop()
    except IndexError:
        return np.zeros(shape, dtype=np.int32)
    return spare if spare.shape == shape else np.zeros(shape, dtype=np.int32)


@compiled_inline
def add_requests(
    counts: np.ndarray,
    maps: np.ndarray,
    lines: np.ndarray,
    weights: np.ndarray,
    count: Any,
    first_line: Any,
    is_read: Any,
) -> Any:
    """Add the requests of one wave instruction.

    Args:
        counts: int32 (maps, channels), of its XCD and step.
        maps: int64 (maps, fields), of ``ChannelLoad``.
        lines: uint64, lines that it touches, less the first one, modulo 2**64.
        weights: int16, write requests to each.
        count: Lines.
        first_line: uint64.
        is_read: Whether it makes one request a line.
    """
    for number in range(len(maps)):
        shift, bits, hashed = maps[number, 0], maps[number, 1], maps[number, 3]
        for position in range(count):
            channel = channel_of(lines[position] + first_line, shift, bits, hashed)
            counts[number, channel] += 1 if is_read else weights[position]


@compiled
def _windows(counts: np.ndarray) -> tuple[int, int]:
    """Sum of the hottest channel over windows of steps, and of all requests."""
    hottest, total = 0, 0
    load = np.zeros(counts.shape[2], dtype=np.int64)
    for xcd in range(counts.shape[0]):
        load[:] = 0
        for step in range(counts.shape[1]):
            load += counts[xcd, step]
            held = load.sum()
            if held >= WINDOW or (step == counts.shape[1] - 1 and held):
                hottest += load.max()
                total += held
                load[:] = 0
    return hottest, total
