"""Behind which accesses of other waves a wave is in order: releases and acquires followed back from what it observed.

A wave that sees what another wrote to a flag is ordered behind all that the other did before its release: accesses up
to its last write-back that was waited for (``buffer_wbl2``, ``s_waitcnt vmcnt(0)``), and those of its workgroup before
the barrier before that. It may use them after an invalidation (``buffer_inv``) that follows the observation. An atomic
hands on what stood there before, as a release sequence does.

What a wave acquired, it releases with its next write-back, and need not wait for that: others wrote it back already.
Compilers leave this wait out where the wave itself has nothing pending (llvm-project#178316).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class _Release:
    """What a wave had released at a time.

    Attributes:
        covered: Time up to which its own accesses were, -1 for none.
        lack: What is missing where that is -1.
        scope: Of the write-back.
        issued: Time up to which what it had acquired was: the last write-back, waited for or not; -1 for none.
        issued_scope: Of that one.
    """

    covered: int
    lack: Lack
    scope: Scope
    issued: int
    issued_scope: Scope


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
        self._taken: set[tuple[int, int, Scope | None, Lack]] = set()
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
            for time, source, source_time, flag, is_atomic in self._edges.get(mate, ()):
                if time <= limit:
                    acquired = self._acquired(mate, thread, time, limit, until)
                    for member, at in self._sequence(source, source_time, flag, is_atomic, acquired, lack):
                        leads += self._take_over(member, at, acquired, lack)
        return leads

    def _take_over(self, source: int, time: int, acquired: Scope | None, lack: Lack) -> list[tuple[int, int, Lack]]:
        """Note what a flag that a wave wrote at a time says of the wave, and return where what it observed leads."""
        release = self._released(source, time)
        missing = self._missing(acquired, release.lack, release.scope) if lack is Lack.NOTHING else lack
        self._note(self.observed, source, time)
        if missing is Lack.NOTHING:
            self._note(self.ordered, source, release.covered)
        # What lies between the write-back and the flag was not written back.
        for wave in self._group(source):
            self.lacking.setdefault(wave, missing if missing is not Lack.NOTHING else Lack.WRITE_BACK)
        handed_on = Lack.NOTHING if release.issued >= 0 else Lack.WRITE_BACK
        missing = self._missing(acquired, handed_on, release.issued_scope) if lack is Lack.NOTHING else lack
        if missing is not Lack.NOTHING:
            return [(source, time, missing)]
        # The stack takes the last one first: what is in order, before what lacks a release.
        return [(source, time, Lack.WRITE_BACK), (source, release.issued, Lack.NOTHING)]

    def _sequence(
        self, thread: int, time: int, flag: int, is_atomic: int, acquired: Scope | None, lack: Lack
    ) -> Iterator[tuple[int, int]]:
        """The write that was observed, and those before it that atomics of any wave handed on: a release sequence."""
        pending = [(thread, time, flag, is_atomic)]
        while pending:
            thread, time, flag, is_atomic = pending.pop()
            if (thread, time, acquired, lack) in self._taken:
                continue
            self._taken.add((thread, time, acquired, lack))
            yield thread, time
            edges = self._edges.get(thread, ())
            before = [row for row in edges if row[0] == time]
            if not before and is_atomic:
                # It read what an atomic of its own wave had left there, which read what another had written.
                before = [row for row in edges if row[0] < time and row[3] == flag][-1:]
            pending += [(row[1], row[2], row[3], row[4]) for row in before]

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

    def _released(self, source: int, time: int) -> _Release:
        """What a wave had released at a time."""
        covered, scope, issued, issued_scope = -1, Scope.WAVE, -1, Scope.WAVE
        for at, reached, fence_scope, is_complete in self._fences.get(source, ()):
            if at > time:
                break
            if is_complete:
                covered, scope = reached, Scope(fence_scope)
            else:
                issued, issued_scope = reached, Scope(fence_scope)
        lack = Lack.NOTHING if covered >= 0 else Lack.WAIT if issued >= 0 else Lack.WRITE_BACK
        return _Release(covered, lack, scope, issued, issued_scope)

    @staticmethod
    def _missing(acquired: Scope | None, released: Lack, scope: Scope) -> Lack:
        if released is not Lack.NOTHING:
            return released
        if acquired is None:
            return Lack.INVALIDATE
        if scope < Scope.AGENT or acquired < Scope.AGENT or acquired < scope:
            return Lack.SCOPE
        return Lack.NOTHING
