"""Who waits for whom in a run that moves no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wavecast.simulator.overlap.outcome import Deadlock, Holder

if TYPE_CHECKING:
    from wavecast.simulator.overlap.queues import Item
    from wavecast.simulator.overlap.running import Running
    from wavecast.simulator.overlap.simulate import Simulation


def explain(simulation: Simulation, at_us: float) -> Deadlock:
    """Follow waits from the first item that is stuck until one comes again.

    Args:
        simulation: A run with no event left and a queue that is not empty.
        at_us: When it stopped.
    """
    graph = _Graph(simulation)
    heads = [item for _, item in sorted(simulation.heads.items()) if item is not None]
    first = [*heads, *simulation.active][0]
    chain: list[Item] = []
    holders: list[Holder] = []
    item: Item | None = first
    while item is not None and item not in chain:
        chain.append(item)
        holder, item = graph.step(item)
        holders.append(holder)
    begin = chain.index(item) if item is not None else 0
    return Deadlock(tuple(holders[begin:]), at_us, closed=item is not None)


class _Graph:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def step(self, item: Item) -> tuple[Holder, Item | None]:
        """What an item holds and waits for, and the item that would have to do that."""
        rank, head = item.stream.rank, self.simulation.heads[item.stream.rank, item.queue]
        if item not in self.simulation.active:
            if head is item or head is None:  # its own stream has not come to it
                head = next(other for other in self.simulation.active if other.stream is item.stream)
                return self._holder(item, "", f"{head.title!r} before it in its stream"), head
            waits = f"its turn behind {head.title!r} of stream {head.stream.name!r} in the same hardware queue"
            return self._holder(item, "", waits), head
        running = self._running(item)
        if running is not None and (running.waiting or running.joining):
            signal = min([*running.waiting, *running.joining])
            count = sum(map(len, running.waiting.values())) + sum(running.joining.values())
            held = f"{running.units} compute units, {count} of them spinning"
            writer = self._writer(rank, signal, 1)
            return self._holder(item, held, self._signal(rank, signal, 1, writer)), writer
        if running is not None and running.pending:
            blocking = self._blocking(running)
            room = (
                "a compute unit on every shader engine" if running.workgroups < len(running.held) else "compute units"
            )
            name = f", which {blocking.item.title!r} holds" if blocking else ""
            held = f"{running.units} compute units" if running.units else ""
            return self._holder(item, held, f"{room}{name}"), blocking.item if blocking else None
        held = f"{running.units} compute units" if running is not None and running.units else ""
        operation = item.operation
        if operation.kind == "wait-signal":
            writer = self._writer(rank, operation.signal, operation.value)
            waits = self._signal(rank, operation.signal, operation.value, writer)
            return self._holder(item, held, waits), writer
        if operation.kind == "wait-event":
            recorder = self._first(lambda other: other.operation.kind == "record" and _event(other) == _event(item))
            return self._holder(item, held, f"event {operation.event!r}"), recorder
        if operation.kind == "barrier":
            late = self._missing(operation.channel)
            waits = f"GPU {late.stream.rank} at the barrier" if late else "a GPU that never comes to the barrier"
            return self._holder(item, held, waits), late
        return self._holder(item, held, "something that is not known"), None

    def _holder(self, item: Item, holds: str, waits: str) -> Holder:
        return Holder(item.stream.rank, item.stream.name, item.queue, item.title, holds, waits)

    def _running(self, item: Item) -> Running | None:
        launched = self.simulation.launched[item.stream.rank]
        return next((running for running in launched if running.item is item), None)

    def _blocking(self, running: Running) -> Running | None:
        """The launch that holds most of the units that ``running`` waits for."""
        others = [other for other in self.simulation.launched[running.item.stream.rank] if other is not running]
        return max(others, key=lambda other: other.units, default=None)

    def _first(self, wanted: Callable[[Item], bool]) -> Item | None:
        """The first item not yet done that ``wanted`` accepts."""
        for _, items in sorted(self.simulation.queues.items()):
            for item in items:
                if item not in self.simulation.done and wanted(item):
                    return item
        return None

    def _writer(self, rank: int, signal: int, value: int) -> Item | None:
        def writes(item: Item) -> bool:
            operation = item.operation
            if operation.kind == "kernel":
                written = {index for _, index in getattr(operation, "tile_signals", ())}
                return item.stream.rank == rank and signal in written and value <= 1
            if operation.kind != "write-signal":
                return False
            return (operation.rank, operation.signal) == (rank, signal) and operation.value >= value

        return self._first(writes)

    def _signal(self, rank: int, signal: int, value: int, writer: Item | None) -> str:
        seen = self.simulation.signals[rank].get(signal, 0)
        text = f"signal {signal} to reach {value} (is {seen})"
        if writer is None:
            return f"{text}, which nothing left writes"
        return f"{text}, which stream {writer.stream.name!r} of GPU {writer.stream.rank} writes"

    def _missing(self, channel: int) -> Item | None:
        """A barrier on the channel that some GPU has still before it and has not entered."""
        passed = self.simulation.passed
        counts = {rank: passed.get((rank, channel), 0) for rank in range(self.simulation.node.ranks)}
        last = min(counts, key=lambda rank: counts[rank])

        def is_next(item: Item) -> bool:
            running = self._running(item)
            inside = running is not None and not running.pending
            return (
                item.stream.rank == last
                and item.operation.kind == "barrier"
                and item.operation.channel == channel
                and not inside
            )

        return self._first(is_next)


def _event(item: Item) -> str:
    operation = item.operation
    assert operation.kind in ("record", "wait-event")
    return operation.event
