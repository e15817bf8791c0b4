"""Configurations in the order of their predicted time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wavecast.simulator.devices import Device
from wavecast.simulator.timing import TimePrediction
from wavecast.simulator.tune.candidate import Candidate
from wavecast.simulator.tune.difference import Difference, difference


@dataclass(frozen=True, slots=True)
class Ranking:
    """What is predicted of a kernel's configurations.

    Attributes:
        kernel: Name of the kernel.
        device: The device.
        candidates: Those with a time, the fastest first, equal ones in the order in which they were given; then those
            without, in that order.
        resolution: Relative difference that a benchmark tells from none.
    """

    kernel: str
    device: Device
    candidates: tuple[Candidate, ...]
    resolution: float

    @property
    def timed(self) -> tuple[Candidate, ...]:
        """Candidates with a time, the fastest first."""
        return tuple(candidate for candidate in self.candidates if candidate.time is not None)

    @property
    def ruled_out(self) -> tuple[Candidate, ...]:
        """Candidates that a constraint rules out."""
        return tuple(candidate for candidate in self.candidates if candidate.ruled_out is not None)

    @property
    def best(self) -> Candidate | None:
        """The candidate that is predicted to be fastest; None if none has a time."""
        return next(iter(self.timed), None)

    @property
    def alike(self) -> tuple[Candidate, ...]:
        """The best, and all that a benchmark would not tell from it: choosing among them is choosing by chance."""
        return tuple(candidate for candidate in self.timed if not self.slower(candidate).is_measurable)

    @property
    def programs(self) -> int:
        """Different programs among the candidates that were compiled."""
        return len({candidate.code_object for candidate in self.candidates if candidate.code_object is not None})

    @property
    def compile_s(self) -> float | None:
        """Seconds that compiling them took; None if that of one of them is not known."""
        compiled = [candidate for candidate in self.candidates if candidate.code_object is not None]
        known = [candidate.compile_s for candidate in compiled if candidate.compile_s is not None]
        return sum(known) if len(known) == len(compiled) else None

    def slower(self, candidate: Candidate) -> Difference:
        """How much longer a candidate takes than the best.

        Raises:
            ValueError: if the candidate has no time.
        """
        best = self.best
        if candidate.time is None or best is None or best.time is None:
            raise ValueError(f"{candidate.name} has no predicted time")
        if (candidate.code_object, candidate.time) == (best.code_object, best.time):
            return Difference(1.0, 1.0, 1.0, self.resolution)  # the same launch, and not two samples
        return difference(candidate.time, best.time, self.device, resolution=self.resolution)

    def __str__(self) -> str:
        from wavecast.simulator.tune.table import table

        return table(self)


def ranked(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Candidates in the order of ``Ranking.candidates``."""

    def key(candidate: Candidate) -> tuple[bool, float]:
        time: TimePrediction | None = candidate.time
        return time is None, time.predicted_us if time else 0.0

    return tuple(sorted(candidates, key=key))
