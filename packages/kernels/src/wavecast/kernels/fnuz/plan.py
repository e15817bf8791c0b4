"""Block sizes of the wrong-maximum experiment: those of the row-wise quantizer, for both variants."""

from __future__ import annotations

from wavecast.kernels.rowwise.plan import RowwisePlan, plan_rowwise

__all__ = ["RowwisePlan", "plan_rowwise"]
