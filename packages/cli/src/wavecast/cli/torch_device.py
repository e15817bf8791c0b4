"""torch, for a program that asks for a GPU and shall get the virtual device: imported by ``run`` alone.

Tensors of the device are host tensors. A function mode sends every request for ``cuda`` to the host, remembers for each
storage on which of the two sides the program believes it, copies where the program moves data from one side to the
other, and answers ``tensor.device`` and ``tensor.is_cuda`` accordingly. torch's own operations run on the CPU and take
no predicted time. What of ``torch.cuda`` has a meaning here is answered; the rest is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.autograd.graph
import torch.utils._device
from torch.overrides import TorchFunctionMode

from wavecast.cli.errors import CliError

if TYPE_CHECKING:
    from wavecast.simulator.virtual import VirtualDevice

TENSOR_DEVICE = "cuda:0"
# What ``torch.version`` says, so that programs take their path for AMD, or for NVIDIA.
HIP_VERSION, CUDA_VERSION = "7.0", "13.0"
_MARK = "_wavecast_on_device"
_GPU_TYPES = ("cuda", "hip")
_HOST = torch.device("cpu")


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_GET_DEVICE, _GET_IS_CUDA, _GET_IS_CPU, _GET_GRAD = (_getter(name) for name in ("device", "is_cuda", "is_cpu", "grad"))
_CONSTRUCTORS = torch.utils._device._device_constructors()
_UNAVAILABLE = (
    "_lazy_init memory_stats memory_allocated max_memory_allocated memory_reserved max_memory_reserved mem_get_info "
    "memory_summary memory_snapshot memory_usage utilization make_graphed_callables"
).split()
_MOVES = frozenset({torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu})
_PRODUCTS = frozenset({torch.mm, torch.bmm, torch.addmm, torch.baddbmm})


def is_gpu(device: Any) -> bool:
    """Whether a device argument (a string, an index or a ``torch.device``) asks for the GPU."""
    if isinstance(device, torch.device):
        return device.type in _GPU_TYPES
    if isinstance(device, str):
        return device.partition(":")[0] in _GPU_TYPES
    return isinstance(device, int) and not isinstance(device, bool)


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPU that a program has.

    Attributes:
        index: Its number.
        count: How many the program sees; it may use its own alone.
    """

    index: int = 0
    count: int = 1

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return torch.device("cuda", self.index)

    def index_of(self, device: Any) -> int:
        """Number of a device as programs give it; this one's where they leave it out."""
        index = device if isinstance(device, int) else torch.device(device).index if device is not None else None
        return self.index if index is None else index

    def check(self, device: Any) -> None:
        """Refuse another GPU.

        Raises:
            CliError: The device has another index.
        """
        index = self.index_of(device)
        if index == self.index:
            return
        if self.count == 1:
            raise CliError(f"the program asks for GPU {index}, and there is one", hint="use device cuda or cuda:0")
        raise CliError(
            f"the program of rank {self.index} asks for GPU {index}, and a rank has the GPU of its own number",
            hint="use device cuda, or cuda:LOCAL_RANK",
        )


