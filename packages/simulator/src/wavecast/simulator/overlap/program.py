"""Programs of several GPUs: streams of kernels, copies, signals and waits, as plain data.

The protocols say what the simulator reads. Whoever emits a program may use the dataclasses here or its own with equal
fields; an operation is told by its ``kind``.

Order is that of CUDA and HIP: operations of one stream run one after the other, streams are ordered by events and
signals only. Signals are 32-bit integers of a rank, zero at start. A signal is reached when it is at least the value
that is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Engine = Literal["copy-engine", "blit", "fetcher"]
"""Who copies: a copy engine, a kernel of the runtime on compute units, or workgroups of the kernel that needs it."""

ENGINES: tuple[Engine, ...] = ("copy-engine", "blit", "fetcher")

PRODUCTS = ("matmul", "async-matmul")
"""Operators that multiply: by the vendor's library, and persistent kernels whose tiles wait for chunks."""


@runtime_checkable
class KernelLike(Protocol):
    """A launch.

    Attributes:
        name: Shown in timelines.
        operator: With ``shape`` the key of the kernel's time.
        shape: Sizes and types of the launch.
        workgroups: Workgroups that it starts; a persistent kernel's grid.
        tile_waits: For each tile in visit order the index of the signal that must reach 1 before the tile starts, or
            None; empty for a kernel that waits for nothing.
        compute_units: Compute units that it may use; None: all that are free.
    """

    @property
    def kind(self) -> Literal["kernel"]: ...
    @property
    def name(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def shape(self) -> Mapping[str, int | str]: ...
    @property
    def workgroups(self) -> int: ...
    @property
    def tile_waits(self) -> tuple[int | None, ...]: ...
    @property
    def compute_units(self) -> int | None: ...


@runtime_checkable
class CopyLike(Protocol):
    """A copy between two ranks' memories, or inside one where both ranks are equal.

    A stream that launches nothing, and copies by fetchers only, is what workgroups of a kernel do themselves: it needs
    no hardware queue, and its signals no kernels.

    Attributes:
        source_rank: Whose memory is read.
        target_rank: Whose memory is written.
        size_bytes: Bytes moved.
        engine: One of ``ENGINES``.
    """

    @property
    def kind(self) -> Literal["copy"]: ...
    @property
    def source_rank(self) -> int: ...
    @property
    def target_rank(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def engine(self) -> str: ...


@runtime_checkable
class WriteSignalLike(Protocol):
    """Writes ``value`` to signal ``signal`` of rank ``rank``."""

    @property
    def kind(self) -> Literal["write-signal"]: ...
    @property
    def rank(self) -> int: ...
    @property
    def signal(self) -> int: ...
    @property
    def value(self) -> int: ...


@runtime_checkable
class WaitSignalLike(Protocol):
    """Holds the stream until signal ``signal`` of its own rank is at least ``value``."""

    @property
    def kind(self) -> Literal["wait-signal"]: ...
    @property
    def signal(self) -> int: ...
    @property
    def value(self) -> int: ...


@runtime_checkable
class RecordLike(Protocol):
    """Completes event ``event``, a name of the whole program, once everything before it in the stream is done."""

    @property
    def kind(self) -> Literal["record"]: ...
    @property
    def event(self) -> str: ...


@runtime_checkable
class WaitEventLike(Protocol):
    """Holds the stream until event ``event`` is recorded."""

    @property
    def kind(self) -> Literal["wait-event"]: ...
    @property
    def event(self) -> str: ...


@runtime_checkable
class BarrierLike(Protocol):
    """Holds the stream until every rank has come to its barrier number so and so on this channel."""

    @property
    def kind(self) -> Literal["barrier"]: ...
    @property
    def channel(self) -> int: ...


OperationLike = KernelLike | CopyLike | WriteSignalLike | WaitSignalLike | RecordLike | WaitEventLike | BarrierLike


class StreamLike(Protocol):
    """A stream of one rank.

    Attributes:
        rank: Its GPU.
        name: Name, once on a rank.
        priority: 0 is ordinary, less is more urgent, as in CUDA and HIP.
        operations: In the order in which they were enqueued.
    """

    @property
    def rank(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def operations(self) -> Sequence[OperationLike]: ...


class ProgramLike(Protocol):
    """Streams of ``ranks`` GPUs, numbered from 0."""

    @property
    def name(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def streams(self) -> Sequence[StreamLike]: ...


@dataclass(frozen=True, slots=True)
class Kernel:
    """See ``KernelLike``; what else a persistent kernel may do beside its tiles.

    Attributes:
        tile_signals: Pairs of a number of finished tiles and the signal that is then set to 1: a kernel that announces
            its output chunk by chunk; 0 tiles: when its first workgroups have begun.
        late_workgroups: Pairs of a signal of its own rank and the workgroups, of all of them, that take their first
            tile when it is there: they hold their compute units from the start, and do something else before. The
            kernel does not end before that, even if no tile is left for them.
        waits_at_end: Whether a tile waits for its signal when it is computed, instead of before.
    """

    name: str
    operator: str
    shape: Mapping[str, int | str]
    workgroups: int
    tile_waits: tuple[int | None, ...] = ()
    compute_units: int | None = None
    tile_signals: tuple[tuple[int, int], ...] = ()
    late_workgroups: tuple[tuple[int, int], ...] = ()
    waits_at_end: bool = False
    kind: Literal["kernel"] = "kernel"


@dataclass(frozen=True, slots=True)
class Copy:
    """See ``CopyLike``."""

    source_rank: int
    target_rank: int
    size_bytes: int
    engine: Engine = "copy-engine"
    kind: Literal["copy"] = "copy"


@dataclass(frozen=True, slots=True)
class WriteSignal:
    """See ``WriteSignalLike``."""

    rank: int
    signal: int
    value: int = 1
    kind: Literal["write-signal"] = "write-signal"


@dataclass(frozen=True, slots=True)
class WaitSignal:
    """See ``WaitSignalLike``."""

    signal: int
    value: int = 1
    kind: Literal["wait-signal"] = "wait-signal"


@dataclass(frozen=True, slots=True)
class Record:
    """See ``RecordLike``."""

    event: str
    kind: Literal["record"] = "record"


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """See ``WaitEventLike``."""

    event: str
    kind: Literal["wait-event"] = "wait-event"


@dataclass(frozen=True, slots=True)
class Barrier:
    """See ``BarrierLike``; what else its kernel may do.

    Attributes:
        copied_bytes: Bytes that it copies within its GPU when all ranks have come; it then waits for all of them again.
            All ranks copy some, or none does.
    """

    channel: int = 0
    copied_bytes: int = 0
    kind: Literal["barrier"] = "barrier"


Operation = Kernel | Copy | WriteSignal | WaitSignal | Record | WaitEvent | Barrier


@dataclass(frozen=True, slots=True)
class Stream:
    """See ``StreamLike``."""

    rank: int
    name: str
    priority: int
    operations: tuple[OperationLike, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """See ``ProgramLike``."""

    name: str
    ranks: int
    streams: tuple[StreamLike, ...]
