"""``weight-transpose``: expert weights to FP8 with a scale a row, transposed in memory."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Published, Shape
from wavecast.cli.experiments.inputs import lazy_bf16
from wavecast.cli.experiments.works import of_weights
from wavecast.cli.rows import DIRTY

# bf16 in, FP8 out; scale and inverse in fp32 for each expert and row of the result's reduction.
ELEMENT_BYTES, SCALE_BYTES = 2 + 1, 4 + 4
LARGE: Shape = {"experts": 128, "k": 8192, "n": 5120}
SMALL: Shape = {"experts": 8, "k": 2048, "n": 1408}
SOURCE = "pytorch/ao#4024: MI300X, median of do_bench; the single configuration that was kept, 128 × 128, 4 waves"


def minimum_bytes(shape: Shape) -> int:
    """Weights once, result and scales once."""
    return shape["experts"] * shape["k"] * (ELEMENT_BYTES * shape["n"] + SCALE_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """Weights (experts, k, n) whose k is contiguous: the transposed view that a grouped GEMM's forward takes."""
    return (lazy_bf16(shape["experts"], shape["n"], shape["k"]).transpose(1, 2),)


EXPERIMENT = Experiment(
    name="weight-transpose",
    summary="transposing quantizer: atomic scales with and without fences against one deterministic kernel",
    variants=("atomic-acq-rel", "atomic-relaxed", "wavecast"),
    shapes=(LARGE, SMALL),
    device="mi300x",
    dtype="bf16",
    published=tuple(
        Published(variant="atomic-relaxed", shape=shape, time_us=time_us, device="mi300x", source=SOURCE, caches=DIRTY)
        for shape, time_us in ((LARGE, 10430), (SMALL, 72))
    ),
    remark="pytorch/ao#3945 made the atomics relaxed and gives no numbers, only pictures",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.weight_transpose",
    works=of_weights,
)
