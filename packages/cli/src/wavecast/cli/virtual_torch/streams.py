"""``torch.cuda.Stream`` and ``Event`` of a rank of a virtual node."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from wavecast.cli.errors import CliError

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node import Event, NodeRank, NodeStream


class RankStream:
    """``torch.cuda.Stream`` of a rank.

    Args:
        rank: Whose.
        stream: The node's stream.
    """

    def __init__(self, rank: NodeRank, stream: NodeStream) -> None:
        self.node_stream, self.priority = stream, stream.priority
        self.device, self.device_index = torch.device("cuda", rank.index), rank.index
        self.cuda_stream = self.stream_id = id(stream)
        self._rank = rank
        self._entered: list[AbstractContextManager[Any]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RankStream) and other.node_stream is self.node_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __enter__(self) -> RankStream:
        self._entered.append(self._rank.active(self.node_stream))
        self._entered[-1].__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._entered.pop().__exit__(*given)

    def synchronize(self) -> None:
        """Wait until it is empty."""
        self._rank.synchronize(self.node_stream)

    def query(self) -> bool:
        """Whether it is empty."""
        return self._rank.is_done(self.node_stream)

    def wait_stream(self, stream: RankStream) -> None:
        """What follows begins after what is on another stream now."""
        self._rank.wait_stream(self.node_stream, stream.node_stream)

    def wait_event(self, event: RankEvent) -> None:
        """What follows begins after an event."""
        event.wait(self)

    def record_event(self, event: RankEvent | None = None) -> RankEvent:
        """Mark this place."""
        event = event or RankEvent(self._rank)
        event.record(self)
        return event


class RankEvent:
    """``torch.cuda.Event`` of a rank; it marks an order, and no time.

    Args:
        rank: Whose.
    """

    def __init__(self, rank: NodeRank) -> None:
        self._rank = rank
        self._event: Event | None = None

    def record(self, stream: RankStream | None = None) -> None:
        """Mark a place in a stream."""
        self._event = self._rank.record(stream.node_stream if stream is not None else None)

    def wait(self, stream: RankStream | None = None) -> None:
        """Hold a stream until the mark is reached."""
        if self._event is not None:
            self._rank.wait_event(self._event, stream.node_stream if stream is not None else None)

    def query(self) -> bool:
        """Whether the mark is reached."""
        return self._event is None or self._event.is_reached

    def synchronize(self) -> None:
        """Wait until it is."""
        self._rank.node.wait(self.query, "an event")

    def elapsed_time(self, end: Any) -> float:
        """There is none.

        Raises:
            CliError: Always.
        """
        raise CliError("a node of several ranks predicts no time", hint="time kernels under run without --ranks")
