"""``all-gather`` and ``reduce-scatter``: the collectives of tensor parallelism by size, by the vendor's library."""

from __future__ import annotations

from functools import partial

from wavecast.cli.experiments.async_tp import alone, make_inputs
from wavecast.cli.experiments.experiment import Experiment, Schedule, Shape

SIZES = tuple(1 << bits for bits in range(16, 31, 2))
"""Bytes of the larger buffer of a rank: the gathered result, or what is scattered."""


def measured_shapes(gpus: int) -> tuple[Shape, ...]:
    """Shapes that are measured on so many GPUs."""
    return tuple({"bytes": size, "ranks": gpus} for size in SIZES)


def minimum_bytes(shape: Shape) -> int:
    """The larger buffer of a GPU once, and the smaller."""
    return shape["bytes"] + shape["bytes"] // shape["ranks"]


def schedule(name: str, variant: str, shape: Shape, device: str) -> Schedule:
    """The collective of a name, by itself."""
    from wavecast.simulator.devices.loader import load_device
    from wavecast.simulator.overlap.node import Node
    from wavecast.simulator.overlap.practice import collective

    node = Node(load_device(device), shape["ranks"])
    return alone((collective(name, shape["bytes"], node),), node)


def _experiment(name: str, summary: str) -> Experiment:
    return Experiment(
        name=name,
        summary=summary,
        variants=("library",),
        shapes=measured_shapes(8),
        device="mi300x",
        dtype="bf16",
        published=(),
        remark="",
        minimum_bytes=minimum_bytes,
        make_inputs=make_inputs,
        operator=__name__,
        by_default=False,
        schedule=partial(schedule, name),
        group_shapes=measured_shapes,
    )


GATHER = _experiment("all-gather", "the library's all-gather by size, over the GPUs of a node")
SCATTER = _experiment("reduce-scatter", "the library's reduce-scatter by size, over the GPUs of a node")
