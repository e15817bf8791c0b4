"""Which hardware queue each stream's operations go to, and in which order; and whether a program makes sense."""

from __future__ import annotations

from dataclasses import dataclass

from wavecast.simulator.overlap.collectives import COLLECTIVES
from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.outcome import Role
from wavecast.simulator.overlap.program import ENGINES, PRODUCTS, OperationLike, ProgramLike, StreamLike

_KINDS = ("kernel", "copy", "write-signal", "wait-signal", "record", "wait-event", "barrier")


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """An operation at its place.

    Attributes:
        stream: Its stream.
        operation: What it is.
        queue: Hardware queue; below 0: what a kernel's own workgroups do, which needs none.
        title: What timelines and reports call it.
        submitted_us: When the host has enqueued it.
    """

    stream: StreamLike
    operation: OperationLike
    queue: int
    title: str
    submitted_us: float


def share_queues(program: ProgramLike, node: Node) -> dict[tuple[int, int], list[Item]]:
    """Items of each (rank, queue) in the order in which they are enqueued.

    Streams of a rank get queues in turn, those of each priority from a pool of their own, as in the runtime of ROCm;
    those that stand for workgroups of a kernel need none. A queue runs one item
    after the other, so that what is behind a waiting item waits too, whatever its stream. The host enqueues stream
    after stream, in the order of the program; where a stream waits for an event that is recorded later, it goes on with
    the stream that records it first, as a host must.
    """
    queues: dict[tuple[int, int], list[Item]] = {}
    for rank in range(program.ranks):
        streams = [stream for stream in program.streams if stream.rank == rank]
        inside = [stream for stream in streams if in_kernel(stream)]
        number = {id(stream): -1 - index for index, stream in enumerate(inside)}
        enqueued = [stream for stream in streams if not in_kernel(stream)]
        for pool, priority in enumerate(dict.fromkeys(stream.priority for stream in enqueued)):
            alike = [stream for stream in enqueued if stream.priority == priority]
            number |= {id(stream): pool * node.queues + index % node.queues for index, stream in enumerate(alike)}
        for place, (stream, operation) in enumerate(_host_order(streams)):
            queue = number[id(stream)]
            item = Item(stream, operation, queue, title(operation), (place + 1) * node.host_us if node.host_us else 0.0)
            queues.setdefault((rank, queue), []).append(item)
    return queues


def in_kernel(stream: StreamLike) -> bool:
    """Whether a stream is what workgroups of a kernel do themselves."""
    copies = [operation.engine for operation in stream.operations if operation.kind == "copy"]
    launches = any(operation.kind in ("kernel", "barrier") for operation in stream.operations)
    return bool(copies) and set(copies) == {"fetcher"} and not launches


def _host_order(streams: list[StreamLike]) -> list[tuple[StreamLike, OperationLike]]:
    order: list[tuple[StreamLike, OperationLike]] = []
    places = [0] * len(streams)
    here = {operation.event for stream in streams for operation in stream.operations if operation.kind == "record"}
    recorded: set[str] = set()
    while any(place < len(stream.operations) for place, stream in zip(places, streams, strict=True)):
        before = len(order)
        for index, stream in enumerate(streams):
            while places[index] < len(stream.operations):
                operation = stream.operations[places[index]]
                if operation.kind == "wait-event" and operation.event in here and operation.event not in recorded:
                    break
                if operation.kind == "record":
                    recorded.add(operation.event)
                order.append((stream, operation))
                places[index] += 1
        if len(order) == before:
            stuck = next(
                stream for place, stream in zip(places, streams, strict=True) if place < len(stream.operations)
            )
            raise OverlapError(
                f"no host can enqueue stream {stuck.name!r} of GPU {stuck.rank}: streams wait for one another's events "
                "before they are recorded",
                hint="record each event before a stream waits for it; use signals to wait for what comes later",
            )
    return order


def title(operation: OperationLike) -> str:
    """A short name."""
    match operation.kind:
        case "kernel":
            return operation.name
        case "copy":
            size = f"{operation.size_bytes / 2**20:.3g} MiB"
            if operation.source_rank == operation.target_rank:
                return f"local copy {size}"
            return f"copy {size} {operation.source_rank}→{operation.target_rank}"
        case "write-signal":
            return f"write signal {operation.signal} of GPU {operation.rank}"
        case "wait-signal":
            return f"wait for signal {operation.signal}"
        case "record":
            return f"record {operation.event}"
        case "wait-event":
            return f"wait for {operation.event}"
        case _:
            return f"barrier {operation.channel}"


def role(operation: OperationLike) -> Role:
    """What it is there for."""
    match operation.kind:
        case "kernel" if operation.operator in PRODUCTS:
            return "product"
        case "kernel" if operation.operator in COLLECTIVES:
            return "collective"
        case "copy" if operation.source_rank != operation.target_rank:
            return "transfer"
        case "kernel" | "copy":
            return "local"
        case "wait-signal" | "wait-event":
            return "wait"
        case _:
            return "signal"


def check(program: ProgramLike, node: Node) -> None:
    """Refuse what cannot be run.

    Raises:
        OverlapError: for ranks, engines, kinds, sizes or events that do not exist.
    """
    if program.ranks != node.ranks:
        raise OverlapError(f"program {program.name!r} is for {program.ranks} GPUs, the node has {node.ranks}")
    records = [
        operation.event for stream in program.streams for operation in stream.operations if operation.kind == "record"
    ]
    recorded = set(records)
    if len(recorded) < len(records):
        twice = next(event for event in records if records.count(event) > 1)
        raise OverlapError(
            f"program {program.name!r} records event {twice!r} twice; an event is one place of the program",
            hint="give each record a name of its own",
        )
    names = [(stream.rank, stream.name) for stream in program.streams]
    if len(set(names)) < len(names):
        raise OverlapError(f"program {program.name!r} has two streams of one name on one GPU: {sorted(names)}")
    for stream in program.streams:
        _rank(stream.rank, program, "a stream")
        for operation in stream.operations:
            if operation.kind not in _KINDS:
                raise OverlapError(f"operation {operation!r} is of no known kind; known are {', '.join(_KINDS)}")
            if operation.kind == "wait-event" and operation.event not in recorded:
                raise OverlapError(
                    f"{stream.name!r} of GPU {stream.rank} waits for {operation.event!r}, never recorded"
                )
            if operation.kind == "write-signal":
                _rank(operation.rank, program, "a signal")
            if operation.kind == "copy":
                _rank(operation.source_rank, program, "a copy's source")
                _rank(operation.target_rank, program, "a copy's target")
                if operation.engine not in ENGINES or operation.size_bytes < 1:
                    raise OverlapError(f"{operation!r}: wanted is one of {', '.join(ENGINES)}, and at least one byte")
            if operation.kind == "kernel" and (operation.workgroups < 1 or operation.compute_units == 0):
                raise OverlapError(f"kernel {operation.name!r} has no workgroups or no compute units")


def _rank(rank: int, program: ProgramLike, what: str) -> None:
    if not 0 <= rank < program.ranks:
        raise OverlapError(f"program {program.name!r}: {what} is of GPU {rank}; there are {program.ranks}, from 0")
