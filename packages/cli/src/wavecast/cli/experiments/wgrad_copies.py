"""``wgrad-copies``: the column-wise quantization before the weight gradient, with and without a transposing copy."""

from __future__ import annotations

from functools import partial
from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16
from wavecast.cli.experiments.operators import run_variant

# bf16 in, FP8 out; scale and inverse in fp32 for each group and column; an int32 end offset for each group.
ELEMENT_BYTES, SCALE_BYTES, OFFSET_BYTES = 2 + 1, 4 + 4, 4


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scales once."""
    tokens, n, groups = shape["tokens"], shape["n"], shape["groups"]
    return ELEMENT_BYTES * tokens * n + groups * (SCALE_BYTES * n + OFFSET_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """A (tokens, n) matrix and the ends of groups of equal size."""
    return lazy_bf16(shape["tokens"], shape["n"]), equal_group_ends(shape["tokens"], shape["groups"])


EXPERIMENT = Experiment(
    name="wgrad-copies",
    summary="transposing copy and two passes (9 B an element) against reading by strides (5 B) and one pass (3 B)",
    variants=("transpose-copies", "strided-read", "wavecast"),
    # DeepSeek-MoE-16B with 8-way expert parallelism, 4,096 tokens a rank, 6 experts a token, 8 experts a GPU.
    shapes=({"tokens": 24576, "n": 2048, "groups": 8}, {"tokens": 24576, "n": 1408, "groups": 8}),
    device="mi300x",
    dtype="bf16 -> fp8",
    published=(),
    remark="pytorch/ao#3972 publishes 500 -> 2153 tokens/s end to end, with a change of tiles and of autotuning in it",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    run=partial(run_variant, "wavecast.kernels.wgrad_copies"),
)
