"""Tiles of the weight quantizer in both layouts: those of the dual-layout one, a matrix of N rows of K values each."""

from __future__ import annotations

from wavecast.kernels.dual_layout.plan import DualLayoutPlan, plan_dual_layout

__all__ = ["DualLayoutPlan", "plan_dual_layout"]
