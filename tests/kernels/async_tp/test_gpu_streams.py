"""Streams by name: work goes where it is said to go, and the caller's stream is the current one afterwards."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from wavecast.kernels.async_tp import gpu_streams
from wavecast.kernels.async_tp.gpu_streams import GpuStreams
from wavecast.kernels.async_tp.symmetric import COMPUTE


class Cuda:
    """Streams of a device, of which one is current: only their numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = [SimpleNamespace(cuda_stream=0), SimpleNamespace(cuda_stream=1)]
        self.current, self.switches = self.made[0], 0
        self.put: list[tuple[Any, ...]] = []
        active = SimpleNamespace(get_current_stream=lambda device: self.current.cuda_stream)
        monkeypatch.setattr(gpu_streams, "driver", SimpleNamespace(active=active))
        for name, value in {
            "current_device": lambda: 0,
            "current_stream": lambda device: self.current,
            "set_stream": self.switch,
            "Stream": self.make,
            "Event": lambda: SimpleNamespace(record=lambda: None, cuda_event=77),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        calls = {name: partial(self.note, name) for name in ("copy", "record", "wait")}
        monkeypatch.setattr(gpu_streams, "stream_driver", lambda: SimpleNamespace(**calls))

    def note(self, *given: Any) -> None:
        self.put.append(given)

    def make(self, priority: int) -> Any:
        self.made.append(SimpleNamespace(cuda_stream=len(self.made)))
        return self.made[-1]

    def switch(self, stream: Any) -> None:
        self.current, self.switches = stream, self.switches + 1


def test_a_caller_who_has_changed_streams_without_asking_gets_back_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    streams = GpuStreams()
    first = streams.stream(COMPUTE)
    assert first is cuda.made[0]
    cuda.current = cuda.made[1]  # a capture has begun, say
    with streams.launching(streams.stream("fetch")):
        assert cuda.current is streams.stream("fetch")
    assert cuda.current is cuda.made[1]
    with streams.launching(first):
        assert cuda.current is first
    assert cuda.current is cuda.made[1]


def test_what_is_put_on_the_current_stream_switches_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    streams = GpuStreams()
    fetch = streams.stream("fetch")
    with streams.launching(streams.stream(COMPUTE)):
        pass
    assert cuda.switches == 0
    with streams.launching(fetch), streams.launching(fetch):
        assert cuda.switches == 1
        with streams.launching(cuda.made[0]):
            assert cuda.current is cuda.made[0]
        assert cuda.current is fetch
    assert cuda.current is cuda.made[0]
    cuda.current = fetch  # which the caller may have as its own
    with streams.launching(fetch):
        assert streams.stream(COMPUTE) is fetch
    assert cuda.switches == 4


def test_an_error_while_launching_leaves_the_callers_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    streams = GpuStreams()
    with pytest.raises(ValueError, match="refused"), streams.launching(streams.stream("fetch")):
        raise ValueError("refused")
    assert cuda.current is cuda.made[0] and streams.stream(COMPUTE) is cuda.made[0]


def test_copies_waits_and_signals_go_to_the_streams_that_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's stays the current one: a driver's functions are told a stream."""
    cuda = Cuda(monkeypatch)
    streams = GpuStreams()
    fetch, compute = streams.stream("fetch"), streams.stream(COMPUTE)
    target, source, word = torch.zeros(4, 8), torch.ones(4, 8), torch.ones(1, dtype=torch.int32)
    streams.wait_stream(fetch, compute)
    streams.copy(target, source, fetch)
    streams.set_word(target[:1, :1].view(torch.int32), word, fetch)
    assert cuda.switches == 0
    assert cuda.put == [
        ("record", 77, 0),
        ("wait", 2, 77),
        ("copy", target.data_ptr(), source.data_ptr(), 128, 2),
        ("copy", target.data_ptr(), word.data_ptr(), 4, 2),
    ]
