"""Every interleaving of a small program, by search over its states: who could get stuck, and who could end.

A second, independent statement of what queues, signals, events, barriers and compute units mean, without time: any
operation that can go on may go on next. Workgroups of a launch that has fewer than there are shader engines are bound
to an engine, any one, before they wait for room there; others take room wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.program import OperationLike, ProgramLike
from wavecast.simulator.overlap.queues import share_queues


@dataclass(frozen=True)
class Launch:
    """Workgroups of one operation: bound to an engine, running there, spinning there for a signal; and tiles begun.

    Late workgroups, which spin before their first tile, are those that get a unit first.
    """

    wanted: int
    few: bool
    late: tuple[tuple[int, int], ...] = ()
    bound: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    spinning: tuple[tuple[int, int], ...] = ()
    begun: int = 0


@dataclass(frozen=True)
class State:
    """Operations that each queue has issued, and what each stream is at: None, or the one issued last, not yet done."""

    issued: tuple[int, ...]
    busy: tuple[Launch | None, ...]
    free: tuple[tuple[int, ...], ...]
    signals: frozenset[tuple[int, int, int]] = frozenset()
    events: frozenset[str] = frozenset()
    arrived: tuple[int, ...] = ()
    inside: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Verdict:
    can_stick: bool = False
    can_end: bool = False
    states: int = 0
    stuck: list[State] = field(default_factory=list)


class TooManyStatesError(Exception):
    """The program is too large to search."""


@dataclass(frozen=True)
class Plan:
    """Queues of the program: for each of its items the stream's number and the operation, and each stream's rank."""

    queues: tuple[tuple[tuple[int, OperationLike], ...], ...]
    ranks: tuple[int, ...]
    in_order: bool
    node: Node

    def current(self, state: State, stream: int) -> OperationLike:
        """The operation that a stream issued last."""
        found = [
            operation
            for place, queue in zip(state.issued, self.queues, strict=True)
            for owner, operation in queue[:place]
            if owner == stream
        ]
        return found[-1]


def explore(program: ProgramLike, node: Node, *, limit: int = 20_000) -> Verdict:
    """Search all states that the program can come to."""
    number = {id(stream): index for index, stream in enumerate(program.streams)}
    shared = share_queues(program, node)
    plan = Plan(
        tuple(tuple((number[id(item.stream)], item.operation) for item in shared[key]) for key in sorted(shared)),
        tuple(stream.rank for stream in program.streams),
        node.link.queue_concurrency == 1,
        node,
    )
    start = State(
        issued=(0,) * len(plan.queues),
        busy=(None,) * len(plan.ranks),
        free=(node.units_per_engine,) * node.ranks,
        arrived=(0,) * node.ranks,
    )
    verdict, seen, waiting = Verdict(), {start}, [start]
    while waiting:
        state = waiting.pop()
        followers = set(_next(state, plan))
        if not followers:
            ended = not any(state.busy) and all(map(_through, state.issued, plan.queues))
            verdict.can_end |= ended
            verdict.can_stick |= not ended
        for follower in followers - seen:
            seen.add(follower)
            waiting.append(follower)
            if len(seen) > limit:
                raise TooManyStatesError
    verdict.states = len(seen)
    return verdict


def _through(place: int, queue: tuple[tuple[int, OperationLike], ...]) -> bool:
    return place == len(queue)


T = TypeVar("T")


def _set(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _next(state: State, plan: Plan) -> Iterator[State]:
    for index, queue in enumerate(plan.queues):
        place = state.issued[index]
        if place == len(queue):
            continue
        stream, operation = queue[place]
        others = {owner for owner, _ in queue[:place]} if plan.in_order else {stream}
        if any(state.busy[owner] is not None for owner in others):
            continue
        yield from _issue(replace(state, issued=_set(state.issued, index, place + 1)), stream, operation, plan)
    for stream, launch in enumerate(state.busy):
        if launch is not None:
            yield from _launched(state, stream, plan.ranks[stream], plan.current(state, stream), plan.node)


def _issue(state: State, stream: int, operation: OperationLike, plan: Plan) -> Iterator[State]:
    """States after an operation is issued: done at once, or its stream is busy with it; none where it cannot be yet."""
    kernel = plan.node.link.signal_workgroups is not None  # a stream's writes and waits are kernels
    match operation.kind:
        case "record":
            yield replace(state, events=state.events | {operation.event})
        case "wait-event":
            if operation.event in state.events:
                yield state
        case "copy" if operation.engine == "copy-engine" and operation.source_rank != operation.target_rank:
            yield state
        case "write-signal" | "wait-signal" if not kernel:
            yield from _signal(state, stream, plan.ranks[stream], operation)
        case _:
            size = _size(operation, plan.node)
            late = operation.late_workgroups if operation.kind == "kernel" else ()
            launch = Launch(size, size < plan.node.engines, late)
            yield replace(state, busy=_set(state.busy, stream, launch))


def _done(state: State, stream: int) -> State:
    inside = frozenset(entry for entry in state.inside if entry[0] != stream)
    return replace(state, busy=_set(state.busy, stream, None), inside=inside)


def _value(state: State, rank: int, signal: int) -> int:
    return max((value for owner, which, value in state.signals if (owner, which) == (rank, signal)), default=0)


def _signal(state: State, index: int, rank: int, operation: OperationLike) -> Iterator[State]:
    if operation.kind == "write-signal":
        written = (operation.rank, operation.signal, operation.value)
        yield _done(replace(state, signals=state.signals | {written}), index)
    elif operation.kind == "wait-signal" and _value(state, rank, operation.signal) >= operation.value:
        yield _done(state, index)


def _size(operation: OperationLike, node: Node) -> int:
    match operation.kind:
        case "kernel":
            return min(operation.workgroups, len(operation.tile_waits) or operation.workgroups)
        case "copy":
            return node.link.blit_workgroups or 1
        case "write-signal" | "wait-signal":
            return node.link.signal_workgroups or 0
        case _:
            return 1


def _launched(state: State, index: int, rank: int, operation: OperationLike, node: Node) -> Iterator[State]:
    launch = state.busy[index]
    assert launch is not None

    def with_launch(changed: Launch, free: tuple[tuple[int, ...], ...] = state.free) -> State:
        return replace(state, busy=_set(state.busy, index, changed), free=free)

    free = state.free[rank]
    for engine in range(node.engines):
        if launch.few and launch.wanted:
            yield with_launch(replace(launch, wanted=launch.wanted - 1, bound=tuple(sorted((*launch.bound, engine)))))
        takes = engine in launch.bound if launch.few else launch.wanted
        if takes and free[engine]:
            bound = list(launch.bound)
            if launch.few:
                bound.remove(engine)
            changed = replace(launch, wanted=launch.wanted - (not launch.few), bound=tuple(bound))
            if launch.late:
                (signal, count), *rest = launch.late
                late = ((signal, count - 1), *rest) if count > 1 else tuple(rest)
                changed = replace(changed, late=late, spinning=tuple(sorted((*launch.spinning, (engine, signal)))))
            else:
                changed = replace(changed, running=tuple(sorted((*launch.running, engine))))
            less = _set(state.free, rank, _set(free, engine, free[engine] - 1))
            yield with_launch(changed, less)
    if operation.kind == "kernel":
        yield from _tiles(state, index, rank, operation, launch, with_launch)
    elif not launch.wanted and not launch.bound:
        yield from _held(state, index, rank, operation, launch, node)


def _give(state: State, rank: int, engines: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    free = list(state.free[rank])
    for engine in engines:
        free[engine] += 1
    return _set(state.free, rank, tuple(free))


def _held(state: State, index: int, rank: int, operation: OperationLike, launch: Launch, node: Node) -> Iterator[State]:
    """Operations that are kernels: all workgroups have room."""
    given = replace(state, free=_give(state, rank, launch.running))
    match operation.kind:
        case "write-signal" | "wait-signal":
            yield from _signal(given, index, rank, operation)
        case "copy":
            yield _done(given, index)
        case "barrier":
            number = next((number for entered, number in state.inside if entered == index), None)
            if number is None:
                arrived = _set(state.arrived, rank, state.arrived[rank] + 1)
                yield replace(state, arrived=arrived, inside=state.inside | {(index, arrived[rank])})
            elif min(state.arrived) >= number:
                yield _done(given, index)


def _tiles(state, index, rank, operation, launch, with_launch) -> Iterator[State]:  # type: ignore[no-untyped-def]
    waits = operation.tile_waits
    for engine in set(launch.running):
        running = list(launch.running)
        running.remove(engine)
        if not waits or launch.begun == len(waits):  # a plain kernel's tile, or no tile left: the unit is given back
            yield with_launch(replace(launch, running=tuple(running)), _give(state, rank, (engine,)))
        elif waits[launch.begun] is None or _value(state, rank, waits[launch.begun]) >= 1:
            yield with_launch(replace(launch, begun=launch.begun + 1))
        else:
            spinning = tuple(sorted((*launch.spinning, (engine, waits[launch.begun]))))
            yield with_launch(replace(launch, running=tuple(running), spinning=spinning, begun=launch.begun + 1))
    for engine, signal in set(launch.spinning):
        if _value(state, rank, signal) >= 1:
            spinning = list(launch.spinning)
            spinning.remove((engine, signal))
            changed = replace(launch, spinning=tuple(spinning), running=tuple(sorted((*launch.running, engine))))
            yield with_launch(changed)
    if not (launch.wanted or launch.bound or launch.running or launch.spinning):
        yield _done(state, index)  # all workgroups have had a unit, also those that found no tile left
