"""Grouped GEMM over jagged groups of rows, FP8 with scales or 16-bit: forward, and both gradients."""

from __future__ import annotations

from wavecast.kernels.grouped_gemm.api import grouped_gemm

__all__ = ["grouped_gemm"]
