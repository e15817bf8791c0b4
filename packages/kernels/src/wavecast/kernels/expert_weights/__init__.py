"""FP8 quantization of expert weights (E, K, N) in their own layout, with one scale per expert and n."""

from __future__ import annotations

from wavecast.kernels.expert_weights.api import VARIANTS, ExpertWeights, quantize_expert_weights

__all__ = ["VARIANTS", "ExpertWeights", "quantize_expert_weights"]
