"""What a simulated program did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["product", "collective", "transfer", "local", "signal", "wait"]
"""What an operation is there for. ``transfer``: a copy between GPUs; ``local``: one within a GPU, or another kernel."""


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a stream.

    Attributes:
        rank: GPU.
        stream: Name of the stream.
        queue: Hardware queue; below 0: what a kernel's own workgroups do, which needs none.
        kind: Kind of the operation.
        role: What it is there for.
        name: What timelines show.
        ready_us: When the queue came to it.
        start_us: When it began: launched, with the units that it needs at least.
        end_us: When it ended.
        waited_us: Of a kernel's workgroups, mean time that each held a unit and waited for signals.
        units: Most units that it held at once.
        size_bytes: Bytes of a copy.
        late: Of a kernel's workgroups, those that did something else before their first tile.
    """

    rank: int
    stream: str
    queue: int
    kind: str
    role: Role
    name: str
    ready_us: float
    start_us: float
    end_us: float
    waited_us: float = 0.0
    units: int = 0
    size_bytes: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that does not end.

    Attributes:
        rank: GPU.
        stream: Its stream.
        queue: Hardware queue that it is at the head of, or behind; below 0: a kernel's own workgroups.
        operation: What it is.
        holds: What it keeps from others; empty: nothing but its queue.
        waits_for: What it waits for.
    """

    rank: int
    stream: str
    queue: int
    operation: str
    holds: str
    waits_for: str

    def __str__(self) -> str:
        held = f", holds {self.holds}" if self.holds else ""
        queue = f"queue {self.queue}" if self.queue >= 0 else "in a kernel"
        return f"GPU {self.rank} {self.stream} ({queue}): {self.operation}{held}; waits for {self.waits_for}"


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Why a program does not end.

    Attributes:
        cycle: Holders, each waiting for what the next one holds or would do; the last one waits for the first.
            A chain without end where something waits for what nobody does.
        at_us: When the last thing happened.
        closed: Whether it is a cycle.
    """

    cycle: tuple[Holder, ...]
    at_us: float
    closed: bool

    def __str__(self) -> str:
        head = "deadlock" if self.closed else "waits for what nobody does"
        return f"{head} after {self.at_us:.1f} µs:\n" + "\n".join(f"  {holder}" for holder in self.cycle)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of a program.

    Attributes:
        total_us: Until the last operation ended, or until nothing moved any more.
        spans: Operations that ended, by start.
        deadlock: None where the program ended.
    """

    total_us: float
    spans: Sequence[Span]
    deadlock: Deadlock | None = None

    def busy_us(self, rank: int, kind: str) -> float:
        """Time in which at least one operation of a kind ran on a GPU."""
        intervals = sorted(
            (span.start_us, span.end_us) for span in self.spans if (span.rank, span.kind) == (rank, kind)
        )
        busy, until = 0.0, float("-inf")
        for start, end in intervals:
            busy += max(0.0, end - max(start, until))
            until = max(until, end)
        return busy
