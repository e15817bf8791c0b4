"""``fnuz``: scaling to 448 on hardware whose FP8 format ends at 240, against scaling to 240."""

from __future__ import annotations

from wavecast.cli.experiments.experiment import Experiment
from wavecast.cli.experiments.rowwise import make_inputs, minimum_bytes

EXPERIMENT = Experiment(
    name="fnuz",
    summary="the same kernel with the wrong and the right maximum of e4m3fnuz: same time, other numbers",
    variants=("max-448", "max-240"),
    shapes=({"tokens": 4096, "n": 7168},),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="pytorch/ao#3996 replaced a literal 448 in five kernels; it cut the largest values and gained no time",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.fnuz",
)
