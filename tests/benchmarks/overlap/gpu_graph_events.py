"""What events behind the kernels of a graph cost: ``python tests/benchmarks/overlap/gpu_graph_events.py``.

NCCL records an event behind every captured kernel, on a stream of its own, for which its next kernel waits. The same
graphs are made here on one GPU, of kernels that only spin. A row is a round of such kernels, in turns, perhaps with a
product behind them; its time is the difference of a long and a short graph, with and without events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

SPIN = 'extern "C" __global__ void spin(int clk) { long long t = clock64(); while (clock64() - t < clk) {} }'
CLK_PER_US = 1980  # of an H200 that is not hot
ROUNDS_US = ((1,), (3,), (6,), (12,), (25,), (50,), (15, 5), (50, 5), (90, 5))
SHORT, LONG = 10, 30  # rounds of a graph
REPLAYS = 15


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph and what it refers to: an event that has gone is read by a replay all the same."""

    graph: torch.cuda.CUDAGraph
    event: torch.cuda.Event
    stream: torch.cuda.Stream


def main() -> None:
    """Measure and print."""
    torch.zeros(1, device="cuda")  # the compiler wants a context
    compiled = torch.cuda._compile_kernel(SPIN, "spin")
    left, right, out = (
        torch.zeros(size, device="cuda", dtype=torch.bfloat16) for size in ((4096, 512), (512, 1024), (4096, 1024))
    )
    torch.mm(left, right, out=out)

    def spin(us: int) -> Callable[[], None]:
        return lambda: compiled(grid=(1, 1, 1), block=(32, 1, 1), args=[us * CLK_PER_US])

    for lengths in ROUNDS_US:
        for product in (None, lambda: torch.mm(left, right, out=out)):
            plain, events = (round_us([spin(us) for us in lengths], product, events=with_) for with_ in (False, True))
            name = " + ".join(f"{us} us" for us in lengths) + (" + product" if product else "")
            print(f"{name}: {plain:.2f} us, with events {events:.2f} us", flush=True)


def round_us(kernels: list[Callable[[], None]], product: Callable[[], object] | None, *, events: bool) -> float:
    """Time of a round."""
    times = []
    for count in (SHORT, LONG):
        captured = capture(kernels, product, count, events=events)
        times.append(median(_replay_us(captured.graph) for _ in range(REPLAYS)))
    return (times[1] - times[0]) / (LONG - SHORT)


def capture(
    kernels: list[Callable[[], None]], product: Callable[[], object] | None, count: int, *, events: bool
) -> Captured:
    """A graph of so many rounds."""
    captured = Captured(torch.cuda.CUDAGraph(), torch.cuda.Event(external=True), torch.cuda.Stream())
    captured.event.record()
    torch.cuda.synchronize()
    with torch.cuda.graph(captured.graph, stream=torch.cuda.Stream()):
        current = torch.cuda.current_stream()
        if events:
            captured.stream.wait_stream(current)
            captured.stream.wait_event(captured.event)
        for _ in range(count):
            for kernel in kernels:
                if events:
                    current.wait_stream(captured.stream)
                kernel()
                if events:
                    captured.stream.wait_stream(current)
                    captured.event.record(captured.stream)
            if product is not None:
                product()
        if events:
            current.wait_stream(captured.stream)
    return captured


def _replay_us(graph: torch.cuda.CUDAGraph) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(400_000)  # all of it is enqueued before the first kernel begins
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end)


if __name__ == "__main__":
    main()
