"""``rowwise-per-group``: one scale for each row of each group of columns, result row-major."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16

# bf16 in, FP8 out; scale and inverse in fp32 for each group and row; an int32 end offset for each group.
ELEMENT_BYTES, SCALE_BYTES, OFFSET_BYTES = 2 + 1, 4 + 4, 4


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scales once."""
    rows, tokens, groups = shape["rows"], shape["tokens"], shape["groups"]
    return ELEMENT_BYTES * rows * tokens + groups * (SCALE_BYTES * rows + OFFSET_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """A (rows, tokens) matrix and the ends of groups of equal size along the tokens."""
    return lazy_bf16(shape["rows"], shape["tokens"]), equal_group_ends(shape["tokens"], shape["groups"])


EXPERIMENT = Experiment(
    name="rowwise-per-group",
    summary="one scale a row and group of tokens, tokens contiguous",
    variants=("wavecast",),
    shapes=({"rows": 7168, "tokens": 32768, "groups": 32}, {"rows": 2048, "tokens": 32768, "groups": 32}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.rowwise_per_group:quantize_rowwise_per_group",
    by_default=False,
)
