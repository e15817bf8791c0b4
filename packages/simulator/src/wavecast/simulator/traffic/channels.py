"""How evenly requests would spread over the L2 channels if channels interleaved plainly, without a hash.

Co-resident workgroups are taken to run in step: requests at the same position of their memory streams arrive together.
That is the worst case; waves that drift apart spread better.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.devices import Device

# Steps of a wave's memory stream that are told apart; longer streams wrap round.
STEPS = 4096
# Requests of one XCD over which the hottest channel is compared with the mean: about as many as are in flight.
WINDOW = 4096


@dataclass
class ChannelLoad:
    """Requests by XCD, step and channel of the workgroups that are co-resident now, and totals of those before.

    Args:
        device: XCDs, channels and interleave.
    """

    device: Device
    counts: np.ndarray = field(init=False)
    hottest: int = field(init=False, default=0)
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        shape = (self.device.compute.num_xcd, STEPS, self.device.l2.channels_per_xcd)
        self.counts = np.zeros(shape, dtype=np.int64)

    @property
    def interleave_shift(self) -> int:
        """Binary logarithm of the lines that go to one channel before the next has its turn."""
        return (self.device.l2.interleave_bytes // self.device.l2.line_bytes).bit_length() - 1

    @property
    def imbalance(self) -> float:
        """Hottest channel over the mean, at least 1."""
        return max(1.0, self.hottest * self.device.l2.channels_per_xcd / self.total) if self.total else 1.0

    def close(self) -> None:
        """Take stock of the co-resident workgroups and start anew with the next."""
        hottest, total = _windows(self.counts)
        self.hottest += int(hottest)
        self.total += int(total)
        self.counts[:] = 0


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
