"""Timing of contestants side by side on a GPU: interleaved, with a cold cache, medians.

Every sample is taken like this: 256 MiB are *read*, so that nothing of the contestant is left in the caches and nothing
dirty either, whose write-back the contestant would pay for; the GPU sleeps for as long as the host needs to enqueue the
contestant; then an event, the contestant, an event. Contestants take turns within every round, in rotating order, so
that clocks and temperature are alike for all.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

FLUSH_BYTES = 256 * 2**20
"""More than four times the largest L2 (60 MB on an H200); as much as the memory-side cache of an MI300X."""

FEWEST_ROUNDS, MOST_ROUNDS = 20, 60
SLEEP_CYCLES_PER_US = 2000
"""A cycle of the sleeping kernel is one of the SM clock, at most 2 GHz: the sleep is at least as long as asked for."""

Call = Callable[[], Any]


@dataclass
class Samples:
    """Times of one contestant.

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


class GpuClock:
    """Device time by events."""

    def __init__(self) -> None:
        self._scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def enqueue(self, call: Call, *, host_us: float) -> Callable[[], float]:
        """Enqueue one sample; the answer, asked for after a synchronisation, is its time in microseconds."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._scratch.sum()
        torch.cuda._sleep(int((20 + 1.3 * host_us) * SLEEP_CYCLES_PER_US))
        start.record()
        call()
        end.record()
        return lambda: 1000 * start.elapsed_time(end)


class HostClock:
    """Stands where there is no GPU, to try the script out: its figures mean nothing."""

    def synchronize(self) -> None:
        pass

    def enqueue(self, call: Call, *, host_us: float) -> Callable[[], float]:
        before = time.perf_counter()
        call()
        us = 1e6 * (time.perf_counter() - before)
        return lambda: us


def host_time_us(clock: GpuClock | HostClock, call: Call) -> float:
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
    clock: GpuClock | HostClock, contestants: Mapping[str, Call], *, seconds: float, fewest: int = FEWEST_ROUNDS
) -> dict[str, Samples]:
    """Time contestants that have been called before (what has to be compiled is).

    Args:
        clock: Where they run.
        contestants: Name to a call without arguments; its result is dropped.
        seconds: About how long this may take; at least ``fewest`` rounds are run all the same.
        fewest: Least number of rounds.
    """
    samples = {name: Samples(host_us=host_time_us(clock, call)) for name, call in contestants.items()}
    names = list(contestants)
    begun = time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= fewest and time.perf_counter() - begun > seconds:
            break
        turn = number % len(names)
        pending = [
            (name, clock.enqueue(contestants[name], host_us=samples[name].host_us))
            for name in (*names[turn:], *names[:turn])
        ]
        clock.synchronize()
        for name, answer in pending:
            samples[name].device_us.append(answer())
    return samples
