"""Dense FP8 GEMM with row and column scales, or one scale a tensor."""

from __future__ import annotations

from wavecast.kernels.scaled_gemm.api import scaled_gemm

__all__ = ["scaled_gemm"]
