"""Random C statements: declarations, divergent branches, loops, switches, local arrays and atomics."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .expressions import Expressions, Scope, every_kind
from .kinds import KINDS, Kind, some_kind

_U32 = KINDS["u32"]
ATOMIC_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Array:
    """A parameter that points to memory.

    Attributes:
        name: Of the parameter.
        kind: Of its elements.
        per_item: Elements a work-item; 0 for one array of ``length`` that all share.
        length: Elements of a shared array.
        is_input: Whether it is only read.
    """

    name: str
    kind: Kind
    per_item: int = 0
    length: int = 0
    is_input: bool = False


@dataclass(slots=True)
class Writer:
    """Writes the statements of one function.

    Attributes:
        rng: Decides everything.
        arrays: Pointer parameters so far.
        atomics: Where atomics may go to: C text of the place (``@`` stands for an index), its type, operations.
    """

    rng: random.Random
    arrays: list[Array] = field(default_factory=list)
    counter: int = 0
    atomics: list[tuple[str, Kind, tuple[str, ...]]] = field(default_factory=list)

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def expression(self, scope: Scope, kind: Kind, depth: int | None = None) -> str:
        return Expressions(self.rng, scope).of(kind, self.rng.randint(1, 4) if depth is None else depth)

    def index(self, scope: Scope, length: int) -> str:
        return Expressions(self.rng, scope).index(length, self.rng.randint(0, 2))

    def condition(self, scope: Scope) -> str:
        return Expressions(self.rng, scope).condition(self.rng.randint(1, 2))

    def declare(self, scope: Scope, kind: Kind) -> str:
        text, name = self.expression(scope, kind), self.fresh("v")
        scope.variables.append((name, kind))
        return f"{kind.name} {name} = {text};"

    def any_kind(self) -> Kind:
        return self.rng.choice(every_kind()) if self.rng.random() < 0.2 else some_kind(self.rng)

    def block(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int, count: int) -> list[str]:
        """Statements; ``mutable`` are the variables that they may change."""
        lines: list[str] = []
        for _ in range(count):
            choice = self.rng.random()
            if choice < 0.35 or not mutable:
                lines.append(self.declare(scope, self.any_kind()))
                mutable = [*mutable, scope.variables[-1]]
            elif choice < 0.6 or depth <= 0:
                name, kind = self.rng.choice(mutable)
                lines.append(f"{name} = {self.expression(scope, kind)};")
            elif choice < 0.66 and self.atomics:
                lines += self.atomic(scope)
            elif choice < 0.72:
                lines += self._local_array(scope)
            else:
                lines += self.rng.choice([self._branch, self._branch, self._loop, self._loop, self._switch])(
                    scope, mutable, depth
                )
        return lines

    def _branch(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int) -> list[str]:
        lines = [f"if ({self.condition(scope)}) {{"]
        lines += self.block(scope.copy(), mutable, depth - 1, self.rng.randint(1, 3))
        if self.rng.random() < 0.6:
            lines.append("} else {")
            lines += self.block(scope.copy(), mutable, depth - 1, self.rng.randint(1, 3))
        return [*lines, "}"]

    def _loop(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int) -> list[str]:
        index, limit, inner = self.fresh("k"), self.fresh("n"), scope.copy()
        lines = [f"u32 {limit} = {self.expression(scope, _U32, 1)} & {self.rng.choice([3, 7, 15])};"]
        lines.append(f"for (u32 {index} = 0; {index} < {limit}; {index}++) {{")
        inner.variables.append((index, _U32))
        lines += self.block(inner, mutable, depth - 1, self.rng.randint(1, 3))
        if self.rng.random() < 0.4:
            lines.append(f"if ({self.condition(inner)}) {self.rng.choice(['break', 'continue'])};")
            lines += self.block(inner, mutable, 0, 1)
        return [*lines, "}"]

    def _switch(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int) -> list[str]:
        cases = self.rng.choice([3, 5, 8])
        lines = [f"switch ({self.expression(scope, _U32, 2)} % {cases + 1}) {{"]
        for case in range(cases):
            lines.append(f"case {case}: {{")
            lines += self.block(scope.copy(), mutable, depth - 1, 1)
            lines.append("}" if self.rng.random() < 0.2 else "} break;")
        return [*lines, "default: break;", "}"]

    def _local_array(self, scope: Scope) -> list[str]:
        name, kind, index = self.fresh("a"), some_kind(self.rng), self.fresh("k")
        length = self.rng.choice([4, 8, 16, 64])
        inner = scope.copy()
        inner.variables.append((index, _U32))
        lines = [f"{kind.name} {name}[{length}];", f"for (u32 {index} = 0; {index} < {length}; {index}++)"]
        lines.append(f"  {name}[{index}] = {self.expression(inner, kind, 2)};")
        scope.arrays.append((name, kind, length))
        for _ in range(self.rng.randint(0, 3)):
            place = Expressions(self.rng, scope).index(length, 1)
            lines.append(f"{name}[{place}] = {self.expression(scope, kind, 2)};")
        return lines

    def atomic(self, scope: Scope) -> list[str]:
        place, kind, operations = self.rng.choice(self.atomics)
        operation = self.rng.choice(operations)
        place = place.replace("@", Expressions(self.rng, scope).index(ATOMIC_LENGTH, 1))
        value = self.expression(scope, kind, 2)
        if not place.endswith("[id]"):
            return [f"ATOMIC({operation}, &{place}, {value});"]
        # A place that only this work-item knows: what the operation returns is definite.
        name, expected = self.fresh("v"), self.expression(scope, kind, 0) if self.rng.random() < 0.3 else place
        scope.variables.append((name, kind))
        if operation == "compare_exchange_n":
            call = f"__scoped_atomic_compare_exchange_n(&{place}, &{name}, {value}, 0, 0, 0, __MEMORY_SCOPE_DEVICE)"
            return [f"{kind.name} {name} = {expected};", f"if ({call}) {name} += ({kind.name})1;"]
        return [f"{kind.name} {name} = ATOMIC({operation}, &{place}, {value});"]
