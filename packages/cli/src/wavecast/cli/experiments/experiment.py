"""What an experiment is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wavecast.cli.experiments.operators import find_variant

Shape = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Published:
    """A time that somebody published for one variant on one shape.

    Attributes:
        variant: Which variant it stands for.
        shape: The shape it was measured on.
        time_us: The time.
        device: The device it was measured on.
        source: Where it was published, with the versions that are known.
    """

    variant: str
    shape: Shape
    time_us: float
    device: str
    source: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """An ordinary function that calls an operator of ``wavecast.kernels``, and what is known about it.

    ``measure`` runs it on a GPU, ``predict`` the same function under a virtual device.

    Attributes:
        name: Name in the catalogue.
        summary: One line that says what is compared.
        variants: Names of the variants, the baseline first.
        shapes: Shapes that are run when none is asked for; all have the same keys.
        device: Device of the published figures, used when none is asked for.
        dtype: Element type of the inputs, ``bf16``.
        published: Published times.
        remark: What else was published, or how a published headline differs from its source; empty if nothing.
        minimum_bytes: Shape to the bytes that any implementation must move: inputs once, outputs once.
        make_inputs: Shape to the operator's tensors, in their order; touches no memory beyond small index tensors.
        operator: Module of ``wavecast.kernels`` whose ``VARIANTS`` has the variants; imported when one is run, so that
            the catalogue can be listed without torch.
    """

    name: str
    summary: str
    variants: tuple[str, ...]
    shapes: tuple[Shape, ...]
    device: str
    dtype: str
    published: tuple[Published, ...]
    remark: str
    minimum_bytes: Callable[[Shape], int]
    make_inputs: Callable[[Shape], tuple[Any, ...]]
    operator: str

    def run(self, variant: str, inputs: tuple[Any, ...]) -> Any:
        """Run one variant on the inputs; the result is the operator's."""
        return find_variant(self.operator, variant)(*inputs)

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return self.variants[0]

    def published_for(self, variant: str, *, shape: Shape, device: str) -> Published | None:
        """The published time of ``variant`` on exactly this shape and device, or None."""
        for item in self.published:
            if (item.variant, dict(item.shape), item.device) == (variant, dict(shape), device):
                return item
        return None
