"""Names of the terms of a time for a reader, and the count behind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wavecast.cli.launches import LaunchFacts


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One term of a time.

    Attributes:
        label: What it is, for a reader.
        unit: What is counted; empty if nothing is.
        count: The count of one launch.
    """

    label: str
    unit: str = ""
    count: Callable[[LaunchFacts], float] = lambda launch: 0.0

    def total(self, launches: Sequence[LaunchFacts]) -> float | None:
        """The count of a variant; None where nothing is counted."""
        return sum(self.count(launch) for launch in launches) if self.unit and launches else None


MECHANISMS = {
    "launch": Mechanism("launches", "launches", lambda launch: 1),
    "workgroup-launch": Mechanism("start of workgroups", "workgroups", lambda launch: launch.workgroups),
    "issue": Mechanism("instruction issue", "vector and matrix instr.", lambda launch: launch.instructions),
    "latency": Mechanism("waiting for memory"),
    "lds": Mechanism("LDS", "LDS clk", lambda launch: launch.lds_clk),
    "l1": Mechanism("L1 addresses and fills", "B asked for", lambda item: item.bytes.asked),
    "l2": Mechanism("L2 requests", "requests", lambda launch: launch.l2_requests),
    "mall": Mechanism("Infinity Cache bytes", "B", lambda launch: launch.bytes.mall_read + launch.bytes.mall_write),
    "hbm": Mechanism("HBM bytes", "B", lambda launch: launch.bytes.hbm_read + launch.bytes.hbm_write),
    "atomics": Mechanism("atomics", "requests", lambda launch: launch.atomic_requests),
    "fences": Mechanism("fences", "write-backs of L2", lambda launch: launch.release_fences),
    "overlap": Mechanism("what does not overlap"),
    "write-back": Mechanism("write-back at the end", "B", lambda launch: launch.last_write_back_bytes),
}


def mechanism(term: str) -> Mechanism:
    """The mechanism of a term; of one that has no entry, its own name."""
    return MECHANISMS.get(term) or Mechanism(term)
