"""Families of code: what the generated functions of one family are made of."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .kinds import KINDS, SCALARS, Kind, some_kind

_INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
_FLOATS = ("f16", "f32", "f64")
_CONTROL = frozenset({"branch", "loop", "switch"})


@dataclass(frozen=True, slots=True)
class Family:
    """What a function may be made of.

    Attributes:
        name: As the user gives it.
        kinds: Names of the scalar types; empty for all but ``bf16``.
        forms: Kinds of operation (the tags in ``expressions.py``); empty for all.
        pairs: Share of pairs among the variables.
        select: Share of ``a ? b : c`` among the operations.
        statements: ``branch``, ``loop``, ``switch`` and ``array``; empty for straight-line code.
        width: Elements that a work-item may load from an input: sizes of vectors.
        atomics: Share of functions with atomics on global memory.
        shared: Share of functions that go through LDS.
        lanes: Share of functions that take values of other lanes.
        scalar: Share of functions that begin with code on parameters alone.
    """

    name: str
    kinds: tuple[str, ...] = ()
    forms: frozenset[str] = frozenset()
    pairs: float = 0.0
    select: float = 0.12
    statements: frozenset[str] = frozenset()
    width: tuple[int, ...] = (1, 2, 4)
    atomics: float = 0.0
    shared: float = 0.0
    lanes: float = 0.0
    scalar: float = 0.3

    def kind(self, rng: random.Random, among: tuple[Kind, ...] = SCALARS) -> Kind:
        """A type of the family among the given ones; any of those if the family has none of them."""
        own = tuple(kind for kind in among if kind.name in self.kinds)
        if among is SCALARS and self.kinds:
            own = tuple(KINDS[name] for name in self.kinds)
        return some_kind(rng, own or among)


def _family(name: str, kinds: tuple[str, ...], forms: str, **more: object) -> Family:
    return Family(name, kinds, frozenset(forms.split()), **more)  # type: ignore[arg-type]


# Everything together, as the tests of the engine use it.
MIXED = Family(
    "mixed", pairs=0.2, statements=_CONTROL | {"array"}, atomics=0.5, shared=0.5, lanes=0.5, scalar=0.6
)  # fmt: skip
FAMILIES = {
    family.name: family
    for family in (
        _family("integer", _INTEGERS, "arithmetic logic wide extreme combined"),
        _family("bits", _INTEGERS, "shift field bits logic combined"),
        _family("compare", (), "truth extreme logic", select=0.5),
        _family("single", ("f32",), "multiply add fused negate round extreme median scale"),
        _family("double", ("f64",), "multiply add fused negate round extreme median scale"),
        _family("half", ("f16", "f32"), "multiply add fused negate round extreme median real"),
        _family("bfloat", ("bf16", "f32"), "multiply add fused negate round extreme real"),
        _family("convert", (*_INTEGERS, *_FLOATS, "bf16"), "convert from_float real integer reinterpret add"),
        _family("packed", ("i16", "u16", "f16", "f32"), "multiply add arithmetic from_pair packed", pairs=0.8),
        _family("division", ("i32", "u32", "i64", "u64", *_FLOATS), "divide add arithmetic root"),
        _family("memory", (*_INTEGERS, *_FLOATS), "arithmetic add convert real", width=(1, 2, 3, 4, 8),
                statements=frozenset({"array"})),
        _family("shared", (*_INTEGERS, *_FLOATS), "arithmetic add logic", shared=1.0),
        _family("lanes", ("i32", "u32", "f32"), "arithmetic add logic extreme", lanes=1.0),
        _family("atomics", ("i32", "u32", "i64", "u64", "f32", "f64"), "arithmetic add logic", atomics=1.0, shared=0.5,
                statements=frozenset({"branch"})),
        _family("control", ("i32", "u32", "f32", "i64"), "arithmetic add logic shift truth", statements=_CONTROL,
                scalar=0.8),
        MIXED,
    )
}  # fmt: skip
