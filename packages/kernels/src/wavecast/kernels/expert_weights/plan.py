"""Block sizes of the expert weight quantizer: those of the row-wise one, for the E * N columns of K values each."""

from __future__ import annotations

from wavecast.kernels.rowwise.plan import RowwisePlan, plan_rowwise

__all__ = ["RowwisePlan", "plan_rowwise"]
