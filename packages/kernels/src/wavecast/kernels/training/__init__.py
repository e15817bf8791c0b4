"""Training in FP8: grouped and linear layers with a derivative, and the conversion of a module.

Each tensor of a layer is quantized once a step, in all layouts that its GEMMs need: activations and gradients with
`quantize_dual_layout`, weights with `quantize_weight_layouts`. All functions run under torch.compile without graph
breaks, under activation checkpointing and in CUDA graphs, and never wait for the device.

FP8 is E4M3 in all three GEMMs, in the format native to the active device; without one, or with one that has no FP8
hardware, E4M3FN in plain torch.
"""

from __future__ import annotations

from wavecast.kernels.training.convert import convert_to_fp8_training
from wavecast.kernels.training.grouped import scaled_grouped_mm
from wavecast.kernels.training.linear import Fp8Linear, fp8_linear
from wavecast.kernels.training.recipe import Recipe

__all__ = ["Fp8Linear", "Recipe", "convert_to_fp8_training", "fp8_linear", "scaled_grouped_mm"]
