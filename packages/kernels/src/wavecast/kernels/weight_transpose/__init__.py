"""Transposing FP8 quantization of expert weights: (E, K, N) to (E, N, K) with one scale per expert and k."""

from __future__ import annotations

from wavecast.kernels.weight_transpose.api import quantize_weight_transpose
from wavecast.kernels.weight_transpose.baseline import VARIANTS

__all__ = ["VARIANTS", "quantize_weight_transpose"]
