"""``dual-layout``: one matrix quantized by row and by column and group, with one read of it or two."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16
from wavecast.cli.experiments.works import Works, columns_of

# bf16 in, FP8 out twice; scale and inverse in fp32 for each row and for each group and column; an int32 end offset.
ELEMENT_BYTES, SCALE_BYTES, OFFSET_BYTES = 2 + 1 + 1, 4 + 4, 4


def minimum_bytes(shape: Shape) -> int:
    """Input once, both results and their scales once."""
    tokens, n, groups = shape["tokens"], shape["n"], shape["groups"]
    return ELEMENT_BYTES * tokens * n + SCALE_BYTES * (tokens + groups * n) + OFFSET_BYTES * groups


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """A (tokens, n) matrix and the ends of groups of equal size."""
    return lazy_bf16(shape["tokens"], shape["n"]), equal_group_ends(shape["tokens"], shape["groups"])


def works(_: str, shape: Shape) -> Works:
    """Long groups, where the kernel for them runs."""
    return columns_of((shape["groups"], shape["tokens"] // shape["groups"], shape["n"]))


EXPERIMENT = Experiment(
    name="dual-layout",
    summary="both layouts that a layer's forward and backward need: one kernel a layout against one read for both",
    variants=("two-kernels", "wavecast"),
    shapes=({"tokens": 32768, "n": 2048, "groups": 32}, {"tokens": 32768, "n": 7168, "groups": 32}),
    device="mi300x",
    dtype="bf16",
    published=(),
    remark="every workgroup is executed: a launch finds in the memory-side cache what the one before it left there, "
    "most of the 134 MB input of n=2048, none of the 470 MB of n=7168 if it was read from one end to the other",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.dual_layout",
    works=works,
    by_default=False,
    whole=True,
)
