"""Memory that nobody has written, known by what it holds.

Whoever allocates memory fills it with a pattern; a word of a buffer that still holds it when a launch begins was never
written, by whatever means. The pattern is a NaN in fp32 and in both 16-bit formats, so that its use shows in results.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from wavecast.simulator.errors import LaunchError

PATTERN = np.frombuffer(np.uint32(0xFFD3FFA5).tobytes(), dtype=np.uint8)
_WORD_BYTES = 4


def mark_never_written(tensor: Any) -> None:
    """Fill the memory of a tensor with the pattern of memory that was never written.

    Args:
        tensor: A ``HostTensor``, a numpy array, or an object like a CPU torch tensor; contiguous.

    Raises:
        LaunchError: It is not contiguous.
    """
    if isinstance(tensor, np.ndarray):
        contiguous, pointer, nbytes = tensor.flags.forc, tensor.ctypes.data, tensor.nbytes
    elif hasattr(tensor, "array"):
        mark_never_written(tensor.array)
        return
    else:
        # Dense in some order: as many elements as there are places up to the last one.
        spans = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        contiguous = tensor.numel() == 0 or spans + 1 == tensor.numel()
        nbytes = int(tensor.numel() * tensor.element_size())
        # Not the tensor's own pointer, which may be the device's for a program that believes in one.
        pointer = int(tensor.untyped_storage().data_ptr()) + int(tensor.storage_offset() * tensor.element_size())
    if not contiguous:
        raise LaunchError("a tensor with gaps cannot be marked as never written", hint="mark what it is a view of")
    if nbytes:
        fill_pattern(pointer, nbytes)


def fill_pattern(pointer: int, nbytes: int) -> None:
    """Fill host memory; the phase of the pattern follows the address."""
    memory = _host_bytes(pointer, nbytes)
    phase = pointer % _WORD_BYTES
    memory[:] = np.resize(np.roll(PATTERN, -phase), nbytes)


def never_written_words(pointer: int, nbytes: int) -> np.ndarray:
    """Whether each whole word from a host address on holds the pattern; bool (nbytes // 4,)."""
    words = nbytes // _WORD_BYTES
    if not words:
        return np.zeros(0, dtype=np.bool_)
    memory = _host_bytes(pointer, words * _WORD_BYTES)
    wanted = np.roll(PATTERN, -(pointer % _WORD_BYTES)).copy().view(np.uint32)[0]
    return memory.view(np.uint32) == wanted


def _host_bytes(pointer: int, nbytes: int) -> np.ndarray:
    return np.frombuffer(memoryview((ctypes.c_uint8 * nbytes).from_address(pointer)), dtype=np.uint8)
