"""``colwise-per-group``: one scale for each column of each token group, result column-major."""

from __future__ import annotations

from typing import Any

from wavecast.cli.experiments.experiment import Experiment, Published, Shape
from wavecast.cli.experiments.inputs import equal_group_ends, lazy_bf16
from wavecast.cli.experiments.works import Works, columns_of
from wavecast.cli.rows import DIRTY

# bf16 in, FP8 out; scale and inverse in fp32 for each group and column; an int32 end offset for each group.
ELEMENT_BYTES, SCALE_BYTES, OFFSET_BYTES = 2 + 1, 4 + 4, 4
NARROW: Shape = {"tokens": 32768, "n": 2048, "groups": 32}
WIDE: Shape = {"tokens": 32768, "n": 7168, "groups": 32}
SOURCE = "pytorch/ao#4113: MI300X, e4m3fnuz, median of do_bench"


def minimum_bytes(shape: Shape) -> int:
    """Input once, result and scales once."""
    tokens, n, groups = shape["tokens"], shape["n"], shape["groups"]
    return ELEMENT_BYTES * tokens * n + groups * (SCALE_BYTES * n + OFFSET_BYTES)


def make_inputs(shape: Shape) -> tuple[Any, ...]:
    """A (tokens, n) matrix and the ends of groups of equal size."""
    return lazy_bf16(shape["tokens"], shape["n"]), equal_group_ends(shape["tokens"], shape["groups"])


def _published(variant: str, narrow_us: float, wide_us: float) -> tuple[Published, ...]:
    return tuple(
        Published(variant=variant, shape=shape, time_us=time_us, device="mi300x", source=SOURCE, caches=DIRTY)
        for shape, time_us in ((NARROW, narrow_us), (WIDE, wide_us))
    )


def works(_: str, shape: Shape) -> Works:
    """Long groups, where the kernel for them runs."""
    return columns_of((shape["groups"], shape["tokens"] // shape["groups"], shape["n"]))


EXPERIMENT = Experiment(
    name="colwise-per-group",
    summary="one scale a column and group: scattered byte stores against coalesced ones, two passes against one",
    variants=("byte-stores", "vector-two-pass", "fused-single-pass", "wavecast"),
    shapes=(NARROW, WIDE),
    device="mi300x",
    dtype="bf16",
    published=(*_published("byte-stores", 785, 2860), *_published("fused-single-pass", 136, 449)),
    remark="the headline 7290 -> 1170 µs is the sum of four such calls of an MoE layer, two of which are these",
    minimum_bytes=minimum_bytes,
    make_inputs=make_inputs,
    operator="wavecast.kernels.colwise_per_group",
    works=works,
)
