"""What a prediction knows about each launch beyond its row: terms of its time, bytes at every level, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LevelBytes:
    """Bytes of one launch at every level of the memory system.

    Attributes:
        asked_read: Asked for by the lanes of loads.
        asked_write: By those of stores.
        asked_atomic: By those of atomics.
        l2_read: Lines from L2 to L1.
        l2_write: Written to L2.
        mall_read: From the memory-side cache to L2.
        mall_write: From L2 to the memory-side cache.
        hbm_read: Read from HBM.
        hbm_write: Written to HBM.
    """

    asked_read: float
    asked_write: float
    asked_atomic: float
    l2_read: float
    l2_write: float
    mall_read: float
    mall_write: float
    hbm_read: float
    hbm_write: float

    @property
    def asked(self) -> float:
        """Asked for by all lanes."""
        return self.asked_read + self.asked_write + self.asked_atomic


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """One launch in its stream.

    Attributes:
        kernel: Symbol of the kernel.
        predicted_us: Its time in the stream.
        terms: µs by resource: ``launch``, ``issue``, ``hbm``, …; ``simulate.combined_us`` makes the time of them.
        bytes: Bytes by level.
        workgroups: Workgroups of the grid.
        matrix_flop: Executed operations of matrix instructions.
        vector_ops: Executed lane operations of vector instructions.
        instructions: Executed wave instructions of both kinds.
        l2_requests: Line reads and writes that reach the L2.
        lds_clk: LDS cycles of all compute units.
        atomic_requests: Atomic requests.
        release_fences: ``buffer_wbl2`` executed by waves.
        last_write_back_bytes: Bytes that are still dirty in the L2s when the last wave ends.
        counters: What hardware counters would show, by the names of ``wavecast.cli.measuring.metrics``.
    """

    kernel: str
    predicted_us: float
    terms: Mapping[str, float]
    bytes: LevelBytes
    workgroups: int
    matrix_flop: float
    vector_ops: float
    instructions: float
    l2_requests: float
    lds_clk: float
    atomic_requests: float
    release_fences: float
    last_write_back_bytes: float
    counters: Mapping[str, float] = field(default_factory=dict)
