"""Block-wise FP8 quantization: one scale per block of 128 x 128 values, or of 1 x 128."""

from __future__ import annotations

from wavecast.kernels.blockwise.api import quantize_blockwise

__all__ = ["quantize_blockwise"]
