"""FP8 quantization of expert weights (E, K, N) in their own layout, with one scale per expert and n."""

from __future__ import annotations

from wavecast.kernels.expert_weights.api import quantize_expert_weights
from wavecast.kernels.expert_weights.baseline import VARIANTS

__all__ = ["VARIANTS", "quantize_expert_weights"]
