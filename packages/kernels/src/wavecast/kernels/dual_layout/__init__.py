"""FP8 quantization of one matrix in both layouts: row-wise, and column-wise per group, in column-major order."""

from __future__ import annotations

from wavecast.kernels.dual_layout.api import DualLayout, quantize_dual_layout
from wavecast.kernels.dual_layout.baseline import VARIANTS

__all__ = ["VARIANTS", "DualLayout", "quantize_dual_layout"]
