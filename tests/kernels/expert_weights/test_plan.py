"""The expert weight plan is the row-wise plan of E * N rows."""

from __future__ import annotations

import torch

from wavecast.kernels.expert_weights.plan import plan_expert_weights


def test_columns_are_rows_in_memory() -> None:
    plan = plan_expert_weights(32, 7168, 2048, dtype=torch.bfloat16, arch="gfx942")
    assert plan.resident
    assert plan.block_k == 8192
    assert plan.block_m * plan.programs == 32 * 2048
