"""``tensorwise``: one scale for a whole matrix."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.rowwise import make_inputs

# bf16 in, FP8 out; one scale and inverse in fp32.
ELEMENT_BYTES, SCALE_BYTES = 2 + 1, 4 + 4


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scale once, though no value can be converted before all have been seen."""
    return ELEMENT_BYTES * shape["tokens"] * shape["n"] + SCALE_BYTES


EXPERIMENT = Experiment(
    name="tensorwise",
    summary="one scale for a whole matrix: amax first, then the conversion",
    variants=("wavecast",),
    shapes=({"tokens": 32768, "n": 7168}, {"tokens": 32768, "n": 2048}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="the input is read twice; every workgroup is executed, so that the second launch finds in the memory-side "
    "cache what the first left there",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.tensorwise:quantize_tensorwise",
    by_default=False,
    whole=True,
)
