"""Column-wise FP8 quantization with one scale per group and column."""

from __future__ import annotations

from wavecast.kernels.colwise_per_group.api import ColwiseQuantized, colwise_per_group, colwise_per_group_hip
from wavecast.kernels.colwise_per_group.baseline import VARIANTS

__all__ = ["VARIANTS", "ColwiseQuantized", "colwise_per_group", "colwise_per_group_hip"]
