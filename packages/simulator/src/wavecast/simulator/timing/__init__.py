"""From executed counts and traffic to a time with an interval, its bound and its cause."""

from __future__ import annotations

from wavecast.simulator.timing.combine import combine_us
from wavecast.simulator.timing.facts import KernelFacts, kernel_facts
from wavecast.simulator.timing.neighbours import after_writes
from wavecast.simulator.timing.operations import Operations, executed_operations
from wavecast.simulator.timing.predict import predict_time, predict_us
from wavecast.simulator.timing.prediction import Bound, InstructionClk, Position, Sensitivity, TimePrediction

__all__ = [
    "Bound",
    "InstructionClk",
    "KernelFacts",
    "Operations",
    "Position",
    "Sensitivity",
    "TimePrediction",
    "after_writes",
    "combine_us",
    "executed_operations",
    "kernel_facts",
    "predict_time",
    "predict_us",
]
