"""From executed addresses to lines, requests and bytes at every level of the memory system."""

from __future__ import annotations

from wavecast.simulator.traffic.footprint import BufferRange
from wavecast.simulator.traffic.kept import KeptLines
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess, classify
from wavecast.simulator.traffic.observer import TrafficObserver
from wavecast.simulator.traffic.residency import Limiter, Residency, residency
from wavecast.simulator.traffic.sampling import (
    Sample,
    choose_workgroups,
    grid_strides,
    pilot_workgroups,
    sampling_error,
    work_of,
)
from wavecast.simulator.traffic.traffic import InstructionTraffic, Traffic

__all__ = [
    "AccessKind",
    "BufferRange",
    "InstructionTraffic",
    "KeptLines",
    "Limiter",
    "MemoryAccess",
    "Residency",
    "Sample",
    "Traffic",
    "TrafficObserver",
    "choose_workgroups",
    "classify",
    "grid_strides",
    "pilot_workgroups",
    "residency",
    "sampling_error",
    "work_of",
]
