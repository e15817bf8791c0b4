"""Behind which accesses of other waves a wave is in order: releases and acquires followed back from what it observed.

A wave that sees what another wrote to a flag is ordered behind all that the other did before its release: accesses up
to its last write-back that was waited for (``buffer_wbl2``, ``s_waitcnt vmcnt(0)``), and those of its workgroup before
the barrier before that. It may use them after an invalidation (``buffer_inv``) that follows the observation. An atomic
hands on what it observed itself, as a release sequence does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavecast.simulator.checks.cells import STEP_BITS, WAVE_BITS
from wavecast.simulator.checks.scan import Lack
from wavecast.simulator.checks.tables import Scope

_Rows = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Order:
    """What is known of a wave's order; each maps a wave of the launch to the time up to which it holds.

    Attributes:
        ordered: In order before what the wave does now.
        observed: Would be, were no fence missing.
        lacking: What is missing where the two differ.
    """

    ordered: dict[int, int]
    observed: dict[int, int]
    lacking: dict[int, Lack]


def order_of(
    thread: int, epoch: int, waves: int, edges: np.ndarray, fences: np.ndarray, invalidations: np.ndarray
) -> Order:
    """The order of one wave.

    Args:
        thread: The wave, as cells name it.
        epoch: Barriers that its workgroup has passed.
        waves: Waves of a workgroup.
        edges: int64 (observations, Edge.SIZE).
        fences: int64 (write-backs and waits, Fence.SIZE).
        invalidations: int64 (invalidations, Fence.SIZE).
    """
    walk = _Walk(waves, _by_thread(edges), _by_thread(fences), _by_thread(invalidations))
    walk.visit(thread, ((epoch + 1) << STEP_BITS) - 1, lack=Lack.NOTHING)
    return Order(walk.ordered, walk.observed, walk.lacking)


def _by_thread(rows: np.ndarray) -> dict[int, _Rows]:
    result: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for row in rows.tolist():
        result[row[0]].append(tuple(row[1:]))
    return dict(result)


class _Walk:
    """Goes back along observations, each (wave, time, what is missing so far) once."""

    def __init__(
        self, waves: int, edges: dict[int, _Rows], fences: dict[int, _Rows], invalidations: dict[int, _Rows]
    ) -> None:
        self._waves, self._edges, self._fences, self._invalidations = waves, edges, fences, invalidations
        self._seen: set[tuple[int, int, Lack]] = set()
        self.ordered: dict[int, int] = {}
        self.observed: dict[int, int] = {}
        self.lacking: dict[int, Lack] = {}

    def visit(self, thread: int, until: int, *, lack: Lack) -> None:
        """Follow what a wave, and by barriers its workgroup, had observed up to a time."""
        waiting = [(thread, until, lack)]
        while waiting:
            state = waiting.pop()
            if state in self._seen:
                continue
            self._seen.add(state)
            waiting += self._behind(*state)

    def _behind(self, thread: int, until: int, lack: Lack) -> list[tuple[int, int, Lack]]:
        """Note what the observations of a wave up to a time bring, and return where they lead."""
        leads: list[tuple[int, int, Lack]] = []
        first = thread >> WAVE_BITS << WAVE_BITS
        before = until >> STEP_BITS << STEP_BITS
        for mate in range(first, first + self._waves):
            limit = until if mate == thread else before - 1
            for time, source, source_time, _ in self._edges.get(mate, ()):
                if time > limit:
                    continue
                acquired = self._acquired(mate, thread, time, limit, until)
                covered, released, release_scope = self._released(source, source_time)
                missing = self._missing(acquired, released, release_scope) if lack is Lack.NOTHING else lack
                self._note(self.observed, source, source_time)
                if missing is Lack.NOTHING:
                    self._note(self.ordered, source, covered)
                # What lies between the write-back and the flag was not written back.
                after = missing if missing is not Lack.NOTHING else Lack.WRITE_BACK
                for wave in self._group(source):
                    self.lacking.setdefault(wave, after)
                leads.append((source, source_time if missing is not Lack.NOTHING else covered, missing))
                # The observation that the same atomic made: part of its release sequence, acquired with it.
                leads += [
                    (other, other_time, missing)
                    for at, other, other_time, _ in self._edges.get(source, ())
                    if at == source_time
                ]
                self._sequence(source, source_time, missing)
        return leads

    def _sequence(self, thread: int, time: int, missing: Lack) -> None:
        """Take over what the atomic at a time had observed, as if seen directly."""
        pending, seen = [(thread, time)], set()
        while pending:
            state = pending.pop()
            if state in seen:
                continue
            seen.add(state)
            for at, source, source_time, _ in self._edges.get(state[0], ()):
                if at != state[1]:
                    continue
                covered, released, _ = self._released(source, source_time)
                lack = missing if missing is not Lack.NOTHING else released
                self._note(self.observed, source, source_time)
                if lack is Lack.NOTHING:
                    self._note(self.ordered, source, covered)
                for wave in self._group(source):
                    self.lacking.setdefault(wave, lack if lack is not Lack.NOTHING else Lack.WRITE_BACK)
                pending.append((source, source_time))

    def _group(self, thread: int) -> range:
        first = thread >> WAVE_BITS << WAVE_BITS
        return range(first, first + self._waves)

    def _note(self, times: dict[int, int], thread: int, time: int) -> None:
        """All of a wave up to a time, and of its workgroup before the barrier before it."""
        before = (time >> STEP_BITS << STEP_BITS) - 1
        for wave in self._group(thread):
            times[wave] = max(times.get(wave, -1), time if wave == thread else before)

    def _acquired(self, mate: int, thread: int, time: int, limit: int, until: int) -> Scope | None:
        """Widest scope of an invalidation between an observation and the access, by either wave."""
        scopes = [scope for at, _, scope, _ in self._invalidations.get(mate, ()) if time <= at <= limit]
        if mate != thread:
            later = (time >> STEP_BITS) + 1 << STEP_BITS
            scopes += [scope for at, _, scope, _ in self._invalidations.get(thread, ()) if later <= at <= until]
        return Scope(max(scopes)) if scopes else None

    def _released(self, source: int, time: int) -> tuple[int, Lack, Scope]:
        """Up to when a wave's accesses were released at a time, what is missing, and the scope of the release."""
        covered, scope, pending = -1, Scope.WAVE, -1
        for at, reached, fence_scope, is_complete in self._fences.get(source, ()):
            if at > time:
                break
            if is_complete:
                covered, scope = reached, Scope(fence_scope)
            else:
                pending = reached
        if covered >= 0:
            return covered, Lack.NOTHING, scope
        return -1, Lack.WAIT if pending >= 0 else Lack.WRITE_BACK, scope

    @staticmethod
    def _missing(acquired: Scope | None, released: Lack, scope: Scope) -> Lack:
        if released is not Lack.NOTHING:
            return released
        if acquired is None:
            return Lack.INVALIDATE
        if scope < Scope.AGENT or acquired < Scope.AGENT or acquired < scope:
            return Lack.SCOPE
        return Lack.NOTHING
