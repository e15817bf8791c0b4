"""Block sizes of the expert weight quantizer: those of the row-wise one, since that is what it is."""

from __future__ import annotations

import torch

from wavecast.kernels.rowwise.plan import RowwisePlan, plan_rowwise


def plan_expert_weights(experts: int, k: int, n: int, *, dtype: torch.dtype, arch: str | None) -> RowwisePlan:
    """Plan for an (experts, k, n) weight with k contiguous: experts * n rows of k values each.

    Args:
        experts, k, n: sizes of the weight.
        dtype: of the weight.
        arch: ``gfx942``, ``gfx950``, ``sm_NN``, or None for the interpreter.
    """
    return plan_rowwise(experts * n, k, dtype=dtype, arch=arch)
