"""Discrete events: runs a program on a node and says when everything began and ended, or why it does not end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from wavecast.simulator.overlap.errors import OverlapError
from wavecast.simulator.overlap.flows import Tiles, Transfer, set_rates
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.outcome import Outcome, Span
from wavecast.simulator.overlap.program import BarrierLike, CopyLike, KernelLike, ProgramLike, StreamLike
from wavecast.simulator.overlap.queues import Item, check, role, share_queues
from wavecast.simulator.overlap.running import Running
from wavecast.simulator.overlap.times import KernelTime, KernelTimes, time_of
from wavecast.simulator.overlap.units import Units
from wavecast.simulator.overlap.waiting import explain

Steps = Generator[simpy.Event, Any, None]
_DUST_US = 1e-6


class Simulation:
    """One run. Made by ``simulate``; ``waiting.explain`` looks into it when it is stuck."""

    def __init__(self, program: ProgramLike, node: Node, times: KernelTimes) -> None:
        check(program, node)
        self.program, self.node, self.times = program, node, times
        self.env = simpy.Environment()
        self.queues = share_queues(program, node)
        self.units = [Units.of(node.units_per_engine) for _ in range(node.ranks)]
        self.signals: list[dict[int, int]] = [{} for _ in range(node.ranks)]
        self.sleepers: dict[tuple[int, int], list[tuple[int, simpy.Event]]] = {}
        self.events: dict[str, simpy.Event] = {}
        self.launched: list[list[Running]] = [[] for _ in range(node.ranks)]
        self.engines = [simpy.Resource(self.env, node.link.num_engines) for _ in range(node.ranks)]
        self.exclusive: dict[int, simpy.Event] = {}
        self.barriers: dict[tuple[int, int], list[simpy.Event]] = {}
        self.passed: dict[tuple[int, int], int] = {}
        self.ran_last: dict[tuple[int, str], str] = {}
        self.heads: dict[tuple[int, int], Item | None] = {}
        self.active: dict[Item, None] = {}
        self.done: set[Item] = set()
        self.running_of: dict[tuple[int, str], simpy.Event] = {}
        self.spans: list[Span] = []
        self.tiles: list[Tiles] = []
        self.transfers: list[Transfer] = []
        self._arrivals = 0
        self._updated_us = 0.0
        self._version = 0
        self._dirty = False

    def run(self) -> Outcome:
        for (rank, index), items in self.queues.items():
            self.env.process(self._serve(rank, index, items))
        self.env.run()
        total = max((span.end_us for span in self.spans), default=0.0)
        stuck = self.active or any(head is not None for head in self.heads.values())
        spans = tuple(sorted(self.spans, key=lambda span: (span.start_us, span.rank, span.end_us)))
        return Outcome(total, spans, explain(self, self.env.now) if stuck else None)

    # Hardware queues.

    def _serve(self, rank: int, index: int, items: list[Item]) -> Steps:
        in_order = index < 0 or self.node.link.queue_concurrency == 1
        for item in items:
            self.heads[rank, index] = item
            if (late := item.submitted_us - self.env.now) > 0:
                yield self.env.timeout(late)
            if in_order:
                yield from self._operate(item)
                continue
            # An operation holds the queue until its stream is free, a wait until it is over; what runs holds nothing.
            key = rank, item.stream.name
            if (before := self.running_of.get(key)) is not None and not before.processed:
                yield before
            if item.operation.kind in ("wait-signal", "wait-event"):
                yield from self._operate(item)
            else:
                self.running_of[key] = self.env.process(self._operate(item))
        self.heads[rank, index] = None

    def _operate(self, item: Item) -> Steps:
        self.active[item] = None
        yield from self._carry_out(item)
        del self.active[item]
        self.done.add(item)

    def _carry_out(self, item: Item) -> Steps:
        ready, operation, stream = self.env.now, item.operation, item.stream
        start, units, waited = ready, 0, 0.0
        if operation.kind == "kernel":
            running = yield from self._kernel(item, operation)
            start, units = running.started_us or ready, running.peak
            waited = running.spun_us / max(1, running.workgroups)
        elif operation.kind == "copy":
            start, units = yield from self._copy(item, operation)
        elif operation.kind == "write-signal" and item.queue < 0:
            self.write(operation.rank, operation.signal, operation.value)
        elif operation.kind == "wait-signal" and item.queue < 0:
            yield from self._until(stream.rank, operation.signal, operation.value)
        elif operation.kind == "write-signal":
            yield from self._change_to(stream, "signal")
            start = yield from self._signal_kernel(item)
            yield self.env.timeout(self.node.link.write_signal_us)
            self._finish_signal_kernel(item)
            self.write(operation.rank, operation.signal, operation.value)
        elif operation.kind == "wait-signal":
            start = yield from self._signal_kernel(item)
            yield from self._until(stream.rank, operation.signal, operation.value)
            self._finish_signal_kernel(item)
        elif operation.kind == "record":
            self._event(operation.event).succeed()
        elif operation.kind == "wait-event":
            event = self._event(operation.event)
            if not event.triggered:
                yield event
                yield self.env.timeout(self.node.link.event_us)
        else:
            start = yield from self._barrier(item, operation)
        self.spans.append(
            Span(
                stream.rank, stream.name, item.queue, operation.kind, role(operation), item.title, ready, start,
                self.env.now, waited, units, operation.size_bytes if operation.kind == "copy" else 0,
                sum(count for _, count in getattr(operation, "late_workgroups", ())),
            )
        )  # fmt: skip

    def _event(self, name: str) -> simpy.Event:
        return self.events.setdefault(name, self.env.event())

    # Signals.

    def write(self, rank: int, signal: int, value: int, latency_us: float | None = None) -> None:
        """Set a signal and wake who waits for it, after the latency; None: that of a flag."""
        latency_us = self.node.link.signal_us if latency_us is None else latency_us
        self.signals[rank][signal] = value
        sleepers = self.sleepers.get((rank, signal), [])
        self.sleepers[rank, signal] = [entry for entry in sleepers if entry[0] > value]
        for wanted, event in sleepers:
            if wanted <= value:
                event.succeed(latency_us)
        for running in list(self.launched[rank]):
            if signal in running.waiting and value >= 1:
                self._wake(running, signal)
            if signal in running.joining and value >= 1:
                self._next_tiles(running, running.joining.pop(signal))
                self._finish_if_over(running)
                self._dispatch(rank)

    def _until(self, rank: int, signal: int, value: int) -> Steps:
        if self.signals[rank].get(signal, 0) < value:
            event = self.env.event()
            self.sleepers.setdefault((rank, signal), []).append((value, event))
            latency_us = yield event
            yield self.env.timeout(latency_us)

    def _signal_kernel(self, item: Item) -> Generator[simpy.Event, Any, float]:
        """Get the unit that a stream write or wait needs, where it is a kernel."""
        workgroups = self.node.link.signal_workgroups
        if workgroups is None:
            return self.env.now
        running = self._launch(item, workgroups, most_units=workgroups, tile_us=0.0, tiles=workgroups)
        yield running.finished
        return self.env.now

    def _finish_signal_kernel(self, item: Item) -> None:
        for running in self.launched[item.stream.rank]:
            if running.item is item:
                self._retire(running)
                return

    # Barriers.

    def _barrier(self, item: Item, operation: BarrierLike) -> Generator[simpy.Event, Any, float]:
        rank, link = item.stream.rank, self.node.link
        copied = getattr(operation, "copied_bytes", 0)
        workgroups = self._copying_workgroups(copied)
        yield from self._change_to(item.stream, "kernel")
        yield self.env.timeout(self.node.device.launch.back_to_back_us)
        running = self._launch(item, workgroups, most_units=workgroups, tile_us=0.0, tiles=workgroups)
        yield running.finished
        start = self.env.now
        yield from self._meet(rank, operation.channel)
        yield self.env.timeout(link.smallest_kernel_us)
        if copied:
            yield self.env.timeout(2 * copied / workgroups / link.unit_copy_gb_s * 1e-3)
            yield from self._meet(rank, operation.channel)
        self._retire(running)
        return start

    def _meet(self, rank: int, channel: int) -> Steps:
        """Wait until every rank has come."""
        number = self.passed.get((rank, channel), 0)
        self.passed[rank, channel] = number + 1
        arrived = self.barriers.setdefault((channel, number), [])
        everyone = self.env.event()
        arrived.append(everyone)
        if len(arrived) == self.node.ranks:
            for event in arrived:
                event.succeed()
        yield everyone
        # A flag to every peer, whose acknowledgement comes back: both ways over the link.
        yield self.env.timeout(2 * self.node.link.signal_us)

    # Copies.

    def _copy(self, item: Item, copy: CopyLike) -> Generator[simpy.Event, Any, tuple[float, int]]:
        link, stream = self.node.link, item.stream
        if copy.source_rank == copy.target_rank:
            return (yield from self._local_copy(item, copy))
        engine = copy.engine
        if engine == "blit" and link.blit_workgroups is None:
            raise OverlapError(
                f"{self.node.device.title} copies between GPUs with copy engines only; program {self.program.name!r} "
                "asks for a blit copy",
                hint="give the copy engine 'copy-engine' or 'fetcher'",
            )
        if engine == "copy-engine":
            yield from self._change_to(stream, "engine")
            with self.engines[stream.rank].request() as request:
                yield request
                yield self.env.timeout(link.engine_start_us)
                start = self.env.now
                yield self._transfer(copy, float("inf"))
            return start, 0
        if engine == "fetcher":  # workgroups of a kernel that runs: they have their units
            start = self.env.now
            yield self._transfer(copy, self.node.fetchers * link.unit_gb_s)
            return start, 0
        yield from self._change_to(stream, "kernel")
        yield self.env.timeout(self.node.device.launch.back_to_back_us)
        workgroups = link.blit_workgroups
        assert workgroups is not None
        running = self._launch(item, workgroups, most_units=workgroups, tile_us=0.0, tiles=workgroups)
        yield running.finished
        start = self.env.now
        yield self._transfer(copy, running.units * link.unit_gb_s)
        units = running.units
        self._retire(running)
        return start, units

    def _local_copy(self, item: Item, copy: CopyLike) -> Generator[simpy.Event, Any, tuple[float, int]]:
        """A copy within a GPU is a kernel that is bound by HBM."""
        units = self.node.device.compute.num_cu
        yield from self._change_to(item.stream, "kernel")
        yield self.env.timeout(self.node.device.launch.back_to_back_us)
        workgroups, rate = self._copying_workgroups(copy.size_bytes), self.node.link.unit_copy_gb_s
        us = 2 * copy.size_bytes / workgroups / rate * 1e-3
        running = self._launch(item, workgroups, most_units=units, tile_us=us, tiles=workgroups, tile_gb_s=rate)
        yield running.finished
        return running.started_us or self.env.now, running.peak

    def _copying_workgroups(self, size_bytes: int) -> int:
        """Workgroups of a kernel that copies within the GPU, at most one a compute unit."""
        return max(1, min(self.node.device.compute.num_cu, size_bytes >> 12))

    def _transfer(self, copy: CopyLike, limit_gb_s: float) -> simpy.Event:
        finished = self.env.event()
        self._change()
        self.transfers.append(
            Transfer(
                copy.source_rank, copy.target_rank, copy.engine, copy.size_bytes, limit_gb_s, lambda: _fire(finished)
            )
        )
        return finished

    def _change_to(self, stream: StreamLike, what: str) -> Steps:
        """The stall where a stream changes between a copy engine, kernels and signals.

        Args:
            stream: The stream.
            what: ``engine``, ``kernel`` or ``signal``.
        """
        before = self.ran_last.get((stream.rank, stream.name), what)
        self.ran_last[stream.rank, stream.name] = what
        if before != what and "engine" in (before, what):
            link = self.node.link
            yield self.env.timeout(link.engine_signal_us if "signal" in (before, what) else link.engine_kernel_us)

    # Kernels.

    def _kernel(self, item: Item, kernel: KernelLike) -> Generator[simpy.Event, Any, Running]:
        time = time_of(kernel, self.times)
        launch_us = min(self.node.device.launch.back_to_back_us, time.alone_us / 2)
        yield from self._change_to(item.stream, "kernel")
        yield self.env.timeout(launch_us)
        rank = item.stream.rank
        while time.exclusive and (before := self.exclusive.get(rank)) is not None and not before.processed:
            yield before
            yield self.env.timeout(launch_us + self.node.link.event_us)
        running = self._launch_kernel(item, kernel, time, launch_us)
        if time.exclusive:
            self.exclusive[rank] = running.finished
        yield running.finished
        return running

    def _launch_kernel(self, item: Item, kernel: KernelLike, time: KernelTime, launch_us: float) -> Running:
        units = self.node.device.compute.num_cu
        tiles = len(kernel.tile_waits) or time.tiles or kernel.workgroups
        # Only a kernel that waits for signals must keep its workgroups; others give their units up tile by tile.
        persistent = bool(kernel.tile_waits)
        workgroups = min(kernel.workgroups, tiles) if persistent else tiles
        most = min(units, kernel.compute_units or units)
        rounds = -(-tiles // min(workgroups, most))
        tile_us = (time.alone_us - launch_us) / rounds
        return self._launch(
            item, workgroups, most_units=most, tile_us=tile_us, tiles=tiles, persistent=persistent,
            tile_gb_s=time.hbm_bytes / tiles / tile_us * 1e-3,
            waits=kernel.tile_waits, waits_at_end=bool(getattr(kernel, "waits_at_end", False)),
            signals=tuple(getattr(kernel, "tile_signals", ())), late=tuple(getattr(kernel, "late_workgroups", ())),
        )  # fmt: skip

    def _launch(
        self, item: Item, workgroups: int, *, most_units: int, tile_us: float, tiles: int, tile_gb_s: float = 0.0,
        persistent: bool = False, waits: tuple[int | None, ...] = (), waits_at_end: bool = False,
        signals: tuple[tuple[int, int], ...] = (), late: tuple[tuple[int, int], ...] = (),
    ) -> Running:  # fmt: skip
        rank = item.stream.rank
        self._arrivals += 1
        running = Running(
            item, item.stream.priority, self._arrivals, workgroups, workgroups, most_units, tile_us, tile_gb_s, tiles,
            self.env.event(), [0] * self.node.engines, persistent, waits, waits_at_end, signals, list(late),
        )  # fmt: skip
        if workgroups < self.node.engines:
            others = [other.shares for other in self.launched[rank] if other.shares]
            running.shares = self.units[rank].last(
                workgroups, [sum(shares) for shares in zip(*others, strict=True)] if others else [0] * self.node.engines
            )
        elif persistent:
            running.shares = self.units[rank].shares(min(workgroups, most_units))
        self.launched[rank].append(running)
        self.launched[rank].sort(key=lambda entry: (entry.priority, entry.arrived))
        self._dispatch(rank)
        return running

    def _dispatch(self, rank: int) -> None:
        """Hand free units to launches: urgent ones first, then those that came first."""
        for running in list(self.launched[rank]):
            wanted = min(running.pending, running.most_units - running.units)
            if wanted <= 0:
                continue
            taken = self._take(rank, running, wanted)
            count = sum(taken)
            if not count:
                continue
            running.pending -= count
            running.held = [have + more for have, more in zip(running.held, taken, strict=True)]
            running.peak = max(running.peak, running.units)
            if running.started_us is None:
                running.started_us = self.env.now
                for after, signal in running.signals:
                    if not after:  # to workgroups of its own
                        self.write(rank, signal, 1, latency_us=0.0)
            self._begin(running, count)

    def _take(self, rank: int, running: Running, wanted: int) -> list[int]:
        units = self.units[rank]
        if not running.shares:
            return units.take_any(wanted)
        taken = units.take_shares(wanted, running.shares)
        running.shares = [share - less for share, less in zip(running.shares, taken, strict=True)]
        return taken

    def _begin(self, running: Running, workgroups: int) -> None:
        """Workgroups that have just got a unit take their first tile."""
        if running.tile_us == 0.0:  # the kernel of a copy, signal or barrier: its user ends it
            if not running.pending:
                running.finished.succeed()
        elif running.persistent:
            self._next_tiles(running, workgroups - self._keep_late(running, workgroups))
            self._finish_if_over(running)
        else:
            self._start(running, workgroups)

    def _finish_if_over(self, running: Running) -> None:
        """End a kernel whose workgroups have all had their turn: those without a tile count too."""
        if running.done_tiles == running.tiles and not running.pending and not running.joining:
            self._retire(running)
            running.finished.succeed()

    def _keep_late(self, running: Running, workgroups: int) -> int:
        """How many workgroups that have just got a unit take no tile before a signal; the late ones are the first."""
        kept = 0
        while running.late and kept < workgroups:
            signal, count = running.late.pop(0)
            now = min(count, workgroups - kept)
            if now < count:
                running.late.insert(0, (signal, count - now))
            if not self._reached(running, signal):
                running.joining[signal] = running.joining.get(signal, 0) + now
                kept += now
            else:
                workgroups -= now
        return kept

    def _start(self, running: Running, count: int, signal: int | None = None) -> None:
        """Compute tiles, which then wait for the signal if one is given."""
        rank = running.item.stream.rank
        entry = Tiles(
            running.arrived,
            rank,
            count,
            running.tile_us,
            count * running.tile_gb_s,
            lambda: self._computed(running, count, signal),
        )
        self._change()
        self.tiles.append(entry)

    def _computed(self, running: Running, count: int, signal: int | None) -> None:
        if signal is None or self._reached(running, signal):
            self._end_tiles(running, count)
        else:
            running.waiting.setdefault(signal, []).extend([self.env.now] * count)

    def _reached(self, running: Running, signal: int) -> bool:
        return self.signals[running.item.stream.rank].get(signal, 0) >= 1

    def _end_tiles(self, running: Running, count: int) -> None:
        rank = running.item.stream.rank
        before, running.done_tiles = running.done_tiles, running.done_tiles + count
        for after, signal in running.signals:
            if before < after <= running.done_tiles:
                self.write(rank, signal, 1)
        if running.persistent:
            self._next_tiles(running, count)
        else:
            self._release(running, count)
        self._finish_if_over(running)
        self._dispatch(rank)

    def _next_tiles(self, running: Running, workgroups: int) -> None:
        """Each of the workgroups takes a tile: it starts, waits for a signal, or there is none left."""
        ready: dict[int | None, int] = {}  # by the signal that they wait for at their end
        for _ in range(min(workgroups, running.tiles - running.next_tile)):
            signal = running.waits[running.next_tile]
            running.next_tile += 1
            if signal is None or running.waits_at_end or self._reached(running, signal):
                last = signal if running.waits_at_end else None
                ready[last] = ready.get(last, 0) + 1
            else:
                running.waiting.setdefault(signal, []).append(self.env.now)
            workgroups -= 1
        for last, count in ready.items():
            self._start(running, count, last)
        if workgroups:
            self._release(running, workgroups)

    def _wake(self, running: Running, signal: int) -> None:
        since = running.waiting.pop(signal)
        timeout = self.env.timeout(self.node.link.signal_us)

        def begin(_: simpy.Event) -> None:
            running.spun_us += sum(self.env.now - moment for moment in since)
            if running.waits_at_end:
                self._end_tiles(running, len(since))
            else:
                self._start(running, len(since))

        assert timeout.callbacks is not None
        timeout.callbacks.append(begin)

    def _release(self, running: Running, count: int) -> None:
        """Give back ``count`` units of a launch, of each engine in proportion to what it holds there."""
        total = running.units
        given = [have * count // total if total else 0 for have in running.held]
        left = count - sum(given)
        for index, have in enumerate(running.held):
            more = min(left, have - given[index])
            given[index] += more
            left -= more
        running.held = [have - less for have, less in zip(running.held, given, strict=True)]
        if running.shares and sum(running.shares) < running.pending:  # a grid beyond the units that it may hold
            running.shares = [have + more for have, more in zip(running.shares, given, strict=True)]
        self.units[running.item.stream.rank].give(given)

    def _retire(self, running: Running) -> None:
        rank = running.item.stream.rank
        self._release(running, running.units)
        self.launched[rank].remove(running)
        self._dispatch(rank)

    # Progress.

    def _change(self) -> None:
        """Something joins or leaves: rates are set anew once all that happens at this moment has happened."""
        self._advance()
        if not self._dirty:
            self._dirty = True
            self._later(0.0, self._set)

    def _later(self, delay_us: float, then: Callable[[], None]) -> None:
        timeout = self.env.timeout(delay_us)
        assert timeout.callbacks is not None
        timeout.callbacks.append(lambda _: then())

    def _set(self) -> None:
        self._dirty = False
        set_rates(self.tiles, self.transfers, self.node)
        ends = [entry.left_us / entry.speed for entry in self.tiles]
        ends += [entry.left_bytes / entry.gb_s * 1e-3 for entry in self.transfers]
        if not ends:
            return
        self._version += 1
        version = self._version
        self._later(max(0.0, min(ends)), lambda: self._expire(version))

    def _advance(self) -> None:
        passed = self.env.now - self._updated_us
        self._updated_us = self.env.now
        for entry in self.tiles:
            entry.left_us -= passed * entry.speed
        for transfer in self.transfers:
            transfer.left_bytes -= passed * transfer.gb_s * 1e3

    def _expire(self, version: int) -> None:
        if version != self._version or self._dirty:
            return
        self._advance()
        ended = [entry for entry in self.tiles if entry.left_us <= _DUST_US]
        arrived = [entry for entry in self.transfers if entry.left_bytes <= _DUST_US * 1e3 * entry.gb_s]
        self.tiles = [entry for entry in self.tiles if entry.left_us > _DUST_US]
        self.transfers = [entry for entry in self.transfers if entry not in arrived]
        for entry in ended:
            entry.done()
        for transfer in arrived:
            transfer.done()
        self._change()


def _fire(event: simpy.Event) -> None:
    event.succeed()


def simulate(program: ProgramLike, node: Node, times: KernelTimes) -> Outcome:
    """Run a program on a node.

    Args:
        program: Streams of all ranks.
        node: The GPUs.
        times: Times of its kernels alone on the GPU.

    Returns:
        Spans of all operations; with a deadlock, those that ended before it, and who waits for whom.

    Raises:
        OverlapError: if the program does not fit the node, names what does not exist, or has a kernel without a time.
    """
    return Simulation(program, node, times).run()
