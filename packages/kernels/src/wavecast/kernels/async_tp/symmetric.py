"""What the operators ask of memory that several ranks share: windows, signals, and streams that run work in order.

One object stands for one rank's view of one symmetric buffer. Every rank has made it, with the same sizes. Two
implementations exist: over ``torch.distributed``'s symmetric memory, and over the simulator's virtual node. Neither
does anything when called but put work on a stream; nothing here waits on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch

Stream = Any
"""A queue of work of one rank. Only the `SymmetricMemory` that it came from looks inside."""

COMPUTE = "compute"
"""Name of the stream on which the caller's own work is: the current stream, where there is one."""


class Publication(NamedTuple):
    """What the other ranks are to read, and where it goes before that.

    Attributes:
        source: contiguous rows.
        targets: at most two contiguous tensors of its dtype and row length in this rank's own memory, and which of
            their rows the first one becomes.
    """

    source: torch.Tensor
    targets: Sequence[tuple[torch.Tensor, int]]


class SymmetricMemory(Protocol):
    """One rank's view of a buffer and a signal pad that every rank of a group has.

    Attributes:
        rank: of this process (or of this virtual device).
        ranks: number of them.
        window_bytes: size of every rank's buffer.
        signal_count: words of every rank's signal pad.
        full_mesh: whether a link of its own leads to each other rank. Otherwise all links lead to a switch.
    """

    rank: int
    ranks: int
    window_bytes: int
    signal_count: int
    full_mesh: bool

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        """Contiguous tensor over part of a rank's buffer, as this rank's kernels and copies reach it.

        Raises:
            ValueError: it does not fit, or begins at no multiple of its element's size.
        """
        ...

    def window_addresses(self) -> torch.Tensor:
        """(ranks,) int64: where each rank's buffer begins, for kernels of this rank that reach it by address."""
        ...

    def signal_addresses(self) -> torch.Tensor:
        """(ranks,) int64: where each rank's signal pad begins, likewise."""
        ...

    def signals(self, rank: int) -> torch.Tensor:
        """(signal_count,) int32 signal pad of a rank; all zero before the first call."""
        ...

    def stream(self, name: str) -> Stream:
        """This rank's stream of a name, made when first asked for; `COMPUTE` is the caller's."""
        ...

    def launching(self, stream: Stream) -> AbstractContextManager[Any]:
        """Context in which kernels (Triton's and torch's) are put on a stream."""
        ...

    def wait_stream(self, stream: Stream, other: Stream) -> None:
        """What is put on ``stream`` from now on begins after all that is on ``other`` so far."""
        ...

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: Stream) -> None:
        """Copy between contiguous tensors of equal shape and dtype, each a window of any rank or this rank's own.

        What a copy engine can do is left to it. A later `write_signal` on the same stream is seen only after the copied
        bytes are.
        """
        ...

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: Stream) -> None:
        """Set a word of a rank's signal pad when the stream comes to it, released at system scope.

        Args:
            rank: whose pad.
            index: which word.
            value: a number, or a one-element int32 tensor of this rank that is read when the stream comes to it: so a
                captured call writes another value each time that it is replayed.
            stream: of this rank.
        """
        ...

    def publish(self, publications: Sequence[Publication], stream: Stream) -> None:
        """Hold the stream until every rank's has come here, copy, and hold it until every rank has.

        Between the two no rank's kernels read what is copied to. It is two barriers also where there is nothing to
        copy, since other ranks may have something.

        Args:
            publications: at most two.
            stream: of this rank.
        """
        ...

    def barrier(self, stream: Stream) -> None:
        """Hold a stream until every rank's has come to the same barrier; memory written before is seen after."""
        ...
