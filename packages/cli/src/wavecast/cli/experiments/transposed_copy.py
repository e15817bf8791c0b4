"""``transposed-copy``: a matrix with its other dimension contiguous."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.rowwise import make_inputs

ELEMENT_BYTES = 2 + 2


def minimum_bytes(shape: Shape) -> int:
    """Input once, result once."""
    return ELEMENT_BYTES * shape["tokens"] * shape["n"]


EXPERIMENT = Experiment(
    name="transposed-copy",
    summary="a matrix with its other dimension contiguous",
    variants=("wavecast",),
    shapes=({"tokens": 32768, "n": 7168}, {"tokens": 32768, "n": 2048}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.transposed_copy:copy_transposed",
    by_default=False,
)
