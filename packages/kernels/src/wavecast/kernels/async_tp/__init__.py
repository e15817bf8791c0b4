"""What all-gather+matmul and matmul+reduce-scatter share: symmetric memory, transports, programs of streams."""

from __future__ import annotations

from wavecast.kernels.async_tp.program import (
    Copy,
    Kernel,
    Operation,
    Program,
    Record,
    Stream,
    WaitEvent,
    WaitSignal,
    WriteSignal,
)
from wavecast.kernels.async_tp.symmetric import SymmetricMemory

__all__ = [
    "Copy",
    "Kernel",
    "Operation",
    "Program",
    "Record",
    "Stream",
    "SymmetricMemory",
    "WaitEvent",
    "WaitSignal",
    "WriteSignal",
]
