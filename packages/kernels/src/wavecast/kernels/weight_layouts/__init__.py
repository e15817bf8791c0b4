"""FP8 quantization of expert weights (E, K, N) in both layouts: in their own, and transposed."""

from __future__ import annotations

from wavecast.kernels.weight_layouts.api import WeightLayouts, quantize_weight_layouts
from wavecast.kernels.weight_layouts.baseline import VARIANTS

__all__ = ["VARIANTS", "WeightLayouts", "quantize_weight_layouts"]
