"""torch with virtual GPUs: its names replaced inside a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.autograd.graph
import torch.utils._device

from wavecast.cli.virtual_torch.cuda import (
    Generator,
    accelerator_names,
    cuda_names_of,
    record_stream,
    uncompiled,
)
from wavecast.cli.virtual_torch.sides import HostForDevice, is_gpu, mark

if TYPE_CHECKING:
    from wavecast.simulator.virtual import VirtualDevice

# What ``torch.version`` says, so that programs take their path for AMD, or for NVIDIA.
HIP_VERSION, CUDA_VERSION = "7.0", "13.0"


@contextmanager
def torch_on(device: VirtualDevice) -> Iterator[None]:
    """Let torch have one GPU, the active virtual device, inside the block.

    Args:
        device: The active device; its ``tensor_device`` becomes the GPU's name.
    """
    mode = HostForDevice(device)
    with patched_torch([device], lambda: mode), mode:
        yield


@contextmanager
def patched_torch(
    devices: Sequence[VirtualDevice],
    mode_of: Callable[[], HostForDevice],
    cuda_names: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Let torch speak of virtual GPUs inside the block; whoever runs a program enters its mode besides.

    Args:
        devices: The devices, by number; one of them is active.
        mode_of: The mode of the program that calls.
        cuda_names: What ``torch.cuda`` has instead of what it has for one device.
    """
    host_from_numpy = torch.from_numpy
    backward = torch.autograd.graph._engine_run_backward
    make_wrapper = torch.Tensor._make_wrapper_subclass

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        # ``Tensor.backward`` is a torch function, so the mode is off in it; functions of the program run there too.
        with mode_of():
            return backward(*args, **kwargs)

    def from_numpy(array: Any) -> torch.Tensor:
        tensor = host_from_numpy(array)
        mark(tensor, False)
        return tensor

    def make_host_wrapper(*args: Any, **kwargs: Any) -> torch.Tensor:
        # A wrapper holds host tensors. Said to be on a GPU, torch would look for that GPU when the wrapper is indexed.
        if is_gpu(kwargs.get("device")):
            mode_of().gpu.check(kwargs["device"])
            kwargs = {**kwargs, "device": "cpu"}
        return make_wrapper(*args, **kwargs)

    def enter_default(self: Any) -> Any:
        mode_of().defaults.append(is_gpu(self.device))
        return self

    def exit_default(self: Any, *_: Any) -> None:
        mode_of().defaults.pop()

    cuda = {**cuda_names_of(devices[0], lambda: mode_of().gpu), **(cuda_names or {})}

    def raw_stream(device: int) -> int:
        return int(cuda["current_stream"](device).cuda_stream)

    with ExitStack() as stack:
        for name, value in (("__enter__", enter_default), ("__exit__", exit_default)):
            stack.enter_context(mock.patch.object(torch.utils._device.DeviceContext, name, value))
        for name, value in cuda.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
        # torch for the CPU lacks it, and launchers of programs ask it.
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", raw_stream, create=True))
        for name, value in accelerator_names(cuda).items():
            stack.enter_context(mock.patch.object(torch.accelerator, name, value, create=True))
        for owner in (torch.autograd, torch.autograd.graph):
            stack.enter_context(mock.patch.object(owner, "_engine_run_backward", run_backward))
        is_nvidia = devices[0].arch.startswith("sm_")
        stack.enter_context(mock.patch.object(torch.version, "hip", None if is_nvidia else HIP_VERSION))
        stack.enter_context(mock.patch.object(torch.version, "cuda", CUDA_VERSION if is_nvidia else None))
        stack.enter_context(mock.patch.object(torch, "Generator", Generator))
        stack.enter_context(mock.patch.object(torch, "compile", uncompiled))
        # torch checks the stream's type before a mode is asked.
        stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", record_stream))
        stack.enter_context(mock.patch.object(torch, "from_numpy", from_numpy))
        wrapper = staticmethod(make_host_wrapper)
        stack.enter_context(mock.patch.object(torch.Tensor, "_make_wrapper_subclass", wrapper))
        for index, device in enumerate(devices):
            stack.enter_context(mock.patch.object(device, "tensor_device", f"cuda:{index}"))
        yield
