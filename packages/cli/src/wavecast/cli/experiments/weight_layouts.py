"""``weight-layouts``: expert weights in both layouts that a step needs, by column and transposed."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.expert_weights import make_inputs
from wavecast.cli.experiments.works import of_weights

# bf16 in, FP8 out twice; scale and inverse in fp32 for each expert and column, and for each expert and row.
ELEMENT_BYTES, SCALE_BYTES = 2 + 1 + 1, 4 + 4


def minimum_bytes(shape: Shape) -> int:
    """Weights once, both results and their scales once."""
    k, n = shape["k"], shape["n"]
    return shape["experts"] * (ELEMENT_BYTES * k * n + SCALE_BYTES * (k + n))


EXPERIMENT = Experiment(
    name="weight-layouts",
    summary="expert weights quantized in their own layout and transposed: two launches against one",
    variants=("two-kernels", "wavecast"),
    # Gate and up, and down, of DeepSeek-V3: a quarter and half of the 32 experts that a GPU has with 8-way expert
    # parallelism, since every workgroup is executed; still more than the memory-side cache holds.
    shapes=({"experts": 8, "k": 7168, "n": 4096}, {"experts": 16, "k": 2048, "n": 7168}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="8 and 16 of the 32 experts of a GPU, every workgroup executed: a second read of an expert's weights may "
    "find them in the memory-side cache",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.weight_layouts",
    works=of_weights,
    by_default=False,
    whole=True,
)
