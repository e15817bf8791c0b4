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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import thread_time
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from small_kernel import scale_kernel
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.runtime import driver

import wavecast.kernels.all_gather_matmul.api as gather_api
import wavecast.kernels.matmul_reduce_scatter.api as scatter_api
from wavecast.kernels.async_tp.workspace import Workspace, make_workspace

ROUNDS, CALLS = 15, 50
SIZE = 128


class Idle(GPUDriver):
    """A driver of Triton for a device that does nothing with what it is given."""

    is_virtual = True

    def __init__(self) -> None:
        properties = {"multiprocessor_count": 132, "max_shared_mem": 232448, "warpSize": 32}
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: properties,
            load_binary=lambda *given: (object(), object(), 0, 0, 1024),
        )
        self.launches = 0

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return self._launch

    def _launch(self, *given: Any) -> None:
        self.launches += 1

    @classmethod
    def is_active(cls) -> bool:
        return False

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def map_python_to_cpp_type(self, name: str) -> str:
        return name


class IdleMemory:
    """Symmetric memory of two ranks on which nothing happens."""

    def __init__(self) -> None:
        self.rank, self.ranks, self.window_bytes, self.signal_count = 0, 2, 1 << 22, 256
        self.full_mesh = False
        self._buffers = [torch.zeros(self.window_bytes, dtype=torch.uint8) for _ in range(2)]
        self._pads = [torch.zeros(256, dtype=torch.int32) for _ in range(2)]
        self._addresses = torch.zeros(2, dtype=torch.int64)
        self.operations = 0

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        size = torch.Size(shape).numel() * dtype.itemsize
        return self._buffers[rank][offset_bytes : offset_bytes + size].view(dtype).view(shape)

    def window_addresses(self) -> torch.Tensor:
        return self._addresses

    def signal_addresses(self) -> torch.Tensor:
        return self._addresses

    def signals(self, rank: int) -> torch.Tensor:
        return self._pads[rank]

    def stream(self, name: str) -> str:
        return name

    def launching(self, stream: str) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait_stream(self, stream: str, other: str) -> None:
        self.operations += 1

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: str) -> None:
        self.operations += 1

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: str) -> None:
        self.operations += 1

    def wait_signal(self, index: int, value: int | torch.Tensor, stream: str) -> None:
        self.operations += 1

    def barrier(self, stream: str) -> None:
        self.operations += 1


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
    driver.set_active(Idle())
    workspace: Workspace = make_workspace(IdleMemory())
    group = SimpleNamespace(size=lambda: 2, rank=lambda: 0, group_name="0")
    with (
        patch.object(gather_api, "is_symmetric", lambda group, device: True),
        patch.object(gather_api, "workspace_of", lambda group, size: workspace),
        patch.object(scatter_api, "workspace_of", lambda group, size: workspace),
        patch.object(gather_api.Facts, "__init__", _on_gpu(gather_api.Facts.__init__)),
    ):
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
        calls["launch"] = lambda: scale_kernel[(1,)](workspace.state, workspace.failure, 4, BLOCK=128)
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


def _on_gpu(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, **facts: Any) -> None:
        original(self, **{**facts, "device": "cuda", "arch": "sm_90"})

    return init


if __name__ == "__main__":
    main()
