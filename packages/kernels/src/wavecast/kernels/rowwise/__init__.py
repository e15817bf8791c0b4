"""Row-wise FP8 quantization: one scale per row of an (M, K) matrix."""

from __future__ import annotations

from wavecast.kernels.rowwise.api import quantize_rowwise
from wavecast.kernels.rowwise.baseline import VARIANTS

__all__ = ["VARIANTS", "quantize_rowwise"]
