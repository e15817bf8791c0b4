"""What an experiment is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wavecast.cli.experiments.operators import find_variant
from wavecast.cli.rows import CLEAN

if TYPE_CHECKING:
    from wavecast.simulator.overlap.node import Node
    from wavecast.simulator.overlap.program import KernelLike, ProgramLike
    from wavecast.simulator.timing.modelled import Work

Shape = Mapping[str, int]

PRODUCT_ALONE, COLLECTIVE_ALONE = "product-alone", "collective-alone"
"""Parts of a call over several GPUs, each by the vendor's library: it takes no less than the longer one."""


@dataclass(frozen=True, slots=True)
class Published:
    """A time that somebody published for one variant on one shape.

    Attributes:
        variant: Which variant it stands for; of ``Experiment.elsewhere``, whose code it is.
        shape: The shape it was measured on.
        time_us: The time.
        device: The device it was measured on.
        source: Where it was published, with the versions that are known.
        caches: What the caches held before each timed call, as ``Row.caches`` says.
    """

    variant: str
    shape: Shape
    time_us: float
    device: str
    source: str
    caches: str = CLEAN


@dataclass(frozen=True, slots=True)
class Operands:
    """What a variant is called with.

    Attributes:
        dtype: Element type of the inputs, ``bf16``.
        minimum_bytes: Shape to the bytes that any implementation must move: inputs once, outputs once.
        make_inputs: Shape to the operator's tensors, in their order; touches no memory beyond small index tensors.
    """

    dtype: str
    minimum_bytes: Callable[[Shape], int]
    make_inputs: Callable[[Shape], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Schedule:
    """What several GPUs do, and what it stands for.

    Attributes:
        program: Their streams, as ``wavecast.simulator.overlap.program`` describes them.
        node: The GPUs.
        product: The product as a whole, for the vendor's library: a kernel of that module; None of a collective alone.
        collectives: What is to be hidden: calls of the vendor's library, one after the other.
    """

    program: ProgramLike
    node: Node
    product: KernelLike | None
    collectives: tuple[KernelLike, ...]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An ordinary function that calls an operator of ``wavecast.kernels``, and what is known about it.

    ``measure`` runs it on a GPU, ``predict`` the same function under a virtual device. An operator of which there is no
    other form than ours has one variant, ``wavecast``, and compares nothing; what is asked of it is the same.

    Attributes:
        name: Name in the catalogue.
        summary: One line that says what is compared, or what the operator does.
        variants: Names of the variants, the baseline first.
        shapes: Shapes that are run when none is asked for; all have the same keys.
        device: Device of the published figures, used when none is asked for.
        dtype: Element type of the inputs, ``bf16``.
        published: Published times.
        remark: What else was published, or how a published headline differs from its source; empty if nothing.
        minimum_bytes: As in ``Operands``.
        make_inputs: As in ``Operands``.
        operator: Module whose ``VARIANTS`` has the variants, or ``module:function`` where there is one only; imported
            when one is run, so that the catalogue can be listed without torch.
        flop: Shape to the operations of a product, on each GPU; None where only bytes count.
        linked_bytes: Shape to the bytes that a GPU receives from the others; None where there is one.
        other_operands: Variants that are called with something else than the others.
        elsewhere: Published times of code that is no variant, on a shape of the experiment.
        by_default: Whether ``predict`` without names runs it.
        schedule: Variant, shape and device to the streams of several GPUs; such an experiment is predicted from them,
            and calls no operator.
        alternatives: Variant, shape and device to other ways of carrying it out, by what they are called.
        parts: Variants of a schedule that are timed beside the others, and do a part of what they do.
        group_shapes: Of a schedule: number of GPUs to the shapes that are measured on so many.
        whole: Whether every workgroup is executed: where few long ones read the same lines and cannot stand for one
            another, or a launch reads what an earlier one left in the memory-side cache.
        works: Variant and shape to what its kernels do that hand work to units beside their warps, launch by launch.
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
    flop: Callable[[Shape], int] | None = None
    linked_bytes: Callable[[Shape], int] | None = None
    other_operands: Mapping[str, Operands] = field(default_factory=dict)
    elsewhere: tuple[Published, ...] = ()
    by_default: bool = True
    whole: bool = False
    schedule: Callable[[str, Shape, str], Schedule] | None = None
    alternatives: Callable[[str, Shape, str], Mapping[str, Schedule]] | None = None
    works: Callable[[str, Shape], Mapping[str, Sequence[Work]]] | None = None
    parts: tuple[str, ...] = ()
    group_shapes: Callable[[int], tuple[Shape, ...]] | None = None

    def operands(self, variant: str) -> Operands:
        """What ``variant`` is called with."""
        return self.other_operands.get(variant) or Operands(self.dtype, self.minimum_bytes, self.make_inputs)

    def run(self, variant: str, inputs: tuple[Any, ...]) -> Any:
        """Run one variant on the inputs; the result is the operator's."""
        return find_variant(self.operator, variant)(*inputs)

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return self.variants[0]

    def published_for(self, variant: str, *, shape: Shape, device: str) -> Published | None:
        """The published time of ``variant`` on exactly this shape and device, or None."""
        found = _on(self.published, shape=shape, device=device)
        return next((item for item in found if item.variant == variant), None)

    def caches_on(self, device: str) -> str:
        """What caches hold before a call that is predicted for a device: what they held where times were published.

        One for all variants and shapes, so that they can be compared.
        """
        return next((item.caches for item in self.published if item.device == device), CLEAN)

    def published_elsewhere(self, *, shape: Shape, device: str) -> list[Published]:
        """Published times of other code on exactly this shape and device."""
        return _on(self.elsewhere, shape=shape, device=device)


def _on(items: Iterable[Published], *, shape: Shape, device: str) -> list[Published]:
    return [item for item in items if (dict(item.shape), item.device) == (dict(shape), device)]
