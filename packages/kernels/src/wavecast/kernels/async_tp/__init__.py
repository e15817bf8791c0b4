"""What all-gather+matmul and matmul+reduce-scatter share: symmetric memory, signals, transports, choice of a path."""

from __future__ import annotations

from wavecast.kernels.async_tp.symmetric import SymmetricMemory

__all__ = ["SymmetricMemory"]
