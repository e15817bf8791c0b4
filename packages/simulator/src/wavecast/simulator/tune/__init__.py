"""Tune: rank the configurations of an autotuned Triton kernel for a device that need not be there."""

from __future__ import annotations

from wavecast.simulator.tune.candidate import Candidate, Usage
from wavecast.simulator.tune.constraint import Constraint, Limits, RuledOut
from wavecast.simulator.tune.difference import RESOLUTION, Difference, difference
from wavecast.simulator.tune.hooks import Pruning
from wavecast.simulator.tune.rank import rank
from wavecast.simulator.tune.ranking import Ranking

__all__ = [
    "RESOLUTION",
    "Candidate",
    "Constraint",
    "Difference",
    "Limits",
    "Pruning",
    "Ranking",
    "RuledOut",
    "Usage",
    "difference",
    "rank",
]
