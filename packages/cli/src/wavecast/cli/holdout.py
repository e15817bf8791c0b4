"""A hold-out: kernels and shapes that nobody chose, drawn by a seed before they are predicted and measured.

The rule: experiments of one GPU, in the order of the catalogue, again and again until there are enough;
each gives one of its variants and a shape whose sizes are drawn from `SIZES`. A draw that was there before, that is one
of the experiment's own shapes, or that is larger than `LARGEST_BYTES` or `LARGEST_FLOP` is drawn again.
"""

from __future__ import annotations

from random import Random

from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.experiments.experiment import Experiment, Shape
from wavecast.cli.prediction import Case
from wavecast.cli.rows import CLEAN

SIZES: dict[str, tuple[int, ...]] = {
    "tokens": (4096, 6144, 8192, 12288, 16384, 20480, 24576, 32768),
    "rows": (1024, 1536, 3072, 4096, 5120, 6144),
    "n": (1024, 1536, 2560, 3072, 4096, 5120, 6144, 8192),
    "k": (1024, 1536, 2560, 3072, 4096, 5120, 6144, 8192),
    "m": (1024, 2048, 3072, 4096, 6144, 8192),
    "groups": (4, 8, 16, 32),
    "experts": (2, 4, 8, 16),
    "multiple": (16, 32, 64, 128),
}
"""What each size of a shape is drawn from."""

LARGEST_BYTES = 600e6
"""Bytes that an implementation must move at most: every workgroup of some experiments is executed."""

LARGEST_FLOP = 300e9
"""Operations of a product at most, for the same reason."""

LEFT_OUT = {"autotune-space": "it searches configurations", "fnuz": "its format exists on gfx942 only"}
"""Experiments that are not drawn, and why."""


def drawn_experiments() -> list[Experiment]:
    """Those that are drawn from: of one GPU, and not left out."""
    return [item for item in EXPERIMENTS.values() if item.name not in LEFT_OUT and "ranks" not in item.shapes[0]]


def draw(seed: int, *, count: int, device: str) -> list[Case]:
    """The cases of a seed, one variant each.

    Args:
        seed: Any number.
        count: How many.
        device: The device.
    """
    random = Random(seed)
    families = drawn_experiments()
    drawn: list[Case] = []
    while len(drawn) < count:
        experiment = families[len(drawn) % len(families)]
        case = _drawn(random, experiment, device)
        if case not in drawn:
            drawn.append(case)
    return drawn


def _drawn(random: Random, experiment: Experiment, device: str) -> Case:
    variant = random.choice(experiment.variants)
    while True:
        shape: Shape = {name: random.choice(SIZES[name]) for name in experiment.shapes[0]}
        small = experiment.operands(variant).minimum_bytes(shape) <= LARGEST_BYTES
        small = small and (experiment.flop is None or experiment.flop(shape) <= LARGEST_FLOP)
        if small and shape not in [dict(known) for known in experiment.shapes]:
            return Case(experiment, shape, device, (variant,), CLEAN)
