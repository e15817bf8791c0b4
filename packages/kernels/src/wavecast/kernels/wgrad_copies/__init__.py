"""Preparation of the weight gradient of a grouped linear layer: both operands quantized column-wise per group."""

from __future__ import annotations

from wavecast.kernels.wgrad_copies.api import WgradOperands, wgrad_operands
from wavecast.kernels.wgrad_copies.baseline import VARIANTS

__all__ = ["VARIANTS", "WgradOperands", "wgrad_operands"]
