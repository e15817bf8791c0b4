"""``wgrad-copies``: both operands of a weight gradient to FP8, with and without a transposing copy before it."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16
from wavecast.cli.experiments.works import Works, columns_of

# bf16 in, FP8 out; scale and inverse in fp32 for each group and column; an int32 end offset for each group.
ELEMENT_BYTES, SCALE_BYTES, OFFSET_BYTES = 2 + 1, 4 + 4, 4


def minimum_bytes(shape: Shape) -> int:
    """Inputs once, results and scales once."""
    columns = shape["n"] + shape["k"]
    return columns * (ELEMENT_BYTES * shape["tokens"] + SCALE_BYTES * shape["groups"]) + OFFSET_BYTES * shape["groups"]


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """The gradient of the output (tokens, n), the input (tokens, k), and the ends of groups of equal size."""
    tokens = shape["tokens"]
    ends = equal_group_ends(tokens, shape["groups"])
    return lazy_bf16(tokens, shape["n"]), lazy_bf16(tokens, shape["k"]), ends


def works(_: str, shape: Shape) -> Works:
    """Gradient and input, where the kernel for long groups runs."""
    groups, rows = shape["groups"], shape["tokens"] // shape["groups"]
    return columns_of((groups, rows, shape["n"]), (groups, rows, shape["k"]))


EXPERIMENT = Experiment(
    name="wgrad-copies",
    summary="transposing copy and two passes (9 B an element) against reading by strides (5 B) and one pass (3 B)",
    variants=("transpose-copies", "strided-read", "wavecast"),
    # DeepSeek-MoE-16B with 8-way expert parallelism: 4,096 tokens a rank, 6 experts a token, 8 experts a GPU.
    shapes=({"tokens": 24576, "n": 1408, "k": 2048, "groups": 8},),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="pytorch/ao#3972 publishes 500 -> 2153 tokens/s end to end, with a change of tiles and of autotuning in it",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.wgrad_copies",
    works=works,
)
