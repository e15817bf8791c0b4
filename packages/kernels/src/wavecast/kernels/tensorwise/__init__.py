"""Tensor-wise FP8 quantization: one scale for a whole tensor of any rank."""

from __future__ import annotations

from wavecast.kernels.tensorwise.api import quantize_tensorwise

__all__ = ["quantize_tensorwise"]
