"""Tensors as the simulator sees them: a pointer into a storage. No tensor library is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wavecast.simulator.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Storage:
    """The allocation that a tensor is a view of.

    Attributes:
        pointer: Host address of its first byte.
        nbytes: Its size.
        owner: The object whose life is that of the memory; may be watched with a weak reference.
    """

    pointer: int
    nbytes: int
    owner: Any


class HostTensor:
    """A numpy array in the form in which Triton takes tensors, for launches without torch.

    Args:
        array: The array; kernels read and write its memory. FP8 and bfloat16 arrays have the dtypes of ``ml_dtypes``.
            Triton before 3.9 imports torch itself when it looks at a tensor for an AMD target.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = str(array.dtype)
        self.shape = array.shape

    def data_ptr(self) -> int:
        """Host address of the first element."""
        return int(self.array.ctypes.data)

    def element_size(self) -> int:
        """Bytes an element."""
        return int(self.array.itemsize)

    def numel(self) -> int:
        """Elements."""
        return int(self.array.size)

    def stride(self, dimension: int | None = None) -> int | tuple[int, ...]:
        """Strides in elements, or the one of a dimension."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if dimension is None else strides[dimension]

    def ptr_range(self) -> int:
        """Bytes that the pointer may reach; Triton asks for it to decide on 32-bit offsets."""
        return storage_of(self).nbytes


def storage_of(tensor: Any, *, name: str = "tensor") -> Storage:
    """The allocation under a tensor.

    Args:
        tensor: A ``HostTensor``, or an object like a CPU torch tensor.
        name: What to call it in an error.

    Raises:
        LaunchError: It is not a tensor, or its memory is not the host's.
    """
    if isinstance(tensor, HostTensor):
        return _array_storage(tensor.array)
    if not hasattr(tensor, "untyped_storage"):
        raise LaunchError(
            f"argument {name} is {type(tensor).__name__}, which has no storage",
            hint="pass a CPU torch tensor, or a numpy array as wavecast.simulator.virtual.HostTensor(array)",
        )
    storage = tensor.untyped_storage()
    # Not the tensor's own word: a program may see host memory under the name of the device for which it stands.
    place = getattr(getattr(storage, "device", None), "type", "cpu")
    if place != "cpu":
        raise LaunchError(
            f"argument {name} lies on {place!r}, and a virtual device reaches host memory only",
            hint="create the tensors with device='cpu' under a virtual device",
        )
    return Storage(int(storage.data_ptr()), int(storage.nbytes()), storage)


def host_pointer(tensor: Any, storage: Storage) -> int:
    """Host address of a tensor's first element, whatever its ``data_ptr`` tells the program."""
    if isinstance(tensor, HostTensor):
        return tensor.data_ptr()
    return storage.pointer + int(tensor.storage_offset()) * int(tensor.element_size())


def _array_storage(array: np.ndarray) -> Storage:
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = np.lib.array_utils.byte_bounds(root)
    return Storage(int(low), int(high - low), root)
