"""Timing of calls side by side on a GPU: interleaved, caches cold or warm, medians.

Every cold sample is taken like this: `FLUSH_BYTES` are *read*, so that nothing of the call is left in the caches and
nothing dirty either, whose write-back the call would pay for; the GPU sleeps for as long as the host needs to enqueue
the call; then an event, the call, an event. A warm sample has the call itself once more in the place of the flush.
Calls take turns within every round, in rotating order, so that clocks and temperature are alike for all.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

FLUSH_BYTES = 512 * 2**20
"""Twice the memory-side cache of an MI300X, more than eight times the L2 of an H200."""

FEWEST_ROUNDS, MOST_ROUNDS = 20, 60

SPIN_CYCLES = (100_000, 400_000)
"""Two sleeps, of which the longer takes a fifth of a millisecond; by how much longer tells the clock."""

Call = Callable[[], Any]


class Clock(Protocol):
    """What times calls: a GPU, or what stands for one in a test."""

    def synchronize(self) -> None:
        """Wait for all that was enqueued."""

    def enqueue(self, call: Call, *, host_us: float, warm: bool = False, idle: bool = False) -> Callable[[], float]:
        """Enqueue one sample.

        Args:
            call: What is timed.
            host_us: Time that the host takes for it.
            warm: Run it once more just before, instead of clearing the caches.
            idle: Do neither, and let the queue run empty before.

        Returns:
            Its time in µs, to be asked for after a synchronisation.
        """


@dataclass
class Samples:
    """Times of one call.

    Attributes:
        device_us: time on the device, one a round.
        host_us: time the host takes to enqueue a call, nothing waited for.
    """

    device_us: list[float] = field(default_factory=list)
    host_us: float = 0.0

    @property
    def median_us(self) -> float:
        return statistics.median(self.device_us)

    @property
    def spread_percent(self) -> float:
        """Half the distance between the first and the last decile, in per cent of the median."""
        deciles = statistics.quantiles(self.device_us, n=10)
        return 50 * (deciles[-1] - deciles[0]) / self.median_us

    @property
    def low_us(self) -> float:
        """The 5th percentile: a twentieth of the samples, but one at most below ten, lie below it."""
        return percentile(self.device_us, 0.05)

    @property
    def high_us(self) -> float:
        """The 95th percentile."""
        return percentile(self.device_us, 0.95)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, between neighbours in proportion."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


class GpuClock:
    """Device time by events, on torch's current GPU at the time it is made.

    Attributes:
        cycles_per_us: Cycles that a sleeping kernel counts in a microsecond: the clock of the compute units.
    """

    def __init__(self) -> None:
        self._scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
        self.cycles_per_us = 0.0
        for _ in range(3):  # the first one loads the kernel, and wakes the clock
            self.cycles_per_us = self.read_clock()

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def read_clock(self) -> float:
        """Cycles in a microsecond at this moment, in MHz that is."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        torch.cuda._sleep(SPIN_CYCLES[1])  # while the host enqueues the others
        for cycles, start, end in zip(SPIN_CYCLES, events[::2], events[1::2], strict=True):
            start.record()
            torch.cuda._sleep(cycles)
            end.record()
        torch.cuda.synchronize()
        short_us, long_us = (
            1000 * start.elapsed_time(end) for start, end in zip(events[::2], events[1::2], strict=True)
        )
        return (SPIN_CYCLES[1] - SPIN_CYCLES[0]) / (long_us - short_us)

    def align(self) -> None:
        """Enqueue what comes just before a sample: nothing."""

    def enqueue(self, call: Call, *, host_us: float, warm: bool = False, idle: bool = False) -> Callable[[], float]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if idle:
            self.synchronize()
            self.align()
            start.record()
            call()
            end.record()
            return lambda: 1000 * start.elapsed_time(end)
        sleep_us = 20 + 1.3 * host_us
        if not warm:
            self._scratch.sum()
        torch.cuda._sleep(int((sleep_us + warm * 1.3 * host_us) * self.cycles_per_us))
        if warm:
            call()
        self.align()
        start.record()
        call()
        end.record()
        return lambda: 1000 * start.elapsed_time(end)


def host_time_us(clock: Clock, call: Call) -> float:
    """Median time that the host takes for a call; what runs on the device then is not waited for."""
    times = []
    for _ in range(3):
        clock.synchronize()
        before = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - before))
    clock.synchronize()
    return statistics.median(times)


def interleaved(
    clock: Clock,
    contestants: Mapping[str, Call],
    *,
    seconds: float,
    fewest: int = FEWEST_ROUNDS,
    warm: bool = False,
    idle: bool = False,
) -> dict[str, Samples]:
    """Time calls that have been made before (what has to be compiled is).

    Args:
        clock: Where they run.
        contestants: Name to a call without arguments; its result is dropped.
        seconds: About how long this may take; at least ``fewest`` rounds are run all the same.
        fewest: Least number of rounds.
        warm: Whether the caches hold what the same call left there.
        idle: Whether the queue runs empty before each call, and the caches hold what they hold.
    """
    samples = {name: Samples(host_us=host_time_us(clock, call)) for name, call in contestants.items()}
    names = list(contestants)
    begun = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= fewest and time.perf_counter() - begun > seconds:
            break
        turn = number % len(names)
        pending = [
            (name, clock.enqueue(contestants[name], host_us=samples[name].host_us, warm=warm, idle=idle))
            for name in (*names[turn:], *names[:turn])
        ]
        clock.synchronize()
        for name, answer in pending:
            samples[name].device_us.append(answer())
    return samples
