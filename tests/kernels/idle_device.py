"""A device of sm_90 that does nothing with what it is given, for tests and benchmarks of what the host does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.runtime import driver

import wavecast.kernels.all_gather_matmul.api as gather_api
import wavecast.kernels.matmul_reduce_scatter.api as scatter_api
from wavecast.kernels.async_tp.checked import CheckedCalls
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.workspace import make_workspace


class Idle(GPUDriver):
    """The device's driver, as Triton asks for it: CPU tensors are its own.

    Attributes:
        seen: called with the arguments of every launch.
    """

    is_virtual = True

    def __init__(self) -> None:
        properties = {"multiprocessor_count": 132, "max_shared_mem": 232448, "warpSize": 32}
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: properties,
            load_binary=lambda *given: (object(), object(), 0, 0, 1024),
        )
        self.seen: Callable[..., None] = _nothing

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return self._launch

    def _launch(self, *given: Any) -> None:
        self.seen(*given)

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

    def publish(self, publications: Sequence[Publication], stream: str) -> None:
        self.operations += 1

    def barrier(self, stream: str) -> None:
        self.operations += 1


def _nothing(*given: Any) -> None:
    pass


@contextmanager
def idle_group(memory: Callable[[], Any] = IdleMemory) -> Iterator[tuple[Any, Idle]]:
    """A group of two ranks on such devices, that the operators take the overlapped path for, and this rank's driver."""
    group = SimpleNamespace(size=lambda: 2, rank=lambda: 0, group_name="idle")
    active = Idle()
    before = driver._active
    driver.set_active(active)
    workspace = make_workspace(memory())
    try:
        with (
            patch.object(gather_api, "is_symmetric", lambda group, device: True),
            patch.object(gather_api, "workspace_of", lambda group, size: workspace),
            patch.object(scatter_api, "workspace_of", lambda group, size: workspace),
            patch.object(gather_api, "_checked", CheckedCalls()),
            patch.object(scatter_api, "_checked", CheckedCalls()),
            patch.object(gather_api.Facts, "__init__", _on_gpu(gather_api.Facts.__init__)),
        ):
            yield group, active
    finally:
        driver._active = before


def _on_gpu(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, **facts: Any) -> None:
        original(self, **{**facts, "device": "cuda", "arch": "sm_90"})

    return init
