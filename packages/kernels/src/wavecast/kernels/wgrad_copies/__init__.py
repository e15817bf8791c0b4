"""Preparation of the weight gradient of a grouped linear layer: both operands quantized column-wise per group."""

from __future__ import annotations

from wavecast.kernels.wgrad_copies.api import WgradOperands, wgrad_operands

__all__ = ["WgradOperands", "wgrad_operands"]
