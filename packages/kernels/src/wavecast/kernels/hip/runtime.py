"""The HIP runtime's module API: ROCm's library through ctypes, or what a virtual device has in its place."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import torch

from wavecast.kernels.device import arch_of
from wavecast.kernels.hip.compiler import CompiledHip

# Entries of the list that tells hipModuleLaunchKernel of a buffer of arguments (hip_runtime_api.h).
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 3
_DEVICE_TO_DEVICE = 3  # hipMemcpyKind (driver_types.h)
_XGMI = 4  # hsa_amd_link_info_type_t (hsa_ext_amd.h)


class HipRuntime(Protocol):
    """What a kernel asks of the runtime."""

    @property
    def arch(self) -> str:
        """Architecture of the current device, ``gfx942``."""
        ...

    def address_of(self, tensor: torch.Tensor | None) -> int:
        """Address of a tensor's first element for kernels; 0 for None."""
        ...

    def current_stream(self) -> int:
        """Where launches go."""
        ...

    def load_module(self, compiled: CompiledHip) -> Any:
        """Load a code object."""
        ...

    def get_function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        ...

    def launch(
        self,
        function: Any,
        *,
        grid: Sequence[int],
        block: Sequence[int],
        packed: bytes,
        stream: int,
        tensors: Sequence[torch.Tensor],
    ) -> None:
        """Put a launch on a stream; ``packed`` holds all arguments, among them the addresses of ``tensors``."""
        ...

    def has_own_link(self, device: int, other: int) -> bool:
        """Whether two devices are joined by a link of their own, and not by one that others share."""
        ...


class HipError(RuntimeError):
    """A call of the HIP runtime failed."""


class RocmRuntime:
    """ROCm's library, whose functions this calls.

    Args:
        library: file, ``libamdhip64.so``.
        arch: of the current device.
        device: index of the current device: a module is loaded for one.
    """

    def __init__(self, library: str, arch: str, device: int = 0) -> None:
        self._library = ctypes.CDLL(library)
        self._library.hipGetErrorString.restype = ctypes.c_char_p
        self._arch = arch
        self._device = device
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._functions: dict[tuple[int | None, str], ctypes.c_void_p] = {}

    @property
    def arch(self) -> str:
        """Architecture of the device."""
        return self._arch

    def address_of(self, tensor: torch.Tensor | None) -> int:
        """The tensor's pointer."""
        return 0 if tensor is None else tensor.data_ptr()

    def current_stream(self) -> int:
        """torch's current stream."""
        return int(torch.cuda.current_stream(self._device).cuda_stream)

    def load_module(self, compiled: CompiledHip) -> ctypes.c_void_p:
        """Load a code object, once.

        Raises:
            HipError: the runtime does not take it.
        """
        if compiled.assembly not in self._modules:
            module = ctypes.c_void_p()
            self._call("hipModuleLoadData", ctypes.byref(module), compiled.code_object)
            self._modules[compiled.assembly] = module
        return self._modules[compiled.assembly]

    def get_function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module.

        Raises:
            HipError: it has none of this name.
        """
        key = module.value, name
        if key not in self._functions:
            function = ctypes.c_void_p()
            self._call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
            self._functions[key] = function
        return self._functions[key]

    def launch(
        self,
        function: ctypes.c_void_p,
        *,
        grid: Sequence[int],
        block: Sequence[int],
        packed: bytes,
        stream: int,
        tensors: Sequence[torch.Tensor],
    ) -> None:
        """``hipModuleLaunchKernel`` with a buffer of arguments, which the runtime copies before it returns.

        Raises:
            HipError: the launch is refused.
        """
        buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
        extra = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(buffer), _BUFFER_SIZE, ctypes.addressof(size), _END
        )
        sizes = [ctypes.c_uint(value) for value in (*grid, *block, 0)]
        self._call("hipModuleLaunchKernel", function, *sizes, ctypes.c_void_p(stream), None, extra)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between addresses of GPUs when a stream comes to it.

        Raises:
            HipError: it is refused; so for the two below.
        """
        pointers = ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(nbytes)
        self._call("hipMemcpyAsync", *pointers, _DEVICE_TO_DEVICE, ctypes.c_void_p(stream))

    def record(self, event: int, stream: int) -> None:
        """Let an event stand for what is on a stream so far."""
        self._call("hipEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def wait(self, stream: int, event: int) -> None:
        """Hold a stream until what an event now stands for is done."""
        self._call("hipStreamWaitEvent", ctypes.c_void_p(stream), ctypes.c_void_p(event), ctypes.c_uint(0))

    def has_own_link(self, device: int, other: int) -> bool:
        """Whether they are one hop of xGMI apart.

        Raises:
            HipError: a device that is none.
        """
        kind, hops = ctypes.c_uint32(), ctypes.c_uint32()
        self._call("hipExtGetLinkTypeAndHopCount", device, other, ctypes.byref(kind), ctypes.byref(hops))
        return kind.value == _XGMI and hops.value == 1

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self._library, name)(*arguments)
        if error:
            text = self._library.hipGetErrorString(error) or b""
            raise HipError(f"{name} failed with error {error}: {text.decode(errors='replace')}")


def hip_runtime() -> HipRuntime:
    """The runtime of the device that Triton's active driver is for.

    Raises:
        ValueError: it is no AMD device.
    """
    from triton.runtime import driver

    active = driver.active
    target = active.get_current_target()
    if target.backend != "hip":
        raise ValueError(f"kernels in HIP run on AMD devices, and {target.arch} is active; use the Triton kernel")
    if getattr(active, "is_virtual", False):
        runtime: HipRuntime = active.hip
        return runtime
    return rocm_runtime()


def rocm_runtime() -> RocmRuntime:
    """ROCm's, for the current device of the GPU's driver that is active."""
    from triton.runtime import driver

    return _rocm(arch_of(driver.active.get_current_target()), driver.active.get_current_device())


@lru_cache(maxsize=64)
def _rocm(arch: str, device: int) -> RocmRuntime:
    # The library that Triton launches with: a process must not have two.
    from triton.backends.amd.driver import _get_path_to_hip_runtime_dylib

    return RocmRuntime(_get_path_to_hip_runtime_dylib(), arch, device)
