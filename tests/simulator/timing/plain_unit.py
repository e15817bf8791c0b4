"""The event loop of the compute unit once more, in plain Python: slow and easy to check."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavecast.simulator.timing.compute_unit.layout import (
    LGKM_LIMIT,
    PARTS,
    TURNS,
    TURNS_UNIT,
    UNKNOWN,
    VECTOR_LIMIT,
    Action,
    Cost,
    Part,
    Pipe,
    Server,
    Size,
    Spent,
)


@dataclass
class Wave:
    """A wave on its way through its stream."""

    group: int
    slot: int
    order: int
    simd: int
    code: list[int]
    missing: list[int]
    ready: int
    place: int = 0
    at_barrier: bool = False
    ended: bool = False
    # Of each counter: (tick of completion, instruction, what held it up) in the order of issue.
    outstanding: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = field(default_factory=lambda: ([], []))

    def add(self, counter: int, complete: int, index: int, why: int) -> None:
        queue = self.outstanding[counter]
        if queue and queue[-1][0] > complete:
            complete, index, why = queue[-1]
        queue.append((complete, index, why))


class PlainUnit:
    """The same arguments as the compiled loop, and the same results."""

    def __init__(
        self,
        code: np.ndarray,
        missing: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
        costs: np.ndarray,
        sizes: np.ndarray,
    ) -> None:
        self.streams = [
            (code[begin:end].tolist(), missing[begin:end].tolist()) for begin, end in zip(first, last, strict=True)
        ]
        self.costs = [{column: int(row[column]) for column in Cost} for row in costs]
        self.sizes = {size: int(sizes[size]) for size in Size}
        self.spent = np.zeros((len(costs), len(Spent)), dtype=np.int64)
        self.parts = np.zeros(PARTS, dtype=np.int64)
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.waves: list[Wave] = []
        self.pipes: dict[tuple[int, Pipe], int] = {}
        self.server_free = dict.fromkeys(Server, 0)
        self.server_turns = dict.fromkeys(Server, 0)
        self.unit_free = {Cost.ADDRESS: 0, Cost.LDS: 0, Cost.FILL: 0}
        self.draws = [0] * len(costs)
        self.misses = [0] * len(costs)
        self.answered = (0, 0, int(Part.LATENCY))
        self.in_flight = [0] * self.sizes[Size.LINES]
        self.noise = 2463534242
        self.next_start = self.started = self.finish = 0

    def run(self) -> int:
        for slot in range(min(self.sizes[Size.SLOTS], self.sizes[Size.WORKGROUPS])):
            self.start(slot)
        while True:
            able = [wave for wave in self.waves if not wave.ended and not wave.at_barrier]
            if not able:
                break
            self.step(min(able, key=lambda wave: (wave.ready, wave.order)))
        shared = [self.server_free[server] for server in Server if server is not Server.LAUNCH]
        return max(self.finish, *shared, self.unit_free[Cost.FILL])

    def serve(self, server: Server, tick: int, cost: int) -> int:
        begins = max(tick, self.server_free[server])
        turn = int(TURNS[self.server_turns[server] % len(TURNS)])
        self.server_free[server] = begins + cost * turn // TURNS_UNIT
        self.server_turns[server] += 1
        return begins

    def start(self, slot: int) -> None:
        group, tick = len(self.starts), self.next_start
        self.starts[group] = tick
        for number in range(self.sizes[Size.WAVES]):
            load = [0] * self.sizes[Size.SIMDS]
            for wave in self.waves:
                load[wave.simd] += not wave.ended
            stream = self.streams[group % self.sizes[Size.POOL] * self.sizes[Size.WAVES] + number]
            ready = tick + self.sizes[Size.START]
            self.waves.append(Wave(group, slot, self.started, load.index(min(load)), *stream, ready))
            self.parts[Part.START] += self.sizes[Size.START]
            self.started += 1
        self.serve(Server.LAUNCH, tick, self.sizes[Size.INTERVAL])
        self.next_start = self.server_free[Server.LAUNCH]

    def step(self, wave: Wave) -> None:
        index = wave.code[wave.place]
        cost = self.costs[index]
        self.spent[index, Spent.EXECUTED] += 1
        wave.place += 1
        time = self.wait(wave, index)
        asked = time
        unit = Part.ISSUE
        action, pipe = Action(cost[Cost.ACTION]), Pipe(cost[Cost.PIPE])
        if pipe is not Pipe.NONE:
            wanted = (pipe, Pipe.VECTOR) if pipe is Pipe.MATRIX else (pipe,)
            time = max(time, *(self.pipes.get((wave.simd, name), 0) for name in wanted))
            if pipe is Pipe.MATRIX:
                self.pipes[wave.simd, Pipe.VECTOR] = time + cost[Cost.ISSUE]
            self.pipes[wave.simd, pipe] = time + cost[Cost.BUSY]
        if action is Action.VECTOR_MEMORY:
            unit = Part.L1
            time = max(time, self.unit_free[Cost.ADDRESS])
            self.access(wave, index, time)
        elif action is Action.LDS:
            unit = Part.LDS
            time = max(time, self.unit_free[Cost.LDS])
            self.unit_free[Cost.LDS] = time + cost[Cost.LDS]
            why = Part.LATENCY if cost[Cost.LATENCY_L1] >= cost[Cost.LDS] else Part.LDS
            wave.add(1, self.unit_free[Cost.LDS] + cost[Cost.LATENCY_L1], index, why)
        elif action is Action.SCALAR_MEMORY:
            again = index in wave.code[: wave.place - 1]
            wave.add(1, time + cost[Cost.LATER_LATENCY if again else Cost.LATENCY_L1], index, Part.LATENCY)
        self.spent[index, Spent.STALL] += time - asked
        self.parts[unit] += time - asked
        is_last = wave.place == len(wave.code)
        step = cost[Cost.ISSUE]
        if not is_last and wave.code[wave.place] != index + 1:
            step += cost[Cost.JUMP]
        self.spent[index, Spent.ISSUE] += step
        self.parts[Part.ISSUE] += step
        wave.ready = time + step
        if action is Action.END or is_last:
            wave.ended = True
        elif action is Action.BARRIER:
            wave.at_barrier = True
        else:
            return
        self.meet(wave)

    def wait(self, wave: Wave, index: int) -> int:
        cost = self.costs[index]
        action = Action(cost[Cost.ACTION])
        until, by, why = wave.ready, index, int(Part.LATENCY)
        for counter, (left_column, counted, limit) in enumerate(
            (
                (Cost.VECTOR_LEFT, Cost.COUNTS_VECTOR, VECTOR_LIMIT),
                (Cost.LGKM_LEFT, Cost.COUNTS_LGKM, LGKM_LIMIT),
            )
        ):
            is_memory = action in (Action.VECTOR_MEMORY, Action.LDS, Action.SCALAR_MEMORY)
            if action is Action.WAIT:
                left = cost[left_column]
            elif is_memory and cost[counted]:
                left = limit - 1
            else:
                continue
            queue = wave.outstanding[counter]
            awaited = queue[: len(queue) - left] if left < len(queue) else []
            if awaited and awaited[-1][0] > until:
                until, by, why = awaited[-1]
        waited = until - wave.ready
        self.spent[index, Spent.WAIT] += waited
        self.spent[by, Spent.CAUSED] += waited
        self.parts[why] += waited
        return until

    def access(self, wave: Wave, index: int, time: int) -> None:
        cost = self.costs[index]
        addressed = self.unit_free[Cost.ADDRESS] = time + cost[Cost.ADDRESS]
        level = 0
        known = wave.missing[wave.place - 1]
        beyond = cost[Cost.BEYOND_L1] if known == UNKNOWN else known
        if beyond:
            level = int(self.draws[index] * 0x9E3779B1 % 2**32 < beyond)
            self.draws[index] += 1
        if level:
            draw = self.misses[index] * 0x9E3779B1 % 2**32
            self.misses[index] += 1
            level += sum(draw < cost[share] for share in (Cost.BEYOND_L2, Cost.BEYOND_MALL))
        need = min(cost[Cost.LINES], len(self.in_flight)) if level else 0
        sent = filled = addressed
        if need:
            sent = max(sent, self.in_flight[need - 1])
        if level and cost[Cost.FILL]:
            sent = max(sent, self.unit_free[Cost.FILL])
            filled = self.unit_free[Cost.FILL] = sent + cost[Cost.FILL]
        delays = [(max(sent, filled) - addressed, Part.L1)]
        for server, part, column in (
            (Server.L2, Part.L2, Cost.L2),
            (Server.MEMORY, Part.MEMORY, Cost.MEMORY),
            (Server.ATOMICS, Part.ATOMICS, Cost.ATOMICS),
            (Server.FENCES, Part.FENCES, Cost.FENCES),
        ):
            posted = server is Server.MEMORY and cost[Cost.POSTED]
            is_reached = {Server.L2: level >= 1, Server.MEMORY: level >= 2 or posted}.get(server, True)
            if not cost[column] or not is_reached:
                continue
            begins = self.serve(server, sent, cost[column])
            if not posted:
                delays.append((begins - sent, part))
                sent = begins
        latency = cost[Cost(Cost.LATENCY_L1 + level)]
        self.noise ^= self.noise << 13 & 0xFFFFFFFF
        self.noise ^= self.noise >> 17
        self.noise ^= self.noise << 5 & 0xFFFFFFFF
        late = latency * self.sizes[Size.SPREAD] * (2 * (self.noise % 1024) - 1023) // (1023 * 1024)
        longest = max(delay for delay, _ in delays)
        why = next(part for delay, part in delays if delay == longest)
        if latency + late >= longest:
            why = Part.LATENCY
        if cost[Cost.LDS]:
            self.unit_free[Cost.LDS] = max(addressed, self.unit_free[Cost.LDS]) + cost[Cost.LDS]
        complete = max(sent, filled) + latency
        self.in_flight = [*self.in_flight[need:], *[complete + late] * need]
        by = index
        if cost[Cost.ORDERED]:
            self.answered = max((complete, by, int(why)), self.answered, key=lambda answer: answer[0])
            complete, by, why = self.answered
        complete += late
        self.finish = max(self.finish, complete)
        for counter, column in enumerate((Cost.COUNTS_VECTOR, Cost.COUNTS_LGKM)):
            if cost[column]:
                wave.add(counter, complete, by, why)

    def meet(self, wave: Wave) -> None:
        """After a wave has come to a barrier or its end."""
        group = [other for other in self.waves if other.group == wave.group]
        living = [other for other in group if not other.ended]
        if not living:
            self.ends[wave.group] = wave.ready
            self.finish = max(self.finish, wave.ready)
            if len(self.starts) < self.sizes[Size.WORKGROUPS]:
                self.next_start = max(self.next_start, wave.ready)
                self.start(wave.slot)
        elif all(other.at_barrier for other in living):
            opens = max(wave.ready, *(other.ready for other in living))
            for other in living:
                self.spent[other.code[other.place - 1], Spent.WAIT] += opens - other.ready
                self.parts[Part.BARRIER] += opens - other.ready
                other.ready, other.at_barrier = opens, False
