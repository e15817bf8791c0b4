"""What ``torch.cuda`` and ``torch.accelerator`` say of a virtual device, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.autograd.graph
import torch.utils._device

from wavecast.cli.errors import CliError
from wavecast.cli.virtual_torch.sides import TENSOR_DEVICE, Gpu

if TYPE_CHECKING:
    from wavecast.simulator.virtual import VirtualDevice


_UNAVAILABLE = (
    "_lazy_init memory_stats memory_allocated max_memory_allocated memory_reserved max_memory_reserved mem_get_info "
    "memory_summary memory_snapshot memory_usage utilization make_graphed_callables"
).split()


@dataclass(frozen=True)
class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` gives, as far as the device's specification has it."""

    name: str
    gcnArchName: str  # noqa: N815
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    L2_cache_size: int
    uuid: str = ""
    is_integrated: bool = False
    is_multi_gpu_board: bool = False


def device_properties(device: VirtualDevice) -> DeviceProperties:
    """The properties of a virtual device."""
    import triton

    spec = device.spec
    driver = triton.runtime.driver.active
    facts = driver.utils.get_device_properties(driver.get_current_device())
    major, minor = driver.get_device_capability()
    is_nvidia = spec.arch.startswith("sm_")
    return DeviceProperties(
        name=f"{spec.title if is_nvidia else f'AMD Instinct {spec.name.upper()}'} (virtual)",
        gcnArchName="" if is_nvidia else f"{spec.arch}:sramecc+:xnack-",
        major=major,
        minor=minor,
        total_memory=int(spec.hbm.bytes),
        multi_processor_count=facts["multiprocessor_count"],
        warp_size=facts["warpSize"],
        max_threads_per_multi_processor=facts["max_threads_per_sm"],
        max_threads_per_block=1024,
        shared_memory_per_block=facts["max_shared_mem"],
        shared_memory_per_multiprocessor=facts["max_shared_mem"],
        regs_per_multiprocessor=facts["max_num_regs"],
        L2_cache_size=spec.l2.physical_bytes or spec.l2.bytes_per_xcd,
    )


class Stream:
    """The one stream there is: launches have ended when they return."""

    cuda_stream = stream_id = device_index = 0
    device = torch.device(TENSOR_DEVICE)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True."""
        return True

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event now."""
        event = event or torch.cuda.Event(enable_timing=True)
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


_HostGenerator = torch.Generator


class _GeneratorType(type):
    def __call__(cls, device: Any = None) -> Any:
        return _HostGenerator("cpu")

    def __instancecheck__(cls, item: Any) -> bool:
        return isinstance(item, _HostGenerator)


class Generator(metaclass=_GeneratorType):
    """Stands for ``torch.Generator``: the GPU's generator of random numbers is one of the host's."""


def record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Nothing: memory lives as long as what uses it."""


def uncompiled(model: Any = None, **_: Any) -> Any:
    """``torch.compile``: the function as it is written. What it would be compiled to are torch's own operations."""
    return model if model is not None else lambda model: model


def _unavailable(*_: Any, **__: Any) -> Any:
    raise CliError(
        "the program uses a part of torch.cuda that a virtual device does not have",
        hint="the traceback says which; docs/guides/run.md lists what is there",
    )


class _Unavailable:
    """Stands for a class of ``torch.cuda``, which programs name in annotations too."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _unavailable()


def _with_index(gpu_of: Callable[[], Gpu], function: Callable[[], Any]) -> Callable[..., Any]:
    def answer(device: Any = None) -> Any:
        gpu_of().check(device)
        return function()

    return answer


def cuda_names_of(device: VirtualDevice, gpu_of: Callable[[], Gpu]) -> dict[str, Any]:
    """Replacements in ``torch.cuda``."""
    import triton

    properties = device_properties(device)
    interface = triton.runtime.driver.active.get_device_interface()
    stream = Stream()

    def properties_of(of: Any = None) -> DeviceProperties:
        """Of every GPU that the program sees: to look at one is not to use it."""
        gpu = gpu_of()
        index = gpu.index_of(of)
        if not 0 <= index < gpu.count:
            gpu.check(of)
        return replace(properties, uuid=f"virtual-{index}")

    class Event:
        """``torch.cuda.Event``, in predicted time."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return interface.Event(*args, **kwargs)

    class DeviceContext:
        """``torch.cuda.device``: the program's GPU is active, so there is nothing to change."""

        def __init__(self, device: Any = None) -> None:
            gpu_of().check(device)
            self.idx = self.prev_idx = gpu_of().index

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: Any) -> None:
            pass

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def seed(value: int) -> None:
        torch.default_generator.manual_seed(value)

    return {
        **dict.fromkeys(_UNAVAILABLE, _unavailable),
        "reset_peak_memory_stats": nothing,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": nothing,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: gpu_of().count,
        "current_device": lambda: gpu_of().index,
        "set_device": lambda device: gpu_of().check(device),
        "get_device_properties": properties_of,
        "get_device_name": _with_index(gpu_of, lambda: properties.name),
        "get_device_capability": _with_index(gpu_of, lambda: (properties.major, properties.minor)),
        "get_arch_list": lambda: [device.arch],
        "is_bf16_supported": lambda *_, **__: True,
        "synchronize": nothing,
        "empty_cache": nothing,
        "ipc_collect": nothing,
        "manual_seed": seed,
        "manual_seed_all": seed,
        "get_rng_state": lambda *_: torch.default_generator.get_state(),
        "set_rng_state": lambda state, *_: torch.default_generator.set_state(state),
        "Event": Event,
        "Stream": Stream,
        "current_stream": _with_index(gpu_of, lambda: stream),
        "default_stream": _with_index(gpu_of, lambda: stream),
        "set_stream": nothing,
        "stream": lambda *_: nullcontext(),
        "device": DeviceContext,
        "CUDAGraph": _Unavailable,
        "graph": _Unavailable,
        "device_of": lambda *_: nullcontext(),
    }


def accelerator_names(cuda: Mapping[str, Any]) -> dict[str, Any]:
    """Replacements in ``torch.accelerator``, by those in ``torch.cuda``."""
    return {
        "is_available": lambda: True,
        "device_count": cuda["device_count"],
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": cuda["current_device"],
        "current_device_idx": cuda["current_device"],
        "set_device_index": cuda["set_device"],
        "synchronize": cuda["synchronize"],
        "current_stream": cuda["current_stream"],
        "empty_cache": cuda["empty_cache"],
    }
