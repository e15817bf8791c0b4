"""Streams of CUDA or HIP by name, and what is put on them, at little cost for the host."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from triton.runtime import driver

from wavecast.kernels.async_tp.symmetric import COMPUTE
from wavecast.kernels.cuda import cuda_driver
from wavecast.kernels.hip.runtime import rocm_runtime

_NOTHING = nullcontext()


class StreamDriver(Protocol):
    """A driver's functions for streams and events, which are given by their numbers, and copies by addresses."""

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy when the stream comes to it."""
        ...

    def record(self, event: int, stream: int) -> None:
        """Let an event stand for what is on the stream so far."""
        ...

    def wait(self, stream: int, event: int) -> None:
        """Hold the stream until what the event now stands for is done."""
        ...


def stream_driver() -> StreamDriver | None:
    """That of the GPU that torch was built for; None where the GPU is a virtual one, which torch alone speaks to.

    torch's own copies come down to the same function, after questions that take the host twice as long.

    Raises:
        RuntimeError: no GPU is active.
    """
    is_virtual = getattr(driver.active, "is_virtual", False)
    if torch.version.hip is not None:
        return None if is_virtual else rocm_runtime()
    found = cuda_driver()
    if found is None and not is_virtual:
        raise RuntimeError("streams of a GPU are asked for, and Triton's active driver is of none")
    return found


class GpuStreams:
    """The part of `SymmetricMemory` that concerns streams alone, on the device that is current when it is made.

    Copies and waits are put on their streams by the driver's own functions, if there is a driver. To make a stream the
    current one, as kernels need, takes the host some microseconds: where it is that already, nothing is done. Which one
    is, Triton's driver is asked, except within `launching`.
    """

    def __init__(self) -> None:
        self._device = torch.cuda.current_device()
        self._streams: dict[str, torch.cuda.Stream] = {}
        self._by_number: dict[int, torch.cuda.Stream] = {}
        self._launching: torch.cuda.Stream | None = None
        self._driver = stream_driver()
        # One for all waits: a wait is for what was recorded last when it is put on its stream.
        self._event = torch.cuda.Event()
        self._event_number = 0
        if self._driver is not None:
            self._event.record()  # which makes it
            self._event_number = self._event.cuda_event

    def stream(self, name: str) -> torch.cuda.Stream:
        """See `SymmetricMemory.stream`; those that are made here go before others."""
        if name == COMPUTE:
            return self._current()
        if name not in self._streams:
            made = torch.cuda.Stream(priority=-1)
            self._streams[name] = self._by_number.setdefault(made.cuda_stream, made)
        return self._streams[name]

    def launching(self, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
        """See `SymmetricMemory.launching`."""
        current = self._current() if self._launching is None else self._launching
        return _NOTHING if stream is current else _Switched(self, stream, current)

    def wait_stream(self, stream: torch.cuda.Stream, other: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.wait_stream`."""
        if self._driver is None:
            self._event.record(other)
            stream.wait_event(self._event)
            return
        self._driver.record(self._event_number, other.cuda_stream)
        self._driver.wait(stream.cuda_stream, self._event_number)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.copy`; tensors live on: the caller's stream waits for this one before a call ends."""
        if self._driver is None:
            with self.launching(stream):
                target.copy_(source, non_blocking=True)
            return
        self._driver.copy(target.data_ptr(), source.data_ptr(), source.nbytes, stream.cuda_stream)

    def set_word(self, word: torch.Tensor, value: int | torch.Tensor, stream: torch.cuda.Stream) -> None:
        """Set a word when the stream comes to it: a copy of 4 bytes if the value is on the device."""
        if isinstance(value, int):
            with self.launching(stream):
                word.fill_(value)
        else:
            GpuStreams.copy(self, word, value, stream)

    def _current(self) -> torch.cuda.Stream:
        """The current stream: Triton's way to its number takes a tenth of torch's to the stream."""
        number = driver.active.get_current_stream(self._device)
        found = self._by_number.get(number)
        if found is None:
            found = self._by_number[number] = torch.cuda.current_stream(self._device)
        return found


class _Switched:
    """Context in which a stream of the current device is the current one; torch's own asks for devices as well."""

    def __init__(self, streams: GpuStreams, stream: torch.cuda.Stream, before: torch.cuda.Stream) -> None:
        self._streams, self._stream, self._before = streams, stream, before
        self._outer = streams._launching

    def __enter__(self) -> None:
        self._streams._launching = self._stream
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *raised: object) -> None:
        self._streams._launching = self._outer
        torch.cuda.set_stream(self._before)
