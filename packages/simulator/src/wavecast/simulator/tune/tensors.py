"""Tensors of a launch that is only tried: what they hold afterwards is what they held before."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from wavecast.simulator.virtual.tensor import HostTensor, storage_of


@contextmanager
def preserved(arguments: Mapping[str, Any], *, keep: bool) -> Iterator[dict[str, Any]]:
    """Arguments that a virtual launch may use.

    Tensors of the host are used where they are, and get their bytes back afterwards; of tensors in a GPU's memory there
    are copies in the host's, with the same strides, offsets and sharing.

    Args:
        arguments: Arguments of a kernel by name.
        keep: Whether host tensors get their bytes back; takes a copy of each.
    """
    copies: dict[int, Any] = {}
    here = {name: _on_host(value, copies) for name, value in arguments.items()}
    saved: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    if keep:
        owned = {copy.data_ptr() for copy in copies.values()}
        for tensor in _tensors(list(here.values())):
            storage = storage_of(tensor)
            if storage.nbytes and storage.pointer not in owned:
                view = np.ctypeslib.as_array((ctypes.c_uint8 * storage.nbytes).from_address(storage.pointer))
                saved.setdefault(storage.pointer, (view, view.copy()))
    try:
        yield here
    finally:
        for view, before in saved.values():
            view[...] = before


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, HostTensor) or hasattr(value, "untyped_storage"):
        yield value
    elif hasattr(value, "base"):
        yield from _tensors(value.base)


def _on_host(value: Any, copies: dict[int, Any]) -> Any:
    """A value with every tensor of a GPU replaced by a copy; ``copies`` has one for each storage."""
    if isinstance(value, tuple):
        return tuple(_on_host(item, copies) for item in value)
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        if storage.device.type == "cpu":
            return value
        if storage.data_ptr() not in copies:
            copies[storage.data_ptr()] = storage.cpu()
        copy = copies[storage.data_ptr()]
        return value.new_empty(0, device="cpu").set_(copy, value.storage_offset(), value.size(), value.stride())
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "base"):
        return dataclasses.replace(value, base=_on_host(value.base, copies))
    return value
