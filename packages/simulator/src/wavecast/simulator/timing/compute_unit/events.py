"""The compiled loop over the waves of a compute unit.

The wave that is ready first goes on, the one that started first if several are. It takes its place on the pipe or unit
of its next instruction, behind those that asked earlier, and is ready again when it can issue the next one. Memory
instructions complete in order; where each of them was held up longest is remembered, and a wave that waits for it
charges its time to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavecast.simulator.compiled import compiled
from wavecast.simulator.timing.compute_unit.layout import (
    BEHIND,
    LGKM_LIMIT,
    PIPES,
    RING,
    SERVERS,
    SIMDS_OF_PORT,
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

# Order among waves that are ready in the same tick: bits of their start number.
_ORDER_BITS = 20
_NEVER = np.int64(1 << 62)
_READY, _AT_BARRIER, _ENDED = 0, 1, 2
_MULTIPLIER = 0x9E3779B1
_MASK = 0xFFFFFFFF
_SEED = 2463534242
# Numba keeps members of an enumeration apart from integers where a variable takes both.
_LATENCY, _ISSUE, _L1, _L2, _MEMORY, _ATOMICS, _FENCES, _LDS = (
    np.int64(part)
    for part in (Part.LATENCY, Part.ISSUE, Part.L1, Part.L2, Part.MEMORY, Part.ATOMICS, Part.FENCES, Part.LDS)
)


@compiled
def simulate(
    code: np.ndarray,
    again: np.ndarray,
    missing: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    costs: np.ndarray,
    sizes: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    spent: np.ndarray,
    parts: np.ndarray,
) -> Any:
    """Run workgroups on one compute unit.

    Args:
        code: int32, static instructions of the streams, one after another.
        again: bool, whether the wave has executed the instruction before.
        missing: int64, share of 2**32 in which it gets past L1, or ``UNKNOWN``.
        first: int64 (pool * waves,), where the stream of each wave begins in ``code``.
        last: int64 (pool * waves,), one beyond where it ends.
        costs: int64 (instructions, COSTS).
        sizes: int64, one entry a ``Size``.
        starts: int64 (workgroups,), filled with ticks.
        ends: int64 (workgroups,), filled with ticks.
        spent: int64 (instructions, Spent), added to.
        parts: int64 (PARTS,), ticks of all waves, added to.

    Returns:
        Tick at which everything is done, what is still on its way included.
    """
    slots, width, total = sizes[Size.SLOTS], sizes[Size.WAVES], sizes[Size.WORKGROUPS]
    simds, in_flight = sizes[Size.SIMDS], sizes[Size.LINES]
    count = slots * width
    pc = np.zeros(count, np.int64)
    stop = np.zeros(count, np.int64)
    heap = np.zeros(count, np.int64)
    waves = np.zeros(count, np.int64)
    ready = np.zeros(1, np.int64)
    order = np.zeros(count, np.int64)
    status = np.full(count, _ENDED, np.int64)
    simd = np.zeros(count, np.int64)
    issued = np.zeros((count, 2), np.int64)
    done = np.zeros((count, 2, RING), np.int64)
    owner = np.zeros((count, 2, RING), np.int64)
    cause = np.zeros((count, 2, RING), np.int64)
    arrived = np.zeros(count, np.int64)
    group = np.zeros(slots, np.int64)
    living = np.zeros(simds, np.int64)
    pipes = np.zeros((simds, PIPES), np.int64)
    ports = np.zeros(simds, np.int64)
    draws = np.zeros(len(costs), np.int64)
    lines = np.zeros(in_flight, np.int64)
    limits = (VECTOR_LIMIT, LGKM_LIMIT)
    free = np.zeros(SERVERS, np.int64)
    turns = np.zeros(SERVERS, np.int64)
    misses = np.zeros(len(costs), np.int64)
    address_free, lds_free, fill_free = 0, 0, 0
    answered, answered_by, answered_why = np.int64(0), np.int64(0), _LATENCY
    head, next_group, next_start, finish, sequence = 0, 0, 0, 0, 0
    noise = np.int64(_SEED)

    for slot in range(slots):
        if next_group < total:
            sequence = _start(
                slot, next_group, next_start, sizes, first, last, pc, stop, heap, waves, ready, order, status,
                simd, living, issued, sequence, parts,
            )  # fmt: skip
            group[slot] = next_group
            starts[next_group] = next_start
            next_group += 1
            _serve(free, turns, Server.LAUNCH, next_start, sizes[Size.INTERVAL])
            next_start = free[Server.LAUNCH]
    while ready[0]:
        wave, soonest = waves[0], heap[0]
        # The wave goes on at once while no other is ready earlier.
        second = _NEVER
        for child in range(1, min(3, ready[0])):
            second = min(second, heap[child])
        while True:
            now = soonest >> _ORDER_BITS
            index = code[pc[wave]]
            cost = costs[index]
            action, pipe = cost[Cost.ACTION], cost[Cost.PIPE]
            pc[wave] += 1
            time = now
            spent[index, Spent.EXECUTED] += 1
            if action == Action.WAIT or action >= Action.VECTOR_MEMORY:
                # Of the counters that hold the wave, the one that lets it go last decides.
                until, by, why = now, np.int64(index), _LATENCY
                for counter in range(2):
                    if action == Action.WAIT:
                        left = cost[Cost.VECTOR_LEFT + counter]
                    elif cost[Cost.COUNTS_VECTOR + counter]:
                        left = limits[counter] - 1
                    else:
                        continue
                    position = issued[wave, counter] - left - 1
                    if position >= 0 and done[wave, counter, position % RING] > until:
                        until = done[wave, counter, position % RING]
                        by = owner[wave, counter, position % RING]
                        why = cause[wave, counter, position % RING]
                if until > now:
                    spent[index, Spent.WAIT] += until - now
                    spent[by, Spent.CAUSED] += until - now
                    parts[why] += until - now
                    time = until
            asked = time
            unit = _ISSUE
            if pipe != Pipe.NONE:
                busy = pipes[simd[wave]]
                time = max(time, busy[pipe])
                if pipe == Pipe.MATRIX:
                    # It issues through the vector port, and other vector instructions go on beside it.
                    time = max(time, busy[Pipe.VECTOR])
                    busy[Pipe.VECTOR] = time + cost[Cost.ISSUE]
                if cost[Cost.BEHIND]:
                    for number in range(len(BEHIND)):
                        if cost[Cost.ALU + number]:
                            time = max(time, busy[Pipe.ALU + number])
                            busy[Pipe.ALU + number] = time + cost[Cost.ALU + number]
                busy[pipe] = time + cost[Cost.BUSY]
            if action == Action.VECTOR_MEMORY:
                unit = _L1
                time = max(time, address_free)
                addressed = time + cost[Cost.ADDRESS]
                address_free = addressed
                level = 0
                beyond = missing[pc[wave] - 1]
                if beyond == UNKNOWN:
                    beyond = cost[Cost.BEYOND_L1]
                if beyond:
                    level += (draws[index] * _MULTIPLIER) & _MASK < beyond
                    draws[index] += 1
                if level:
                    draw = (misses[index] * _MULTIPLIER) & _MASK
                    misses[index] += 1
                    level += draw < cost[Cost.BEYOND_L2]
                    level += draw < cost[Cost.BEYOND_MALL]
                held, why = np.int64(0), _LATENCY
                sent, filled = addressed, addressed
                need = min(cost[Cost.LINES], in_flight) if level else 0
                if need:
                    sent = max(sent, lines[(head + need - 1) % in_flight])
                if level and cost[Cost.FILL]:
                    sent = max(sent, fill_free)
                    fill_free = sent + cost[Cost.FILL]
                    filled = fill_free
                if max(sent, filled) - addressed > held:
                    held, why = max(sent, filled) - addressed, _L1
                if level and cost[Cost.L2]:
                    passed = _serve(free, turns, Server.L2, sent, cost[Cost.L2])
                    if passed - sent > held:
                        held, why = passed - sent, _L2
                    sent = passed
                if (level >= 2 or cost[Cost.POSTED]) and cost[Cost.MEMORY]:
                    passed = _serve(free, turns, Server.MEMORY, sent, cost[Cost.MEMORY])
                    if not cost[Cost.POSTED]:
                        if passed - sent > held:
                            held, why = passed - sent, _MEMORY
                        sent = passed
                if cost[Cost.ATOMICS]:
                    passed = _serve(free, turns, Server.ATOMICS, sent, cost[Cost.ATOMICS])
                    if passed - sent > held:
                        held, why = passed - sent, _ATOMICS
                    sent = passed
                if cost[Cost.FENCES]:
                    passed = _serve(free, turns, Server.FENCES, sent, cost[Cost.FENCES])
                    if passed - sent > held:
                        held, why = passed - sent, _FENCES
                    sent = passed
                latency = cost[Cost.LATENCY_L1 + level]
                noise = _next(noise)
                late = latency * sizes[Size.SPREAD] * (2 * (noise & 1023) - 1023) // (1023 * 1024)
                if latency + late >= held:
                    why = _LATENCY
                if cost[Cost.LDS]:
                    lds_free = max(addressed, lds_free) + cost[Cost.LDS]
                complete = max(sent, filled) + latency
                for line in range(need):
                    lines[(head + line) % in_flight] = complete + late
                head += need
                by = np.int64(index)
                if cost[Cost.ORDERED]:
                    if answered > complete:
                        complete, by, why = answered, answered_by, answered_why
                    answered, answered_by, answered_why = complete, by, why
                complete += late
                finish = max(finish, complete)
                for counter in range(2):
                    if cost[Cost.COUNTS_VECTOR + counter]:
                        _count(issued, done, owner, cause, wave, counter, complete, by, why)
            elif action == Action.LDS:
                unit = _LDS
                port = simd[wave] // SIMDS_OF_PORT
                # Where no ports are known, the banks are all there is.
                time = max(time, ports[port] if cost[Cost.LDS_PORT] else lds_free)
                lds_free = max(time, lds_free) + cost[Cost.LDS]
                ports[port] = max(time + cost[Cost.LDS_PORT], lds_free)
                answers = ports[port] + cost[Cost.LATENCY_L1]
                why = _LATENCY if 2 * cost[Cost.LATENCY_L1] >= answers - time else _LDS
                _count(issued, done, owner, cause, wave, 1, answers, np.int64(index), why)
            elif action == Action.SCALAR_MEMORY:
                latency = cost[Cost.LATENCY_L1]
                if again[pc[wave] - 1]:
                    latency = cost[Cost.LATER_LATENCY]
                _count(issued, done, owner, cause, wave, 1, time + latency, np.int64(index), _LATENCY)
            spent[index, Spent.STALL] += time - asked
            parts[unit] += time - asked
            step = cost[Cost.ISSUE]
            if cost[Cost.JUMP] and pc[wave] < stop[wave] and code[pc[wave]] != index + 1:
                step += cost[Cost.JUMP]
            spent[index, Spent.ISSUE] += step
            parts[Part.ISSUE] += step
            time += step
            if action != Action.BARRIER and action != Action.END and pc[wave] < stop[wave]:
                soonest = (time << _ORDER_BITS) + order[wave]
                if soonest < second:
                    continue
                _sink(heap, waves, ready, soonest, wave)
                break
            slot = wave // width
            _remove_first(heap, waves, ready)
            if action == Action.BARRIER and pc[wave] < stop[wave]:
                status[wave] = _AT_BARRIER
                arrived[wave] = time
            else:
                status[wave] = _ENDED
                living[simd[wave]] -= 1
                arrived[wave] = time
            # When all waves of a workgroup that live stand at the barrier, it opens; when none lives, the next starts.
            running, waiting, latest = 0, 0, np.int64(0)
            for other in range(slot * width, (slot + 1) * width):
                running += status[other] == _READY
                waiting += status[other] == _AT_BARRIER
                latest = max(latest, arrived[other]) if status[other] == _AT_BARRIER else latest
            if running == 0 and waiting:
                latest = max(latest, time)
                for other in range(slot * width, (slot + 1) * width):
                    if status[other] == _AT_BARRIER:
                        status[other] = _READY
                        _add(heap, waves, ready, (latest << _ORDER_BITS) + order[other], other)
                        stood = latest - arrived[other]
                        spent[code[pc[other] - 1], Spent.WAIT] += stood
                        parts[Part.BARRIER] += stood
            elif running == 0:
                ends[group[slot]] = time
                finish = max(finish, time)
                if next_group < total:
                    next_start = max(next_start, time)
                    sequence = _start(
                        slot, next_group, next_start, sizes, first, last, pc, stop, heap, waves, ready, order,
                        status, simd, living, issued, sequence, parts,
                    )  # fmt: skip
                    group[slot] = next_group
                    starts[next_group] = next_start
                    next_group += 1
                    _serve(free, turns, Server.LAUNCH, next_start, sizes[Size.INTERVAL])
                    next_start = free[Server.LAUNCH]
            break
    for server in (Server.L2, Server.MEMORY, Server.ATOMICS, Server.FENCES):
        finish = max(finish, free[server])
    return max(finish, fill_free)


@compiled
def _serve(free: np.ndarray, turns: np.ndarray, server: Any, tick: Any, cost: Any) -> Any:
    """Take a shared server for ``cost`` ticks on average; returns when it begins: when those before are done."""
    begins = max(tick, free[server])
    free[server] = begins + cost * TURNS[turns[server] % len(TURNS)] // TURNS_UNIT
    turns[server] += 1
    return begins


@compiled
def _next(noise: Any) -> Any:
    """The next of a sequence of 32-bit numbers without a pattern (Marsaglia's xorshift)."""
    noise ^= (noise << 13) & _MASK
    noise ^= noise >> 17
    return noise ^ (noise << 5) & _MASK


@compiled
def _sink(heap: np.ndarray, waves: np.ndarray, ready: np.ndarray, key: Any, wave: Any) -> Any:
    """Replace the first entry of the heap of waves that are ready, and restore its order."""
    count = ready[0]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[place], waves[place] = heap[child], waves[child]
        place = child
    heap[place], waves[place] = key, wave


@compiled
def _remove_first(heap: np.ndarray, waves: np.ndarray, ready: np.ndarray) -> Any:
    ready[0] -= 1
    if ready[0]:
        _sink(heap, waves, ready, heap[ready[0]], waves[ready[0]])


@compiled
def _add(heap: np.ndarray, waves: np.ndarray, ready: np.ndarray, key: Any, wave: Any) -> Any:
    place = ready[0]
    ready[0] += 1
    while place and heap[(place - 1) // 2] > key:
        above = (place - 1) // 2
        heap[place], waves[place] = heap[above], waves[above]
        place = above
    heap[place], waves[place] = key, wave


@compiled
def _start(
    slot: Any, number: Any, tick: Any, sizes: np.ndarray, first: np.ndarray, last: np.ndarray, pc: np.ndarray,
    stop: np.ndarray, heap: np.ndarray, waves: np.ndarray, ready: np.ndarray, order: np.ndarray,
    status: np.ndarray, simd: np.ndarray, living: np.ndarray, issued: np.ndarray, sequence: Any, parts: np.ndarray,
) -> Any:  # fmt: skip
    """Start the waves of a workgroup, each on the SIMD with the fewest; returns the next start number."""
    width = sizes[Size.WAVES]
    for number_in_group in range(width):
        wave = slot * width + number_in_group
        stream = number % sizes[Size.POOL] * width + number_in_group
        emptiest = 0
        for candidate in range(len(living)):
            if living[candidate] < living[emptiest]:
                emptiest = candidate
        living[emptiest] += 1
        simd[wave], status[wave], order[wave] = emptiest, _READY, sequence
        pc[wave] = first[stream]
        stop[wave] = last[stream]
        issued[wave] = 0
        _add(heap, waves, ready, ((tick + sizes[Size.START]) << _ORDER_BITS) + sequence, wave)
        parts[Part.START] += sizes[Size.START]
        sequence += 1
    return sequence


@compiled
def _count(
    issued: np.ndarray, done: np.ndarray, owner: np.ndarray, cause: np.ndarray, wave: Any, counter: Any,
    complete: Any, index: Any, why: Any,
) -> Any:  # fmt: skip
    """Add an outstanding instruction to a counter; it completes no earlier than those before it."""
    place = issued[wave, counter] % RING
    if issued[wave, counter]:
        before = (issued[wave, counter] - 1) % RING
        if done[wave, counter, before] > complete:
            complete, index, why = (
                done[wave, counter, before],
                owner[wave, counter, before],
                cause[wave, counter, before],
            )
    done[wave, counter, place], owner[wave, counter, place], cause[wave, counter, place] = complete, index, why
    issued[wave, counter] += 1
