"""One configuration and what is known about it."""

from __future__ import annotations

from dataclasses import dataclass

import triton

from wavecast.simulator.timing import TimePrediction
from wavecast.simulator.traffic import Residency
from wavecast.simulator.tune.constraint import RuledOut


@dataclass(frozen=True, slots=True)
class Usage:
    """What the compiled code of a configuration occupies.

    Attributes:
        vgpr: Vector registers a wave, accumulation registers included.
        sgpr: Scalar registers a wave.
        lds_bytes: LDS bytes a workgroup.
        spill_bytes: Scratch bytes a lane.
        residency: Occupancy and what limits it; None if no workgroup fits.
    """

    vgpr: int
    sgpr: int
    lds_bytes: int
    spill_bytes: int
    residency: Residency | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration.

    Attributes:
        config: The configuration.
        ruled_out: Why it is not considered; None if it is.
        usage: What its code occupies; None if it was not compiled.
        code_object: Digest of its code; None if it was not compiled. Equal digests are the same program.
        compile_s: Seconds that its compilation took, when it took place; None if nobody noted it.
        time: Predicted time of the launch; None if it was ruled out, or nobody asked.
    """

    config: triton.Config
    ruled_out: RuledOut | None = None
    usage: Usage | None = None
    code_object: str | None = None
    compile_s: float | None = None
    time: TimePrediction | None = None

    @property
    def name(self) -> str:
        """The configuration in short: a cluster of one workgroup, which is every AMD launch, goes without saying."""
        settings = self.config.all_kwargs()
        return " ".join(f"{key}={value}" for key, value in settings.items() if (key, value) != ("num_ctas", 1))
