"""torch, for a program that asks for a GPU and shall get the virtual device: imported by ``run`` alone.

Tensors of the device are host tensors. A function mode sends every request for ``cuda`` to the host, remembers for each
storage on which of the two sides the program believes it, copies where the program moves data from one side to the
other, and answers ``tensor.device`` and ``tensor.is_cuda`` accordingly. torch's own operations run on the CPU and take
no predicted time. What of ``torch.cuda`` has a meaning here is answered; the rest is an error that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.autograd.graph
import torch.utils._device
from torch.overrides import TorchFunctionMode

from wavecast.cli.errors import CliError

if TYPE_CHECKING:
    from wavecast.simulator.virtual import VirtualDevice

TENSOR_DEVICE = "cuda:0"
_MARK = "_wavecast_on_device"
_GPU_TYPES = ("cuda", "hip")
_HOST = torch.device("cpu")


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_GET_DEVICE, _GET_IS_CUDA, _GET_IS_CPU, _GET_GRAD = (_getter(name) for name in ("device", "is_cuda", "is_cpu", "grad"))
_CONSTRUCTORS = torch.utils._device._device_constructors()
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


def mark(tensor: torch.Tensor, side: bool) -> None:
    """Remember on which side a program believes a tensor's memory to be: the device's if ``side``."""
    for part in _parts(tensor):
        storage = _storage(part)
        if storage is not None and not hasattr(storage, _MARK):
            setattr(storage, _MARK, side)


def _mark_results(result: Any, side: bool) -> None:
    for tensor in _tensors((result,)):
        mark(tensor, side)


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
        mark(result, after)
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
