"""``rowwise``: four kernels with an fp32 intermediate against one that reads each row once."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import lazy_bf16

# bf16 in, FP8 out, and scale and inverse in fp32 for each row.
ELEMENT_BYTES, ROW_BYTES = 2 + 1, 4 + 4


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scales once."""
    return shape["tokens"] * (ELEMENT_BYTES * shape["n"] + ROW_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """One (tokens, n) matrix."""
    return (lazy_bf16(shape["tokens"], shape["n"]),)


EXPERIMENT = Experiment(
    name="rowwise",
    summary="one scale a row: operator chain against one fused kernel",
    variants=("separate-kernels", "wavecast"),
    shapes=({"tokens": 32768, "n": 7168}, {"tokens": 32768, "n": 2048}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.rowwise",
)
