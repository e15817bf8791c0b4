"""Row-wise FP8 quantization: one scale per row of an (M, K) matrix."""

from __future__ import annotations

from wavecast.kernels.rowwise.api import VARIANTS, RowwiseQuantized, quantize_rowwise

__all__ = ["VARIANTS", "RowwiseQuantized", "quantize_rowwise"]
