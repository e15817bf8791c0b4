"""What a prediction says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from wavecast.simulator.traffic import Residency
from wavecast.simulator.traffic.dirty import Residue


class Bound(StrEnum):
    """The resource that decides the time."""

    LAUNCH = "launch"
    WORKGROUP_LAUNCH = "workgroup-launch"
    ISSUE = "issue"
    LATENCY = "latency"
    LDS = "lds"
    L1 = "l1"
    L2 = "l2"
    MALL = "mall"
    HBM = "hbm"
    ATOMICS = "atomics"
    FENCES = "fences"
    WRITE_BACK = "write-back"
    OVERLAP = "overlap"


class Position(StrEnum):
    """Where a launch stands in its stream, and what is timed of it."""

    FIRST = "first"  # the time of this one, in a queue that was empty
    QUEUED = "queued"  # the time of this one, in a queue with others before it and behind it
    BACK_TO_BACK = "back-to-back"  # a chain of them

    @property
    def is_alone(self) -> bool:
        """Whether the launch is timed by itself."""
        return self is not Position.BACK_TO_BACK


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How one uncertain constant moves the result.

    Attributes:
        constant: ``section.field`` of the device, ``sampling``, or ``l2.map`` for addresses that no hash spreads
            over the L2.
        low_us: Result with the constant at its lower end.
        high_us: Result with it at its upper end.
    """

    constant: str
    low_us: float
    high_us: float

    @property
    def spread_us(self) -> float:
        return abs(self.high_us - self.low_us)


@dataclass(frozen=True, slots=True)
class InstructionClk:
    """What the average wave spends on one static instruction over its whole life, in cycles.

    Attributes:
        index: Position in the kernel.
        executed: Times that the average wave executes it.
        issue_clk: Until the wave could issue its next instruction, while nothing held it up.
        stall_clk: Waiting for a pipe, the LDS or the address unit that others kept busy.
        wait_clk: Standing still in it: for the data of earlier instructions, or at a barrier.
        caused_clk: Standing still elsewhere until this memory instruction was done; part of others' ``wait_clk``.
    """

    index: int
    executed: float
    issue_clk: float
    stall_clk: float
    wait_clk: float
    caused_clk: float

    @property
    def clk(self) -> float:
        """Cycles that the wave spends in it; those of all instructions add up to its life but for its start."""
        return self.issue_clk + self.stall_clk + self.wait_clk


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """Time of one launch: what every prediction says, executed or not.

    Attributes:
        predicted_us: Point.
        low_us: Lower end of the interval.
        high_us: Upper end.
        bound: What decides it.
        cause: One sentence that names the count, and where known the instruction and source line, that decide.
        terms: µs by resource. ``issue``, ``latency``, ``lds`` and ``l1`` add up to the time of the compute units; every
            other is the time that resource alone would need, but for ``overlap``: what the launch takes beyond the
            slowest of them, because its phases wait for one another.
        sensitivity: Uncertain constants, the one that moves the result most first; those that do not are left out.
        device: Digest of the device specification.
    """

    predicted_us: float
    low_us: float
    high_us: float
    bound: Bound
    cause: str
    terms: Mapping[Bound, float]
    sensitivity: tuple[Sensitivity, ...]
    device: str


@dataclass(frozen=True, slots=True)
class ModelledTime(LaunchTime):
    """Time and traffic of a launch that was not executed; see ``LaunchTime`` for the rest.

    Attributes:
        l2_read_bytes: From L2 into the compute units.
        hbm_read_bytes: From HBM.
        written_bytes: To L2.
        left: What the launch and those before it have left in an L2 that writes nothing back at its end.
    """

    l2_read_bytes: float
    hbm_read_bytes: float
    written_bytes: float
    left: Residue


@dataclass(frozen=True, slots=True)
class TimePrediction(LaunchTime):
    """Time of one launch that was executed; see ``LaunchTime`` for the rest.

    Attributes:
        compute_unit_us: Time of the compute units.
        working_us: Time until the busiest compute unit is done, with the memory system as it is.
        wave_clk: Cycles from the start of a workgroup to the end of the average one of its waves.
        residency: Occupancy and what limits it.
        instruction_clk: Executed instructions with the cycles that the average wave spends in each, in the order of
            the kernel.
    """

    compute_unit_us: float
    working_us: float
    wave_clk: float
    residency: Residency
    instruction_clk: tuple[InstructionClk, ...]

    @property
    def waves_per_simd(self) -> int:
        return self.residency.waves_per_simd
