"""``expert-weights``: expert weights to FP8 with a scale for each expert and column."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import lazy_bf16

# bf16 in, FP8 out; scale and inverse in fp32 for each expert and column.
ELEMENT_BYTES, SCALE_BYTES = 2 + 1, 4 + 4


def minimum_bytes(shape: Shape) -> int:
    """Weights once, result and scales once."""
    return shape["experts"] * shape["n"] * (ELEMENT_BYTES * shape["k"] + SCALE_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """Weights (experts, k, n) whose k is contiguous."""
    return (lazy_bf16(shape["experts"], shape["n"], shape["k"]).transpose(1, 2),)


EXPERIMENT = Experiment(
    name="expert-weights",
    summary="one scale an expert and column: five kernels against one",
    variants=("five-kernels", "fused", "wavecast"),
    # The two weights of an expert of DeepSeek-V3 with 8-way expert parallelism: 32 of 256 experts a GPU.
    shapes=({"experts": 32, "k": 7168, "n": 2048}, {"experts": 32, "k": 2048, "n": 7168}),
    device="mi325x",
    dtype="bf16",
    published=(),
    remark="the published 19 -> 7 ms of a forward pass has no primary source and covers more than this",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.expert_weights",
)
