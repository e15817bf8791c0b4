"""``blockwise``: one scale for each block of 128 × 128 values."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.rowwise import make_inputs

# bf16 in, FP8 out; scale and inverse in fp32 for each block.
ELEMENT_BYTES, SCALE_BYTES, BLOCK = 2 + 1, 4 + 4, 128


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scales once."""
    tokens, n = shape["tokens"], shape["n"]
    blocks = -(-tokens // BLOCK) * -(-n // BLOCK)
    return ELEMENT_BYTES * tokens * n + SCALE_BYTES * blocks


EXPERIMENT = Experiment(
    name="blockwise",
    summary="one scale for each block of 128 × 128 values",
    variants=("wavecast",),
    shapes=({"tokens": 32768, "n": 7168}, {"tokens": 32768, "n": 2048}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.blockwise:quantize_blockwise",
    by_default=False,
)
