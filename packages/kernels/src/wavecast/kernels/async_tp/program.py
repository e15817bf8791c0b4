"""What a call puts on its streams, as plain data: what a plan shows, and what a schedule's time is predicted from.

Nothing here runs anything. The operators' plans make a `Program` from shapes alone, so that it can be looked at for any
number of ranks and any device on a machine that has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Engine = Literal["copy-engine", "blit", "fetcher"]
"""What moves bytes: an engine of its own, a copy that runs as a kernel, or workgroups of the kernel that needs them."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch.

    Attributes:
        name: of the kernel.
        operator: what its time is looked up by, together with ``shape``.
        shape: sizes (``{"m": 4096, …}``) and what else tells times apart (``{"dtype": "bf16"}``).
        workgroups: programs of the grid.
        tile_waits: for each output tile, in the order of their visits, the signal that it waits for last; None: none.
            Empty where the kernel waits for nothing.
        compute_units: that the grid may take; None: all.
    """

    kind: ClassVar[str] = "kernel"
    name: str
    operator: str
    shape: Mapping[str, int | str]
    workgroups: int
    tile_waits: tuple[int | None, ...] = ()
    compute_units: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes from one rank to another, or within one."""

    kind: ClassVar[str] = "copy"
    source_rank: int
    target_rank: int
    size_bytes: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class WriteSignal:
    """Set a word of a rank's signal pad."""

    kind: ClassVar[str] = "write-signal"
    rank: int
    signal: int
    value: int


@dataclass(frozen=True, slots=True)
class WaitSignal:
    """Hold this stream until a word of its own rank's pad has the value."""

    kind: ClassVar[str] = "wait-signal"
    signal: int
    value: int


@dataclass(frozen=True, slots=True)
class Record:
    """Mark this place of the stream; the name is one of the whole program."""

    kind: ClassVar[str] = "record"
    event: str


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """Hold this stream until another has passed the place of that name."""

    kind: ClassVar[str] = "wait-event"
    event: str


Operation = Kernel | Copy | WriteSignal | WaitSignal | Record | WaitEvent


@dataclass(frozen=True, slots=True)
class Stream:
    """Operations of one rank that run one after another; a lower ``priority`` goes first."""

    rank: int
    name: str
    priority: int = 0
    operations: tuple[Operation, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Program:
    """Streams of all ranks."""

    name: str
    ranks: int
    streams: tuple[Stream, ...]