class HostForDevice(TorchFunctionMode):
    """Sends what is for the GPU to the host, and keeps the two sides apart.

    Args:
        device: The virtual device.
        gpu: What the program takes it for.

    Attributes:
        defaults: Whether each default device that the program set, the innermost last, is the GPU.
        gpu: As given.
    """

    def __init__(self, device: VirtualDevice, gpu: Gpu | None = None) -> None:
        super().__init__()
        self.defaults: list[bool] = []
        self.gpu = gpu or Gpu()
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch function; the mode is off inside."""
        kwargs = kwargs or {}
        if func == _GET_DEVICE:
            return self.gpu.device if on_device(args[0]) else _HOST
        if func == _GET_IS_CUDA:
            return on_device(args[0])
        if func == _GET_IS_CPU:
            return not on_device(args[0])
        if func is torch.device or getattr(func, "__name__", "") == "_parse_to":
            # These only speak of devices, as the program does.
            return func(*args, **kwargs)
        if func is torch.Tensor.get_device:
            return self.gpu.index if on_device(args[0]) else -1
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.Tensor.data_ptr and args[0].numel() and on_device(args[0]):
            # Programs store addresses for kernels to follow, so they have to be the device's.
            return self._device.address_of(args[0])
        if func in _MOVES:
            return _moved(func, args, kwargs, self.gpu)
        side = None
        if "device" in kwargs and kwargs["device"] is not None:
            side = is_gpu(kwargs["device"])
            if side:
                self.gpu.check(kwargs["device"])
                kwargs = {**kwargs, "device": _HOST}
        elif self.defaults and func in _CONSTRUCTORS:
            side = self.defaults[-1]
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if any(isinstance(item, torch.device) and is_gpu(item) for item in args):
            side = True
            args = tuple(_HOST if isinstance(item, torch.device) and is_gpu(item) else item for item in args)
        if func in _PRODUCTS and kwargs.get("out_dtype") is not None:
            args, kwargs = _widened(args, kwargs)
        result = func(*args, **kwargs)
        if func == _GET_GRAD and result is not None:
            side = on_device(args[0])
        _mark_results(result, side if side is not None else _side_of(args, kwargs))
        return result


def on_device(tensor: torch.Tensor) -> bool:
    """Whether the program believes a tensor on the device; so it does of those whose making was not seen."""
    return known_side(tensor) is not False


def known_side(tensor: torch.Tensor) -> bool | None:
    """True on the device, False on the host, None if the tensor's making was not seen."""
    return getattr(_storage(tensor), _MARK, None)


def _widened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a product whose result has a wider type, which torch's CPU refuses: factors of that type instead.

    A GPU multiplies the narrow values and adds up in the wider type, as a product of widened values does.
    """
    kwargs = dict(kwargs)
    dtype = kwargs.pop("out_dtype")
    wide = tuple(item.to(dtype) if isinstance(item, torch.Tensor) else item for item in args)
    named = {
        name: item.to(dtype) if isinstance(item, torch.Tensor) and name != "out" else item
        for name, item in kwargs.items()
    }
    return wide, named


def _parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor, or those that a wrapper without memory of its own holds."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten()[0]:
        yield from _parts(getattr(tensor, name))


def _storage(tensor: torch.Tensor) -> Any:
    """Storage of the tensor, of a wrapper that of its first part."""
    try:
        return next(_parts(tensor), tensor).untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse, meta in a graph, …
        return None


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    first, second = _storage(one), _storage(other)
    if first is None or second is None:
        return one is other
    return bool(first.data_ptr() == second.data_ptr())


def _mark(tensor: torch.Tensor, side: bool) -> None:
    for part in _parts(tensor):
        storage = _storage(part)
        if storage is not None and not hasattr(storage, _MARK):
            setattr(storage, _MARK, side)


def _mark_results(result: Any, side: bool) -> None:
    for tensor in _tensors((result,)):
        _mark(tensor, side)


def _tensors(items: Iterable[Any], depth: int = 2) -> Iterator[torch.Tensor]:
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif depth and isinstance(item, tuple | list):
            yield from _tensors(item, depth - 1)


def _side_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Where the result of a function belongs: to the device, if any of its tensors with dimensions does."""
    return any(on_device(tensor) for tensor in _tensors((*args, *kwargs.values())) if tensor.dim()) or any(
        on_device(tensor) for tensor in _tensors((*args, *kwargs.values()))
    )


def _moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], gpu: Gpu) -> torch.Tensor:
    """``to``, ``cuda`` and ``cpu``: a copy where the side changes, as between two memories."""
    source = args[0]
    before = known_side(source)
    after: bool | None
    if func is torch.Tensor.cpu:
        after, result = False, source
    elif func is torch.Tensor.cuda:
        gpu.check(kwargs.get("device", args[1] if len(args) > 1 else None))
        after, result = True, source
    else:
        after, rest, named = _target(args[1:], kwargs, before, gpu)
        result = source.to(*rest, **named) if rest or named else source
    if after != before and _same_memory(result, source):
        result = result.clone()
    if after is not None:
        _mark(result, after)
    return result


