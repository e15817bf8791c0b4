"""Matrix product whose sum over ranks is scattered: each rank gets the sum of its part of the rows."""

from __future__ import annotations

from wavecast.kernels.matmul_reduce_scatter.api import matmul_reduce_scatter

__all__ = ["matmul_reduce_scatter"]
