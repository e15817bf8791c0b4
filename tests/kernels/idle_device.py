"""A device of sm_90 that does nothing with what it is given, for tests and benchmarks of what the host does."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from elftools.elf.elffile import ELFFile
from triton.backends.compiler import GPUTarget
from triton.backends.driver import GPUDriver
from triton.runtime import driver

import wavecast.kernels.all_gather_matmul.api as gather_api
import wavecast.kernels.matmul_reduce_scatter.api as scatter_api
from wavecast.kernels.async_tp.checked import CheckedCalls
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.workspace import make_workspace

KPARAM_INFO = 0x17
"""Attribute of a cubin that tells of a parameter (EIATTR_KPARAM_INFO, as cuobjdump -elf calls it)."""


class IdleCuda:
    """Stands for CUDA's driver beside it.

    Attributes:
        seen: called with the grid, the stream and the parameters of every launch, each as its bytes.
        maps: what tensor maps have been made of, by what is launched in their place.
    """

    def __init__(self) -> None:
        self.seen: Callable[..., None] = _nothing
        self.maps: dict[bytes, dict[str, Any]] = {}

    def parameter_places(self, function: int) -> list[tuple[int, int]]:
        return places_of(_LOADED[function])

    def tensor_map(self, address: int, **options: Any) -> bytes:
        made = struct.pack("<Q120x", address)
        self.maps[made] = {"address": address, **options}
        return made

    def launch_function(self, config: Any, function: Any, parameters: None, arguments: Any) -> int:
        if self.seen is _nothing:
            return 0
        size = ctypes.cast(arguments[3], ctypes.POINTER(ctypes.c_size_t))[0]
        packed = ctypes.string_at(arguments[1], size)
        places = places_of(_LOADED[function.value or 0])
        config = config._obj
        self.seen(tuple(config.grid), config.stream, [packed[at : at + size] for at, size in places])
        return 0

    def launch_again(self, status: int, *given: Any) -> None:
        raise AssertionError(status)


_LOADED: list[bytes] = []
"""Code objects, by the numbers of their functions: Triton keeps these from one driver of a device to the next."""


def load(name: str, cubin: bytes, *given: Any) -> tuple[Any, ...]:
    """A module, a function, its registers and spills, and how many threads it may have."""
    _LOADED.append(cubin)
    return object(), len(_LOADED) - 1, 0, 0, 1024


@cache
def places_of(cubin: bytes) -> list[tuple[int, int]]:
    """Offset and size of each parameter of the kernel of a code object, by its own account."""
    found = {}
    for section in ELFFile(BytesIO(cubin)).iter_sections():
        if not section.name.startswith(".nv.info."):
            continue
        data, at = section.data(), 0
        while at < len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == 4:  # the others have their value in place of a size
                if attribute == KPARAM_INFO:
                    _, ordinal, offset, bits = struct.unpack_from("<IHHI", data, at)
                    found[ordinal] = offset, bits >> 18
                at += size
    return [found[ordinal] for ordinal in range(len(found))]


class Idle(GPUDriver):
    """The device's driver, as Triton asks for it: CPU tensors are its own.

    Attributes:
        cuda: what launches from packed arguments go to.
        seen: called with the arguments of every launch by Triton's launcher.
    """

    is_virtual = True

    def __init__(self) -> None:
        properties = {"multiprocessor_count": 132, "max_shared_mem": 232448, "warpSize": 32}
        self.cuda = IdleCuda()
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: properties,
            load_binary=load,
        )
        self.seen: Callable[..., None] = _nothing

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        return _launch

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
    """Symmetric memory of two ranks on which nothing happens.

    Attributes:
        operations: number of things that were put on streams.
        published: what was to be published last.
    """

    def __init__(self) -> None:
        self.rank, self.ranks, self.window_bytes, self.signal_count = 0, 2, 1 << 22, 256
        self.full_mesh = False
        self._buffers = [torch.zeros(self.window_bytes, dtype=torch.uint8) for _ in range(2)]
        self._pads = [torch.zeros(256, dtype=torch.int32) for _ in range(2)]
        self._addresses = torch.zeros(2, dtype=torch.int64)
        self.operations = 0
        self.published: Sequence[Publication] = ()

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
        self.published = publications

    def barrier(self, stream: str) -> None:
        self.operations += 1


def _nothing(*given: Any) -> None:
    pass


def _launch(*given: Any) -> None:
    """A launch of a kernel that Triton may keep from an earlier driver, of the one that is active."""
    driver.active.seen(*given)


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
