"""What an executed launch leaves behind, besides the memory it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavecast.simulator.execute.runs import joined_runs
from wavecast.simulator.program.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Execution:
    """Counts of one launch, exact for the workgroups that ran.

    Attributes:
        kernel: What ran.
        grid: Workgroups in x, y, z.
        workgroups: int64 linear ids of the workgroups that ran, in dispatch order (x fastest).
        executed: int64 per static instruction: how many waves executed it, summed over those workgroups.
        instructions_per_workgroup: int64 per workgroup that ran: wave instructions it executed.
        stray_lds_accesses: Lanes whose LDS access lay beyond the workgroup's allocation. The hardware reads 0 there
            and drops the write, and so does the engine; in a correct kernel there is none.
        runs: ``RUN``, instruction streams of the workgroups that were recorded; ``position`` counts in ``workgroups``.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    workgroups: np.ndarray
    executed: np.ndarray
    instructions_per_workgroup: np.ndarray
    stray_lds_accesses: int = 0
    runs: np.ndarray = field(default_factory=lambda: joined_runs(()))

    @property
    def total_workgroups(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def scale(self) -> float:
        """Factor from the workgroups that ran to the whole grid."""
        return self.total_workgroups / max(len(self.workgroups), 1)
