"""What several GPUs did when, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """One operation of a stream.

    Attributes:
        rank: GPU.
        stream: Stream.
        queue: Hardware queue; below 0: what a kernel's own workgroups do.
        kind: ``product``, ``collective``, ``transfer``, ``local``: other kernels and copies within a GPU, ``signal``,
            ``wait``: for an event or a signal.
        name: What it is.
        ready_us: When its queue came to it.
        start_us: When it began.
        end_us: When it ended.
        units: Compute units that it held, at most.
        size_bytes: Bytes of a copy.
        waited_us: Of that time, what each of a product's workgroups waited for chunks, on average.
    """

    rank: int
    stream: str
    queue: int
    kind: str
    name: str
    ready_us: float
    start_us: float
    end_us: float
    units: int
    size_bytes: int
    waited_us: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run of a schedule.

    Attributes:
        bars: Operations of all GPUs, by start.
        total_us: When the last one ended.
        slowest: The GPU that ended last.
        trace: The run in the trace event format, JSON.
    """

    bars: tuple[Bar, ...]
    total_us: float
    slowest: int
    trace: str