def _target(
    args: tuple[Any, ...], kwargs: dict[str, Any], before: bool | None, gpu: Gpu
) -> tuple[bool | None, list[Any], dict[str, Any]]:
    """Side that a call of ``Tensor.to`` asks for, and its other arguments."""
    after, rest, named = before, [], dict(kwargs)
    for item in args:
        if isinstance(item, str | torch.device) or (isinstance(item, int) and not isinstance(item, bool)):
            after = is_gpu(item)
            if after:
                gpu.check(item)
        elif isinstance(item, torch.Tensor):
            after = on_device(item)
            rest.append(item.dtype)
        elif item is not None:
            rest.append(item)
    if named.get("device") is not None:
        after = is_gpu(named["device"])
    named.pop("device", None)
    if "other" in named:
        other = named.pop("other")
        after = on_device(other)
        rest.append(other.dtype)
    if not any(isinstance(item, torch.dtype) for item in rest) and "dtype" not in named:
        # ``to(non_blocking)`` has no meaning without a device or dtype.
        rest = []
        named.pop("non_blocking", None)
    return after, rest, named


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
        L2_cache_size=int(spec.l2.bytes_per_xcd * (spec.l2.read_copies or 1)),
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


class _Generator(metaclass=_GeneratorType):
    """Stands for ``torch.Generator``: the GPU's generator of random numbers is one of the host's."""


def _record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Nothing: memory lives as long as what uses it."""


def _uncompiled(model: Any = None, **_: Any) -> Any:
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


def _cuda_names(device: VirtualDevice, gpu_of: Callable[[], Gpu]) -> dict[str, Any]:
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


def _accelerator_names(cuda: Mapping[str, Any]) -> dict[str, Any]:
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

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        # ``Tensor.backward`` is a torch function, so the mode is off in it; functions of the program run there too.
        with mode_of():
            return backward(*args, **kwargs)

    def from_numpy(array: Any) -> torch.Tensor:
        tensor = host_from_numpy(array)
        _mark(tensor, False)
        return tensor

    def enter_default(self: Any) -> Any:
        mode_of().defaults.append(is_gpu(self.device))
        return self

    def exit_default(self: Any, *_: Any) -> None:
        mode_of().defaults.pop()

    cuda = {**_cuda_names(devices[0], lambda: mode_of().gpu), **(cuda_names or {})}

    def raw_stream(device: int) -> int:
        return int(cuda["current_stream"](device).cuda_stream)

    with ExitStack() as stack:
        for name, value in (("__enter__", enter_default), ("__exit__", exit_default)):
            stack.enter_context(mock.patch.object(torch.utils._device.DeviceContext, name, value))
        for name, value in cuda.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
        # torch for the CPU lacks it, and launchers of programs ask it.
        stack.enter_context(mock.patch.object(torch._C, "_cuda_getCurrentRawStream", raw_stream, create=True))
        for name, value in _accelerator_names(cuda).items():
            stack.enter_context(mock.patch.object(torch.accelerator, name, value, create=True))
        for owner in (torch.autograd, torch.autograd.graph):
            stack.enter_context(mock.patch.object(owner, "_engine_run_backward", run_backward))
        is_nvidia = devices[0].arch.startswith("sm_")
        stack.enter_context(mock.patch.object(torch.version, "hip", None if is_nvidia else HIP_VERSION))
        stack.enter_context(mock.patch.object(torch.version, "cuda", CUDA_VERSION if is_nvidia else None))
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(mock.patch.object(torch, "compile", _uncompiled))
        # torch checks the stream's type before a mode is asked.
        stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", _record_stream))
        stack.enter_context(mock.patch.object(torch, "from_numpy", from_numpy))
        for index, device in enumerate(devices):
            stack.enter_context(mock.patch.object(device, "tensor_device", f"cuda:{index}"))
        yield
