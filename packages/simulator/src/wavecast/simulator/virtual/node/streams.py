"""Streams of a rank and the hardware queues that they share."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wavecast.simulator.virtual.node.operations import Operation


@dataclass(eq=False)
class HardwareQueue:
    """Executes operations in the order in which they were put there, one at a time.

    Attributes:
        rank: Whose.
        index: Which of the rank's.
        operations: Those that have not ended; the first one runs, or waits for its start.
    """

    rank: int
    index: int
    operations: deque[Operation] = field(default_factory=deque)


@dataclass(eq=False, frozen=True)
class NodeStream:
    """Operations of one rank in order.

    Attributes:
        rank: Whose.
        name: What messages call it.
        priority: Lower numbers come first; streams of different priorities share no queue.
        queue: The hardware queue on which its operations are put.
    """

    rank: int
    name: str
    priority: int
    queue: HardwareQueue


class Streams:
    """The streams of a rank; each new one takes the next hardware queue of its priority, in a circle.

    Args:
        rank: Whose.
        most_queues: Hardware queues of each priority.
    """

    def __init__(self, rank: int, most_queues: int) -> None:
        self._rank, self._most = rank, most_queues
        self._streams: dict[str, NodeStream] = {}
        self._pools: dict[int, list[HardwareQueue]] = {}
        self._made: dict[int, int] = {}
        self.queues: list[HardwareQueue] = []

    def stream(self, name: str, priority: int = 0) -> NodeStream:
        """The stream of a name, made when it is first asked for."""
        known = self._streams.get(name)
        if known is None:
            pool, count = self._pools.setdefault(priority, []), self._made.get(priority, 0)
            if len(pool) < self._most:
                pool.append(HardwareQueue(self._rank, len(self.queues)))
                self.queues.append(pool[-1])
            known = NodeStream(self._rank, name, priority, pool[count % self._most])
            self._made[priority] = count + 1
            self._streams[name] = known
        return known

    @property
    def all(self) -> list[NodeStream]:
        """All streams, in the order in which they were made."""
        return list(self._streams.values())
