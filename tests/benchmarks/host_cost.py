"""What the operators over a group cost the host, on a device that does nothing: no GPU is needed.

``python tests/benchmarks/host_cost.py [--profile]``. Triton's active driver is one of sm_90 whose launches end in
Python, copies and signals do nothing, and process groups are stood in for. What is left is what this package, torch's
allocator and Triton's launcher cost; what a driver adds to each launch, copy and event, only a GPU shows
(``gpu_async_tp.py calls``). Times are CPU times of the thread, the shortest of rounds that take turns. So that machines
can be compared, they are also given in launches: of a kernel with four arguments by Triton's ``kernel[grid](...)``.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import torch
from small_kernel import scale_kernel

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from idle_device import IdleMemory, idle_group

import wavecast.kernels.all_gather_matmul.api as gather_api
import wavecast.kernels.matmul_reduce_scatter.api as scatter_api
from wavecast.kernels.async_tp.meeting import Meetings
from wavecast.kernels.async_tp.symmetric import Publication

ROUNDS, CALLS = 15, 50
SIZE = 128


class MeetingMemory(IdleMemory):
    """Publishes and meets as on a GPU, by launches."""

    def __init__(self) -> None:
        super().__init__()
        self._meetings = Meetings(0, 2, self.signal_addresses(), torch.zeros(4, dtype=torch.int32))

    def publish(self, publications: Sequence[Publication], stream: str) -> None:
        self._meetings.publish(publications)

    def barrier(self, stream: str) -> None:
        self._meetings.meet()


def contestants(group: Any) -> dict[str, Callable[[], object]]:
    """Calls by name."""
    a, b = (torch.zeros(SIZE, SIZE, dtype=torch.bfloat16) for _ in range(2))
    shard, a8, b8 = a[: SIZE // 2], a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    own, rows, columns = torch.ones(SIZE // 2, 1), torch.ones(SIZE, 1), torch.ones(1, SIZE)
    return {
        "gather bf16": lambda: gather_api.all_gather_matmul(shard, [b.t()], group, setting="1"),
        "gather fp8": lambda: gather_api.all_gather_matmul(
            a8[: SIZE // 2], [b8.t()], group, a_inverse=own, b_inverses=[columns], setting="1"
        ),
        "scatter bf16": lambda: scatter_api.matmul_reduce_scatter(a, b.t(), group, setting="1"),
        "scatter fp8": lambda: scatter_api.matmul_reduce_scatter(
            a8, b8.t(), group, a_inverse=rows, b_inverse=columns, setting="1"
        ),
    }


def main() -> None:
    torch.set_num_threads(1)
    with idle_group(MeetingMemory) as (group, _):
        calls = contestants(group)
        for call in calls.values():
            call()
        if "--profile" in sys.argv:
            for name, call in calls.items():
                profile = cProfile.Profile()
                profile.runcall(lambda call=call: [call() for _ in range(500)])
                print(name)
                pstats.Stats(profile).sort_stats("tottime").print_stats(28)
            return
        words = torch.zeros(4, dtype=torch.int32)
        calls["launch"] = lambda: scale_kernel[(1,)](words, words, 4, BLOCK=128)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                begun = thread_time()
                for _ in range(CALLS):
                    call()
                times[name].append(1e6 * (thread_time() - begun) / CALLS)
        unit = min(times.pop("launch"))
        for name, found in times.items():
            print(f"{name}: {min(found):.1f} us a call, {min(found) / unit:.1f} launches")


if __name__ == "__main__":
    main()
