"""Looks for reads of what another device or a copy wrote, without the acquire that the memory model asks for.

Memory of a node is sequentially consistent, so such a read gives the right value here; on a GPU it may find an old line
in a cache. An invalidation that a wave executes counts for its whole workgroup, whose waves share a compute unit's
cache; the start of a kernel is one too. Loads of system scope pass the caches and need none.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace

import numpy as np

from wavecast.simulator.checks.finding import Check, Finding, Severity, Site
from wavecast.simulator.checks.tables import Scope, scope_of
from wavecast.simulator.execute.trace import RecordKind
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.memory_access import AccessKind, classify

_GRANULE_BYTES = 4
_COPY = -1
_HINT = (
    "acquire at system scope after the signal was seen, in each workgroup: sem='acquire' and scope='sys' in Triton, "
    "__ATOMIC_ACQUIRE at system scope in HIP; in assembly buffer_inv sc0 sc1 after the signal's load was waited for"
)


class CheckedCode:
    """What the instructions of a kernel mean for the check.

    Args:
        kernel: The kernel.

    Attributes:
        events: Instructions whose execution has to be seen.
    """

    def __init__(self, kernel: Kernel) -> None:
        count = len(kernel.instructions)
        self.kernel = kernel
        self.loads, self.stores = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.invalidations = np.zeros(count, dtype=np.int64)
        for index, instruction in enumerate(kernel.instructions):
            scope = scope_of(instruction)
            if instruction.opcode == "buffer_inv":
                self.invalidations[index] = scope
                continue
            access = classify(instruction)
            if access is None or not access.kind.is_global:
                continue
            if access.kind in (AccessKind.STORE, AccessKind.ATOMIC):
                self.stores[index] = access.piece_bytes
            elif scope < Scope.SYSTEM:
                self.loads[index] = access.piece_bytes
        self.events = [int(index) for index in np.flatnonzero(self.invalidations)]


@dataclass(slots=True)
class Acquired:
    """Until when a workgroup sees what others wrote: times of its latest invalidations, or of its kernel's start.

    Attributes:
        system: Of system scope.
        agent: Of the device's scope, or a wider one.
    """

    system: int
    agent: int


@dataclass(frozen=True, slots=True)
class _Region:
    """Memory that is followed: when each granule was written last, and by which rank, or a copy."""

    start: int
    end: int
    times: np.ndarray
    writers: np.ndarray


class AcquireCheck:
    """Follows what copies and kernels of several ranks write to each other."""

    def __init__(self) -> None:
        self._regions: list[_Region] = []
        self._starts: list[int] = []
        self._latest = -1
        self._findings: dict[tuple[str, Check, int], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, each kernel's line once, with the number of lanes."""
        return tuple(self._findings.values())

    def follow(self, start: int, nbytes: int) -> None:
        """Follow memory of the host that several ranks reach, or that copies write."""
        at = bisect.bisect_right(self._starts, start)
        if not nbytes or (at and self._regions[at - 1].end >= start + nbytes):
            return
        count = -(-nbytes // _GRANULE_BYTES)
        region = _Region(
            start, start + nbytes, np.full(count, -1, dtype=np.int64), np.full(count, _COPY, dtype=np.int16)
        )
        self._starts.insert(at, start)
        self._regions.insert(at, region)

    def copied(self, pointer: int, nbytes: int, time: int) -> None:
        """A copy has written memory."""
        self._latest = time
        for region in self._regions:
            low, high = max(pointer, region.start), min(pointer + nbytes, region.end)
            if low < high:
                part = slice((low - region.start) // _GRANULE_BYTES, -(-(high - region.start) // _GRANULE_BYTES))
                region.times[part], region.writers[part] = time, _COPY

    def executed(
        self,
        code: CheckedCode,
        records: np.ndarray,
        buffers: np.ndarray,
        acquired: Acquired,
        *,
        rank: int,
        place: tuple[int, int, int],
        time: int,
    ) -> None:
        """A workgroup has run a slice, within which nobody else wrote anything.

        Args:
            code: Of its kernel.
            records: ``RECORD``, of the slice.
            buffers: int64 (buffers, 3) of its launch: device base, device end, host minus device.
            acquired: Of the workgroup; brought up to date.
            rank: Whose.
            place: x, y, z of the workgroup.
            time: Of the slice.
        """
        scopes = np.where(records["kind"] == RecordKind.EVENT, code.invalidations[records["instruction"]], 0)
        system = np.flatnonzero(scopes == Scope.SYSTEM)
        agent = np.flatnonzero(scopes >= Scope.AGENT)
        accesses = records["kind"] == RecordKind.ACCESS
        # What follows an invalidation of the same slice is up to date.
        before = slice(0, int(system[0]) if system.size else len(records))
        loads = accesses[before] & (code.loads[records["instruction"][before]] > 0)
        for index in np.flatnonzero(loads) if self._latest > acquired.system else ():
            seen_agent = time if agent.size and agent[0] < index else acquired.agent
            self._load(code, records[index], buffers, acquired.system, seen_agent, rank, place)
        for index in np.flatnonzero(accesses & (code.stores[records["instruction"]] > 0)):
            record = records[index]
            for region, granules, _ in self._granules(record, int(code.stores[record["instruction"]]), buffers):
                region.times[granules], region.writers[granules] = time, rank
                self._latest = time
        acquired.system = time if system.size else acquired.system
        acquired.agent = time if agent.size else acquired.agent

    def _load(
        self,
        code: CheckedCode,
        record: np.ndarray,
        buffers: np.ndarray,
        system: int,
        agent: int,
        rank: int,
        place: tuple[int, int, int],
    ) -> None:
        index = int(record["instruction"])
        for region, granules, addresses in self._granules(record, int(code.loads[index]), buffers):
            stale = (region.times[granules] > system) & (region.writers[granules] != rank)
            if not stale.any():
                continue
            first = int(np.flatnonzero(stale)[0])
            granule = int(granules[first])
            is_scope = int(region.times[granule]) <= agent
            check = Check.SCOPE if is_scope else Check.MISSING_ACQUIRE
            key = code.kernel.name, check, index
            count = int(stale.sum())
            known = self._findings.get(key)
            if known is not None:
                self._findings[key] = replace(known, count=known.count + count)
                continue
            writer = int(region.writers[granule])
            who = "a copy" if writer == _COPY else f"rank {writer}"
            how = "an acquire of the device's scope alone" if is_scope else "no acquire"
            instruction = code.kernel.instructions[index]
            self._findings[key] = Finding(
                check,
                Severity.ERROR,
                code.kernel.name,
                Site(instruction.source, instruction.text, place, int(record["wave"])),
                f"rank {rank} reads what {who} wrote while the kernel ran, with {how} since",
                _HINT,
                address=int(addresses[first]),
                count=count,
            )

    def _granules(
        self, record: np.ndarray, nbytes: int, buffers: np.ndarray
    ) -> list[tuple[_Region, np.ndarray, np.ndarray]]:
        """Followed granules that an access touches: the region, their numbers there, and device addresses."""
        lanes = np.flatnonzero(
            np.unpackbits(np.array([record["exec"]], dtype=np.uint64).view(np.uint8), bitorder="little")
        )
        steps = np.arange(0, nbytes, _GRANULE_BYTES)
        device = (record["address"][lanes].astype(np.int64)[:, None] + steps).ravel()
        rows = np.searchsorted(buffers[:, 0], device, side="right") - 1
        host = device + buffers[np.maximum(rows, 0), 2]
        found = []
        for region in self._regions:
            inside = (host >= region.start) & (host < region.end)
            if inside.any():
                found.append((region, (host[inside] - region.start) // _GRANULE_BYTES, device[inside]))
        return found
