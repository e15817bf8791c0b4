"""Streams of CUDA or HIP by name, and what is put on them, at little cost for the host."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from triton.runtime import driver

from wavecast.kernels.async_tp.symmetric import COMPUTE

_NOTHING = nullcontext()


class GpuStreams:
    """The part of `SymmetricMemory` that concerns streams alone, on the device that is current when it is made.

    To make a stream the current one takes the host some microseconds, and a call puts a dozen things on streams: where
    a stream is the current one already, nothing is done. Which one is, the driver is asked, except within `launching`.
    """

    def __init__(self) -> None:
        self._device = torch.cuda.current_device()
        self._streams: dict[str, torch.cuda.Stream] = {}
        self._by_number: dict[int, torch.cuda.Stream] = {}
        self._launching: torch.cuda.Stream | None = None
        # One for all waits: a wait is for what was recorded last when it is put on its stream.
        self._event = torch.cuda.Event()

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
        self._event.record(other)
        stream.wait_event(self._event)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.copy`; tensors live on: the caller's stream waits for this one before a call ends."""
        with self.launching(stream):
            target.copy_(source, non_blocking=True)

    def set_word(self, word: torch.Tensor, value: int | torch.Tensor, stream: torch.cuda.Stream) -> None:
        """Set a word when the stream comes to it: a copy of 4 bytes if the value is on the device."""
        with self.launching(stream):
            if isinstance(value, int):
                word.fill_(value)
            else:
                word.copy_(value, non_blocking=True)

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
