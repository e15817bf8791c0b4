"""Random C expressions whose value is defined for every value of their variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .choices import Choices
from .families import MIXED, Family
from .kinds import BFLOAT, FLOATS, INTEGERS, KINDS, PAIRS, Kind, some_constant

_U32 = KINDS["u32"]
_UNARY = ("ones", "leading", "trailing", "mirror", "swap")
_BINARY = ("high", "carry", "borrow", "least", "most", "add_sat", "sub_sat")
_TERNARY = ("insert", "distance", "short_product", "middle")
# Tag, weight and writer of a form.
Tagged = tuple[str, int, Callable[[], str]]
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
        family: What it may be made of.
    """

    rng: Choices
    scope: Scope
    family: Family = MIXED

    def of(self, kind: Kind, depth: int) -> str:
        """An expression of a type, at most ``depth`` operations deep."""
        with self.rng.span() as short:
            if short:
                return f"(({kind.name}){{1, 1}})" if kind.element else f"(({kind.name})1)"
            return self._of(kind, depth)

    def _of(self, kind: Kind, depth: int) -> str:
        if depth <= 0:
            return self._leaf(kind)
        if kind.element:
            return self._pair(kind, depth)
        if self.rng.random() > 1 - self.family.select:
            return f"({self.condition(depth - 1)} ? {self.of(kind, depth - 1)} : {self.of(kind, depth - 1)})"
        if kind.name == "bf16":
            return self._bfloat(kind, depth)
        return self._float(kind, depth) if kind.is_float else self._integer(kind, depth)

    def condition(self, depth: int) -> str:
        """A truth value."""
        choice = self.rng.random()
        if choice < 0.15 and depth > 0:
            return (
                f"({self.condition(depth - 1)} {self.rng.choice(['&&', '||', '^', '=='])} {self.condition(depth - 1)})"
            )
        if choice < 0.25:
            return f"__builtin_isfpclass({self.of(self.family.kind(self.rng, FLOATS), depth - 1)}, {self._classes()})"
        kind = self.family.kind(self.rng)
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
        if kind.name == "bf16":
            return f"to_bf16((f32){text})"
        if known.name == "bf16" and kind.is_float:
            return self._converted(kind, KINDS["f32"], f"(f32){text}")
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

        def divisor() -> str:
            return sub() if self.rng.random() < 0.5 else some_constant(self.rng, kind)

        forms: list[Tagged] = [
            ("arithmetic", 10, lambda: f"(({name})({sub()} {self.rng.choice('+-*')} {sub()}))"),
            ("logic", 5, lambda: f"(({name})({sub()} {self.rng.choice('&|^')} {sub()}))"),
            ("logic", 2, lambda: f"(({name})({self.rng.choice('~-')}{sub()}))"),
            ("shift", 5, lambda: call(self.rng.choice(["shl", "shr", "rotate"]), 1, self._count(depth - 1))),
            ("field", 1, lambda: call("field", 1, self._count(0), self._count(0))),
            (
                "divide",
                2,
                lambda: f"(({name})({sub()} {self.rng.choice('/%')} divisor_{name}({some_constant(self.rng, kind)})))",
            ),
            ("bits", 3, lambda: call(self.rng.choice(_UNARY), 1)),
            ("wide", 5, lambda: call(self.rng.choice(_BINARY), 2)),
            ("combined", 3, lambda: call(self.rng.choice(_TERNARY), 3)),
            ("truth", 1, lambda: f"(({name}){self.condition(depth - 1)})"),
            ("convert", 4, lambda: f"(({name}){sub(self.family.kind(self.rng, INTEGERS))})"),
            ("from_float", 3, lambda: self._from_float(kind, depth)),
        ]
        if kind.is_signed:
            forms.append(("extreme", 1, lambda: call("size", 1)))
        return self._one_of(kind, forms)

    def _one_of(self, kind: Kind, forms: list[Tagged]) -> str:
        """One of the forms that the family has; a leaf if it has none of them."""
        own = [(weight, form) for tag, weight, form in forms if not self.family.forms or tag in self.family.forms]
        if not own:
            return self._leaf(kind)
        return self.rng.choices([form for _, form in own], [weight for weight, _ in own])[0]()

    def _count(self, depth: int) -> str:
        return self.of(_U32, depth) if self.rng.random() < 0.6 else str(self.rng.randrange(64))

    def _from_float(self, kind: Kind, depth: int) -> str:
        real = self._real()
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
        forms: list[Tagged] = [
            ("multiply", 4, lambda: f"({sub()} * {sub()})"),
            ("add", 8, lambda: call(self.rng.choice(["plus", "minus"]), 2)),
            ("divide", 2, lambda: f"({sub()} / {sub()})"),
            ("negate", 2, lambda: f"(-{sub()})"),
            ("fused", 4, lambda: call("fused", 3)),
            ("round", 5, lambda: call(self.rng.choice(unary), 1)),
            ("extreme", 4, lambda: call(self.rng.choice(["least", "most", "sign"]), 2)),
            ("root", 1, lambda: call("root", 1)),
            ("median", 1, lambda: call("median", 3)),
            ("integer", 3, lambda: f"(({name}){sub(self.family.kind(self.rng, INTEGERS))})"),
            ("real", 3, lambda: self._from_real(kind, self._real(), depth)),
            ("reinterpret", 1, lambda: f"float_{name}({sub(KINDS[f'u{kind.bits}'])})"),
            ("from_pair", 1, lambda: self._half_of_pair(kind, depth)),
        ]
        if kind.bits > 16:
            forms.append(("scale", 1, lambda: f"scale_{name}({sub()}, {sub(KINDS['i32'])})"))
        return self._one_of(kind, forms)

    def _bfloat(self, kind: Kind, depth: int) -> str:
        def call(helper: str, count: int) -> str:
            return f"{helper}_bf16({', '.join(self.of(kind, depth - 1) for _ in range(count))})"

        forms: list[Tagged] = [
            ("multiply", 4, lambda: call("times", 2)),
            ("add", 8, lambda: call(self.rng.choice(["plus", "minus"]), 2)),
            ("negate", 2, lambda: f"(-{self.of(kind, depth - 1)})"),
            ("round", 1, lambda: call("size", 1)),
            ("fused", 4, lambda: call("fused", 3)),
            ("round", 3, lambda: call(self.rng.choice(["root", "near", "down", "up", "whole", "unit"]), 1)),
            ("extreme", 4, lambda: call(self.rng.choice(["least", "most", "sign"]), 2)),
            ("real", 6, lambda: self._from_real(kind, self._real(), depth)),
            ("integer", 3, lambda: self._from_real(kind, self.family.kind(self.rng, INTEGERS), depth)),
        ]
        return self._one_of(kind, forms)

    def _real(self) -> Kind:
        """A type of floats of the family."""
        return self.family.kind(self.rng, (*FLOATS, BFLOAT) if "bf16" in self.family.kinds else FLOATS)

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
