"""Launch arguments to kernel arguments: host tensors to device addresses, numbers to what the kernel's types hold."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.memory import AddressSpace
from wavecast.simulator.virtual.tensor import Storage, host_pointer, storage_of

DESCRIPTOR = "tensordesc"
CONSTANT = "constexpr"


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """One argument of a launch, before it is bound.

    Attributes:
        name: Its name in the kernel's source.
        type: Type in Triton's spelling: ``*bf16``, ``i32``, ``fp32``, …
        value: A tensor for a pointer, else a number.
    """

    name: str
    type: str
    value: Any


def flatten_arguments(signature: Mapping[str, Any], values: Sequence[Any]) -> list[LaunchArgument]:
    """The arguments that reach the kernel: no constants, tuples and tensor descriptors taken apart.

    Args:
        signature: Name to type for every argument of the function, as Triton's launcher gets it.
        values: Their values, in the same order.
    """
    if len(signature) != len(values):
        raise LaunchError(f"{len(values)} values for the {len(signature)} arguments {', '.join(signature)}")
    return [
        argument
        for (name, kind), value in zip(signature.items(), values, strict=True)
        for argument in _flatten(name, kind, value)
    ]


def _flatten(name: str, kind: Any, value: Any) -> Iterator[LaunchArgument]:
    if isinstance(kind, tuple):
        for position, (part, item) in enumerate(zip(kind, value, strict=True)):
            yield from _flatten(f"{name}.{position}", part, item)
    elif kind == CONSTANT:
        return
    elif kind.startswith(DESCRIPTOR):
        yield from _descriptor(name, kind, value)
    else:
        yield LaunchArgument(name, kind, value)


def _descriptor(name: str, kind: str, value: Any) -> Iterator[LaunchArgument]:
    """A host-side tensor descriptor as the AMD backend lowers it: its parts, then shape and strides once more."""
    element = kind.partition("<")[2].partition("[")[0]
    yield LaunchArgument(name, f"*{element}", value.base)
    yield from (LaunchArgument(f"{name}.shape", "i64", size) for size in value.shape)
    yield from (LaunchArgument(f"{name}.stride", "i64", step) for step in value.strides)
    yield LaunchArgument(f"{name}.padding", "i1", value.padding == "nan")
    if hasattr(value, "round_f32_to_tf32"):  # since Triton 3.7
        yield LaunchArgument(f"{name}.round", "i1", value.round_f32_to_tf32)
    yield from (LaunchArgument(f"{name}.shape", "i32", size) for size in value.shape)
    yield from (LaunchArgument(f"{name}.stride", "i64", step) for step in value.strides)


class Binder:
    """Maps the storages of a device's launches into its address space.

    A storage keeps its device address as long as it lives, so that launches that share a tensor share its cache lines;
    it is unmapped when its owner is gone, so that a stray access cannot reach freed host memory.
    """

    def __init__(self, memory: AddressSpace) -> None:
        self._memory = memory
        self._owners: dict[tuple[int, int], weakref.ref[Any]] = {}

    def bind(self, arguments: Sequence[LaunchArgument]) -> list[int | float | bytes]:
        """One value per argument: device address, integer, or the bytes of a floating-point number.

        Raises:
            LaunchError: A value does not fit its type.
        """
        self._forget_dead()
        return [
            self._pointer(argument) if argument.type.startswith("*") else scalar_value(argument)
            for argument in arguments
        ]

    def _pointer(self, argument: LaunchArgument) -> int:
        value = argument.value
        if value is None:
            return 0
        if isinstance(value, int):
            return self._memory.device_pointer(value) if value else 0
        tensor = value if hasattr(value, "untyped_storage") or not hasattr(value, "base") else value.base
        return self.address_of(tensor, argument.name)

    def address_of(self, tensor: Any, name: str) -> int:
        """Device address of a tensor's first element, mapped if it was not.

        Raises:
            LaunchError: It is no tensor of the host.
        """
        storage = storage_of(tensor, name=name)
        host = host_pointer(tensor, storage)
        key = self._place_of(storage)
        address = self._memory.map(*key, name)
        if key == (storage.pointer, storage.nbytes):
            self._owners[key] = weakref.ref(storage.owner)
        return address + host - key[0]

    def _place_of(self, storage: Storage) -> tuple[int, int]:
        """Pointer and size of the mapping that serves a storage: its own, or a living one that contains it.

        Storages overlap where several are made over one piece of memory, as by ``torch.from_numpy`` of two views.
        """
        low, high = storage.pointer, storage.pointer + storage.nbytes
        # A storage that was resized has left its old memory.
        self._forget(
            [key for key, owner in self._owners.items() if owner() is storage.owner and key != (low, high - low)]
        )
        containing = (key for key in self._owners if key[0] <= low and high <= key[0] + key[1])
        return next(containing, (low, high - low)) if storage.nbytes else (low, 0)

    def _forget_dead(self) -> None:
        self._forget([key for key, owner in self._owners.items() if owner() is None])

    def _forget(self, keys: Sequence[tuple[int, int]]) -> None:
        for key in keys:
            del self._owners[key]
            self._memory.unmap(*key)


def scalar_value(argument: LaunchArgument) -> int | bytes:
    """A number as the kernel's type holds it, rounded as Triton's launchers round.

    Raises:
        LaunchError: The value is not a number, or the type is not a scalar's.
    """
    kind = argument.type
    try:
        if kind[0] in "iu" and kind[1:].isdigit():
            return int(bool(argument.value)) if kind[1:] == "1" else int(argument.value)
        if kind == "fp16":
            return np.float16(float(argument.value)).tobytes()
        if kind == "bf16":
            # The upper half of the fp32 pattern: the launchers truncate here.
            return np.float32(float(argument.value)).tobytes()[2:]
        if kind in ("fp32", "f32"):
            return np.float32(float(argument.value)).tobytes()
        if kind == "fp64":
            return struct.pack("<d", float(argument.value))
    except (TypeError, ValueError) as error:
        raise LaunchError(
            f"argument {argument.name} is {argument.value!r}, which is no {kind}", hint="pass a number"
        ) from error
    raise LaunchError(
        f"argument {argument.name} has type {kind!r}, which a virtual device cannot pass",
        hint="pointers, integers, fp16, bf16, fp32 and fp64 can be passed",
    )
