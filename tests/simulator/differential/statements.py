"""Random C statements: declarations, divergent branches, loops, switches, local arrays and atomics."""

from __future__ import annotations

from dataclasses import dataclass, field

from .choices import Choices
from .expressions import Expressions, Scope
from .families import MIXED, Family
from .kinds import KINDS, PAIRS, Kind

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
        family: What the function may be made of.
    """

    rng: Choices
    arrays: list[Array] = field(default_factory=list)
    counter: int = 0
    atomics: list[tuple[str, Kind, tuple[str, ...]]] = field(default_factory=list)
    family: Family = MIXED

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def expression(self, scope: Scope, kind: Kind, depth: int | None = None) -> str:
        return Expressions(self.rng, scope, self.family).of(kind, self.rng.randint(1, 4) if depth is None else depth)

    def index(self, scope: Scope, length: int) -> str:
        return Expressions(self.rng, scope, self.family).index(length, self.rng.randint(0, 2))

    def condition(self, scope: Scope) -> str:
        return Expressions(self.rng, scope, self.family).condition(self.rng.randint(1, 2))

    def declare(self, scope: Scope, kind: Kind) -> str:
        text, name = self.expression(scope, kind), self.fresh("v")
        scope.variables.append((name, kind))
        return f"{kind.name} {name} = {text};"

    def any_kind(self) -> Kind:
        return self.rng.choice(PAIRS) if self.rng.random() < self.family.pairs else self.family.kind(self.rng)

    def block(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int, count: int) -> list[str]:
        """Statements; ``mutable`` are the variables that they may change."""
        lines: list[str] = []
        mutable = list(mutable)  # What is declared here is not known outside.
        for _ in range(count):
            with self.rng.span() as short:
                if not short:
                    lines += self._statement(scope, mutable, depth)
        return lines

    def _statement(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int) -> list[str]:
        choice = self.rng.random()
        if choice < 0.35 or not mutable:
            text = self.declare(scope, self.any_kind())
            mutable.append(scope.variables[-1])
            return [text]
        if choice < 0.6 or depth <= 0:
            name, kind = self.rng.choice(mutable)
            return [f"{name} = {self.expression(scope, kind)};"]
        if choice < 0.66 and self.atomics:
            return self.atomic(scope)
        if choice < 0.72 and "array" in self.family.statements:
            return self._local_array(scope)
        return self._control(scope, mutable, depth)

    def _control(self, scope: Scope, mutable: list[tuple[str, Kind]], depth: int) -> list[str]:
        forms = {"branch": self._branch, "loop": self._loop, "switch": self._switch}
        own = [name for name in ("branch", "branch", "loop", "loop", "switch") if name in self.family.statements]
        if own:
            return forms[self.rng.choice(own)](scope, mutable, depth)
        name, kind = self.rng.choice(mutable)
        return [f"{name} = {self.expression(scope, kind)};"]

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
        name, kind, index = self.fresh("a"), self.family.kind(self.rng), self.fresh("k")
        length = self.rng.choice([4, 8, 16, 64])
        inner = scope.copy()
        inner.variables.append((index, _U32))
        first = self.expression(inner, kind, 2)
        lines = [f"{kind.name} {name}[{length}]; for (u32 {index} = 0; {index} < {length}; {index}++)"]
        lines.append(f"  {name}[{index}] = {first};")
        scope.arrays.append((name, kind, length))
        for _ in range(self.rng.randint(0, 3)):
            place = Expressions(self.rng, scope, self.family).index(length, 1)
            lines.append(f"{name}[{place}] = {self.expression(scope, kind, 2)};")
        return lines

    def atomic(self, scope: Scope) -> list[str]:
        place, kind, operations = self.rng.choice(self.atomics)
        operation = self.rng.choice(operations)
        place = place.replace("@", Expressions(self.rng, scope, self.family).index(ATOMIC_LENGTH, 1))
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
