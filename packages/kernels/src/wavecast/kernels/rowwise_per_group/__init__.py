"""Row-wise FP8 quantization with one scale per group of columns and row."""

from __future__ import annotations

from wavecast.kernels.rowwise_per_group.api import quantize_rowwise_per_group

__all__ = ["quantize_rowwise_per_group"]
