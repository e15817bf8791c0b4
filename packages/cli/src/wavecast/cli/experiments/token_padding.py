"""``token-padding``: token groups moved apart so that each begins at a multiple of rows."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16

ELEMENT_BYTES, OFFSET_BYTES = 2, 4


def padded_rows(shape: Shape) -> int:
    """Rows of the result: enough for every way to split the tokens into groups."""
    multiple = shape["multiple"]
    return -(-(shape["tokens"] + shape["groups"] * (multiple - 1)) // multiple) * multiple


def minimum_bytes(shape: Shape) -> int:
    """Tokens and offsets once, padded tokens and offsets once."""
    rows = shape["tokens"] + padded_rows(shape)
    return ELEMENT_BYTES * rows * shape["n"] + 2 * OFFSET_BYTES * shape["groups"]


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """A (tokens, n) matrix, the ends of groups of equal size, and the multiple."""
    ends = equal_group_ends(shape["tokens"], shape["groups"])
    return lazy_bf16(shape["tokens"], shape["n"]), ends, shape["multiple"]


EXPERIMENT = Experiment(
    name="token-padding",
    summary="groups padded to a multiple of rows, their sizes known to the device only",
    variants=("wavecast",),
    shapes=(
        {"tokens": 32768, "n": 7168, "groups": 32, "multiple": 16},
        {"tokens": 32768, "n": 2048, "groups": 32, "multiple": 16},
    ),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.token_padding:pad_token_groups",
    by_default=False,
)
