"""Transposing FP8 quantization of expert weights: (E, K, N) to (E, N, K) with one scale per expert and k."""

from __future__ import annotations

from wavecast.kernels.weight_transpose.api import VARIANTS, TransposedWeight, quantize_weight_transpose

__all__ = ["VARIANTS", "TransposedWeight", "quantize_weight_transpose"]
