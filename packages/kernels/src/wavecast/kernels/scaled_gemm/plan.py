"""Tiles of the dense GEMM: those of the grouped one, for one group."""

from __future__ import annotations

from wavecast.kernels.grouped_gemm.plan import GemmPlan, plan_gemm, unit_of

__all__ = ["GemmPlan", "plan_gemm", "unit_of"]
