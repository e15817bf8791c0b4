"""The smallest change after which a program that does not end does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.program import Kernel, KernelLike, OperationLike, Program, ProgramLike, Stream
from wavecast.simulator.overlap.simulate import simulate
from wavecast.simulator.overlap.times import KernelTimes


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that lets a program end.

    Attributes:
        kind: ``order``: streams are enqueued in another order; ``queues``: more hardware queues; ``grid``: persistent
            kernels start fewer workgroups.
        description: What to do.
        value: Queues or workgroups; 0 for an order.
    """

    kind: str
    description: str
    value: int


def remedies(program: ProgramLike, node: Node, times: KernelTimes) -> tuple[Remedy, ...]:
    """Changes of one kind that are enough by themselves, the one that costs least first.

    An order costs nothing, a queue little, and workgroups cost speed; of each kind the smallest change is given.

    Args:
        program: What does not end; for a program that does there is nothing to change.
        node: Where.
        times: Of its kernels. They decide who comes first, and so which change is enough.
    """

    def ends(changed: ProgramLike, on: Node = node) -> bool:
        return simulate(changed, on, times).deadlock is None

    deadlock = simulate(program, node, times).deadlock
    if deadlock is None:
        return ()
    involved = [holder.stream for holder in reversed(deadlock.cycle)]
    found = _order(program, involved, ends), _queues(program, node, ends), _grid(program, ends)
    return tuple(entry for entry in found if entry)


def _order(program: ProgramLike, involved: list[str], ends: Callable[[ProgramLike], bool]) -> Remedy | None:
    """One of the streams involved that all ranks enqueue before the others."""
    for name in dict.fromkeys(involved):
        first = sorted(program.streams, key=lambda stream: stream.name != name)
        if list(first) != list(program.streams) and ends(Program(program.name, program.ranks, tuple(first))):
            return Remedy("order", f"enqueue stream {name!r} before the others", 0)
    return None


def _queues(program: ProgramLike, node: Node, ends: Callable[[ProgramLike, Node], bool]) -> Remedy | None:
    """As many hardware queues as it takes, at most one a stream."""
    most = max(sum(stream.rank == rank for stream in program.streams) for rank in range(program.ranks))
    for queues in range(node.queues + 1, most + 1):
        if ends(program, Node(node.device, node.ranks, queues, node.host_us)):
            return Remedy("queues", f"{queues} hardware queues instead of {node.queues}", queues)
    return None


def _grid(program: ProgramLike, ends: Callable[[ProgramLike], bool]) -> Remedy | None:
    """The largest grid of the persistent kernels with which the program ends."""
    widest = max((kernel.workgroups for kernel in _persistent(program)), default=1)
    low, high = 0, widest  # ends with low workgroups, where low is above 0; does not with high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ends(_limited(program, middle)) else (low, middle)
    if not low:
        return None
    return Remedy("grid", f"at most {low} workgroups of persistent kernels instead of {widest}", low)


def _persistent(program: ProgramLike) -> Iterator[KernelLike]:
    for stream in program.streams:
        for operation in stream.operations:
            if operation.kind == "kernel" and operation.tile_waits:
                yield operation


def _limited(program: ProgramLike, workgroups: int) -> Program:
    def limit(operation: OperationLike) -> OperationLike:
        if operation.kind != "kernel" or not operation.tile_waits:
            return operation
        return Kernel(
            operation.name, operation.operator, operation.shape, min(operation.workgroups, workgroups),
            operation.tile_waits, operation.compute_units, tuple(getattr(operation, "tile_signals", ())),
            tuple(getattr(operation, "late_workgroups", ())), bool(getattr(operation, "waits_at_end", False)),
        )  # fmt: skip

    streams = tuple(
        Stream(stream.rank, stream.name, stream.priority, tuple(map(limit, stream.operations)))
        for stream in program.streams
    )
    return Program(program.name, program.ranks, streams)
