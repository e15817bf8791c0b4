"""Random C expressions whose value is defined for every value of their variables."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from .kinds import FLOATS, INTEGERS, KINDS, PAIRS, SCALARS, Kind, some_constant, some_kind

_U32 = KINDS["u32"]
_UNARY = ("ones", "leading", "trailing", "mirror", "swap")
_BINARY = ("high", "carry", "borrow", "least", "most", "add_sat", "sub_sat")
_TERNARY = ("insert", "distance", "short_product", "middle")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(slots=True)
class Scope:
    """What an expression may use.

    Attributes:
        variables: Name and type of each variable that has a value.
        arrays: Name, type and length (a power of two) of each array that may be read.
    """

    variables: list[tuple[str, Kind]] = field(default_factory=list)
    arrays: list[tuple[str, Kind, int]] = field(default_factory=list)

    def copy(self) -> Scope:
        return Scope(list(self.variables), list(self.arrays))


@dataclass(slots=True)
class Expressions:
    """Writes expressions.

    Attributes:
        rng: Decides everything.
        scope: What may be used.
    """

    rng: random.Random
    scope: Scope

    def of(self, kind: Kind, depth: int) -> str:
        """An expression of a type, at most ``depth`` operations deep."""
        if depth <= 0:
            return self._leaf(kind)
        if kind.element:
            return self._pair(kind, depth)
        if self.rng.random() < 0.12:
            return f"({self.condition(depth - 1)} ? {self.of(kind, depth - 1)} : {self.of(kind, depth - 1)})"
        return self._float(kind, depth) if kind.is_float else self._integer(kind, depth)

    def condition(self, depth: int) -> str:
        """A truth value."""
        choice = self.rng.random()
        if choice < 0.15 and depth > 0:
            return (
                f"({self.condition(depth - 1)} {self.rng.choice(['&&', '||', '^', '=='])} {self.condition(depth - 1)})"
            )
        if choice < 0.25:
            return f"__builtin_isfpclass({self.of(some_kind(self.rng, FLOATS), depth - 1)}, {self._classes()})"
        kind = some_kind(self.rng)
        return f"({self.of(kind, depth - 1)} {self.rng.choice(_COMPARISONS)} {self.of(kind, depth - 1)})"

    def _classes(self) -> int:
        # Quiet and signalling NaNs (bits 1 and 0) are asked for together: processors may quiet a NaN on the way.
        return self.rng.randrange(1, 256) << 2 | self.rng.choice([0, 3])

    def index(self, length: int, depth: int) -> str:
        """An index below a power of two."""
        return f"({self.of(_U32, depth)} & {length - 1})"

    def _leaf(self, kind: Kind) -> str:
        names = [name for name, known in self.scope.variables if known == kind]
        arrays = [(name, length) for name, known, length in self.scope.arrays if known == kind]
        choice = self.rng.random()
        if names and choice < 0.75:
            # The newest variables are used more often, so that long chains of operations come about.
            return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]
        if arrays and choice < 0.85:
            name, length = self.rng.choice(arrays)
            return f"{name}[{self.index(length, 0)}]"
        if kind.element:
            element = KINDS[kind.element]
            return f"(({kind.name}){{{self._leaf(element)}, {self._leaf(element)}}})"
        others = [(name, known) for name, known in self.scope.variables if known != kind]
        if others and choice < 0.93:
            name, known = self.rng.choice(others)
            return self._converted(kind, known, name)
        return some_constant(self.rng, kind)

    def _converted(self, kind: Kind, known: Kind, text: str) -> str:
        if known.element:
            return self._converted(kind, KINDS[known.element], f"{text}.{self.rng.choice('xy')}")
        if known.is_float and not kind.is_float:
            return f"from_{known.name}_{kind.name}({text})"
        if known.name == "f32" and kind.name == "f16":
            return f"half_f32({text})"
        return f"(({kind.name}){text})"

    def _integer(self, kind: Kind, depth: int) -> str:
        name = kind.name

        def sub(of: Kind = kind) -> str:
            return self.of(of, depth - 1)

        def call(helper: str, count: int, *more: str) -> str:
            return f"{helper}_{name}({', '.join([*(sub() for _ in range(count)), *more])})"

        forms: list[tuple[int, Callable[[], str]]] = [
            (10, lambda: f"(({name})({sub()} {self.rng.choice('+-*')} {sub()}))"),
            (5, lambda: f"(({name})({sub()} {self.rng.choice('&|^')} {sub()}))"),
            (2, lambda: f"(({name})({self.rng.choice('~-')}{sub()}))"),
            (5, lambda: call(self.rng.choice(["shl", "shr", "rotate"]), 1, self._count(depth - 1))),
            (1, lambda: call("field", 1, self._count(0), self._count(0))),
            (2, lambda: f"(({name})({sub()} {self.rng.choice('/%')} divisor_{name}({sub()})))"),
            (2, lambda: f"(({name})({sub()} {self.rng.choice('/%')} divisor_{name}({some_constant(self.rng, kind)})))"),
            (3, lambda: call(self.rng.choice(_UNARY), 1)),
            (5, lambda: call(self.rng.choice(_BINARY), 2)),
            (3, lambda: call(self.rng.choice(_TERNARY), 3)),
            (1, lambda: f"(({name}){self.condition(depth - 1)})"),
            (4, lambda: f"(({name}){sub(some_kind(self.rng, INTEGERS))})"),
            (3, lambda: self._from_float(kind, depth)),
        ]
        if kind.is_signed:
            forms.append((1, lambda: call("size", 1)))
        return self.rng.choices([form for _, form in forms], [weight for weight, _ in forms])[0]()

    def _count(self, depth: int) -> str:
        return self.of(_U32, depth) if self.rng.random() < 0.6 else str(self.rng.randrange(64))

    def _from_float(self, kind: Kind, depth: int) -> str:
        real = some_kind(self.rng, FLOATS)
        value = self.of(real, depth - 1)
        choice = self.rng.randrange(4)
        if choice == 0:
            return f"(({kind.name})bits_{real.name}({value}))"
        if choice == 1 and real.bits > 16:
            return f"(({kind.name})exponent_{real.name}({value}))"
        if choice == 2:
            pair = self.rng.choice([pair for pair in PAIRS if not pair.is_float])
            return self._converted(kind, pair, self.of(pair, depth - 1))
        return f"from_{real.name}_{kind.name}({value})"

    def _float(self, kind: Kind, depth: int) -> str:
        name = kind.name

        def sub(of: Kind = kind) -> str:
            return self.of(of, depth - 1)

        def call(helper: str, count: int) -> str:
            return f"{helper}_{name}({', '.join(sub() for _ in range(count))})"

        unary = ["root", "near", "down", "up", "whole", "size", "unit"] + ["fraction"] * (kind.bits > 16)
        forms: list[tuple[int, Callable[[], str]]] = [
            (4, lambda: f"({sub()} * {sub()})"),
            (8, lambda: call(self.rng.choice(["plus", "minus"]), 2)),
            (2, lambda: f"({sub()} / {sub()})"),
            (2, lambda: f"(-{sub()})"),
            (4, lambda: call("fused", 3)),
            (5, lambda: call(self.rng.choice(unary), 1)),
            (4, lambda: call(self.rng.choice(["least", "most", "sign"]), 2)),
            (1, lambda: call("median", 3)),
            (3, lambda: f"(({name}){sub(some_kind(self.rng, INTEGERS))})"),
            (3, lambda: self._from_real(kind, some_kind(self.rng, FLOATS), depth)),
            (1, lambda: f"float_{name}({sub(KINDS[f'u{kind.bits}'])})"),
            (1, lambda: self._half_of_pair(kind, depth)),
        ]
        if kind.bits > 16:
            forms.append((1, lambda: f"scale_{name}({sub()}, {sub(KINDS['i32'])})"))
        return self.rng.choices([form for _, form in forms], [weight for weight, _ in forms])[0]()

    def _from_real(self, kind: Kind, real: Kind, depth: int) -> str:
        return self._converted(kind, real, self.of(real, depth - 1))

    def _half_of_pair(self, kind: Kind, depth: int) -> str:
        pair = self.rng.choice([pair for pair in PAIRS if pair.is_float])
        return self._converted(kind, pair, self.of(pair, depth - 1))

    def _pair(self, kind: Kind, depth: int) -> str:
        element = KINDS[kind.element]

        def sub() -> str:
            return self.of(kind, depth - 1)

        def call(helper: str, count: int) -> str:
            return f"{helper}_{kind.name}({', '.join(sub() for _ in range(count))})"

        forms: list[tuple[int, Callable[[], str]]] = [
            (6, lambda: f"({sub()} {self.rng.choice('+-*')} {sub()})"),
            (2, lambda: f"(({kind.name}){{{self.of(element, depth - 1)}, {self.of(element, depth - 1)}}})"),
            (2, lambda: f"({sub()}.{self.rng.choice(['yx', 'xx', 'yy'])})"),
            (2, lambda: f"({self.condition(depth - 1)} ? {sub()} : {sub()})"),
            (2, lambda: call(self.rng.choice(["least", "most"]), 2)),
        ]
        if kind.is_float:
            forms += [(3, lambda: call("fused", 3)), (1, lambda: f"(-{sub()})")]
        else:
            forms += [
                (3, lambda: f"({sub()} {self.rng.choice('&|^')} {sub()})"),
                (2, lambda: f"({sub()} {self.rng.choice(['<<', '>>'])} ({sub()} & ({element.name})15))"),
                (2, lambda: call(self.rng.choice(["add_sat", "sub_sat"]), 2)),
            ]
        return self.rng.choices([form for _, form in forms], [weight for weight, _ in forms])[0]()


def every_kind() -> tuple[Kind, ...]:
    """Scalars and pairs."""
    return (*SCALARS, *PAIRS)
