"""What is in FP8 in a training step, and with which scales."""

from __future__ import annotations

from enum import StrEnum


class Recipe(StrEnum):
    """How the three GEMMs of a layer are carried out: forward, gradient of the input, gradient of the weight."""

    ROWWISE = "rowwise"
    """All in FP8. Each operand has one scale per row or column along what is summed over; in the gradient of a grouped
    weight, one per column and group."""
    ROWWISE_HP_WGRAD = "rowwise_hp_wgrad"
    """As ROWWISE, but the gradient of the weight comes from the unquantized input and gradient: in their dtype where
    the layer is dense; where it is grouped, in bf16 for fp32 inputs."""
    TENSORWISE = "tensorwise"
    """All in FP8 with one scale per tensor. Its values serve both layouts: a GEMM that sums over the other dimension
    gets a transposed copy of the bytes."""
