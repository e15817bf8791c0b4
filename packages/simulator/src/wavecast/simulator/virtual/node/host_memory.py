"""Bytes of the host that stand for device memory: where a tensor's lie, reading, writing and copying them."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual.tensor import Storage, host_pointer, storage_of


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive bytes."""

    pointer: int
    nbytes: int


def read(pointer: int, nbytes: int) -> bytes:
    """The bytes at a host address."""
    return ctypes.string_at(pointer, nbytes)


def read_word(pointer: int) -> int:
    """The unsigned 32-bit word at a host address."""
    return int.from_bytes(ctypes.string_at(pointer, 4), "little")


def write_word(pointer: int, value: int) -> None:
    """Write a 32-bit word."""
    ctypes.memmove(pointer, (value & 0xFFFFFFFF).to_bytes(4, "little"), 4)


def move(target: int, source: int, nbytes: int) -> None:
    """Copy bytes from one host address to another."""
    ctypes.memmove(target, source, nbytes)


def spans_of(tensor: Any, name: str) -> tuple[Storage, list[Span]]:
    """The allocation under a tensor and the runs of consecutive bytes that it covers, in the order of its elements.

    Args:
        tensor: A ``HostTensor``, or an object like a CPU torch tensor.
        name: What to call it in an error.

    Raises:
        LaunchError: It is no tensor of the host.
    """
    storage = storage_of(tensor, name=name)
    size = int(tensor.element_size())
    dimensions = [(int(n), int(step) * size) for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n != 1]
    if any(count == 0 for count, _ in dimensions):
        return storage, []
    run = size
    while dimensions and dimensions[-1][1] == run:
        run *= dimensions.pop()[0]
    first = host_pointer(tensor, storage)
    steps = [[index * step for index in range(count)] for count, step in dimensions]
    return storage, [Span(first + sum(offsets), run) for offsets in itertools.product(*steps)]


def matched(target: list[Span], source: list[Span]) -> list[tuple[int, int, int]]:
    """Pieces (target, source, bytes) of a copy between two lists of spans of the same size in all.

    Raises:
        LaunchError: The sizes differ.
    """
    sizes = [sum(span.nbytes for span in spans) for spans in (target, source)]
    if sizes[0] != sizes[1]:
        raise LaunchError(
            f"a copy of {sizes[1]} bytes into {sizes[0]}", hint="give both tensors the same shape and dtype"
        )
    pieces = []
    waiting = iter(source)
    place, left = 0, 0
    for span in target:
        done = 0
        while done < span.nbytes:
            if not left:
                following = next(waiting)
                place, left = following.pointer, following.nbytes
            count = min(left, span.nbytes - done)
            pieces.append((span.pointer + done, place, count))
            done, place, left = done + count, place + count, left - count
    return pieces
