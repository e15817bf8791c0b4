"""Random functions: straight-line code, divergent control flow, local arrays, LDS between barriers, atomics.

A function is a sequence of phases with a barrier after each. On the GPU a work-item calls one after the other; on the
CPU each phase runs for all work-items of a workgroup before the next one does, which is what a barrier means. Within a
phase no work-item depends on what another one does: LDS is either read, or written by its owner, or changed by atomics
that commute, and only then looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Choices
from .expressions import Scope
from .families import MIXED, Family
from .kinds import KINDS, Kind
from .statements import ATOMIC_LENGTH, Array, Writer

_U32 = KINDS["u32"]
GATHER_LENGTH = 64
_ATOMIC_KINDS = ("i32", "u32", "i64", "u64")
_COMMUTING = ("fetch_add", "fetch_or", "fetch_and", "fetch_xor", "fetch_min", "fetch_max")
Variables = list[tuple[str, Kind]]


@dataclass(frozen=True, slots=True)
class Function:
    """One generated function.

    Attributes:
        name: Symbol of the kernel and of the CPU's function.
        seed: What it was generated from.
        arrays: Pointer parameters, in order.
        scalars: Names and types of the scalar parameters behind them.
        group_size: Work-items a workgroup.
        groups: Workgroups.
        source: C text for both targets, without the prelude.
    """

    name: str
    seed: int
    arrays: tuple[Array, ...]
    scalars: tuple[tuple[str, Kind], ...]
    group_size: int
    groups: int
    source: str


@dataclass(slots=True)
class _Shared:
    """An array in LDS."""

    name: str
    kind: Kind
    length: int


@dataclass(slots=True)
class _Phase:
    """What a work-item does between two barriers; ``kept`` are the variables that the next phase goes on with."""

    lines: list[str]
    scope: Scope
    kept: Variables


@dataclass(slots=True)
class _Draft:
    """A function while it is written."""

    writer: Writer
    parameters: Variables
    group_size: int
    phases: list[_Phase]
    shared: list[_Shared]

    def next_phase(self, lines: list[str]) -> _Phase:
        """A new phase that knows the parameters and what the phase before it kept."""
        kept = self.phases[-1].kept
        known = [*self.parameters, ("group", _U32), ("id", _U32), ("item", _U32), *kept]
        self.phases.append(_Phase(lines, Scope(known), kept))
        return self.phases[-1]


def generate(seed: int, family: Family = MIXED, rng: Choices | None = None) -> Function:
    """The function of a seed.

    Args:
        seed: Decides the values, and, without ``rng``, the function.
        family: What the function is made of.
        rng: Decides the function.
    """
    rng = rng or Choices(seed)
    group_size, groups = rng.choice([64, 128, 256]), rng.choice([1, 2, 3])
    parameters = [(f"s{i}", family.kind(rng)) for i in range(rng.randint(2, 6))]
    inputs = [
        Array(f"in{i}", family.kind(rng), per_item=rng.choice(family.width), is_input=True)
        for i in range(rng.randint(2, 4))
    ]
    inputs.append(Array("gather", family.kind(rng), length=GATHER_LENGTH, is_input=True))
    draft = _Draft(Writer(rng, list(inputs), family=family), parameters, group_size, [], [])
    _first_phase(draft, inputs)
    if rng.random() < family.shared:
        for _ in range(rng.randint(1, 2)):
            _through_shared_memory(draft)
    if rng.random() < family.lanes:
        for _ in range(rng.randint(1, 2)):
            _through_other_lanes(draft)
    last = draft.phases[-1]
    last.lines += _results(draft.writer, last.scope)
    name = f"{family.name}{seed}"
    return Function(
        name, seed, tuple(draft.writer.arrays), tuple(parameters), group_size, groups, _assemble(name, draft)
    )


def _first_phase(draft: _Draft, inputs: list[Array]) -> None:
    """Code on parameters alone, which the GPU's scalar unit runs, then code on what each work-item loads."""
    writer, rng = draft.writer, draft.writer.rng
    gather = inputs[-1]
    uniform = Scope([*draft.parameters, ("group", _U32)], [(gather.name, gather.kind, gather.length)])
    lines: list[str] = []
    before = len(uniform.variables)
    if rng.random() < writer.family.scalar:
        lines += writer.block(uniform, [], rng.choice([0, 1]), rng.randint(1, 5))
    mutable = uniform.variables[before:]
    scope = uniform.copy()
    scope.variables += [("id", _U32), ("item", _U32)]
    known = len(scope.variables)
    for array in inputs[:-1]:
        for part in range(array.per_item):
            variable = writer.fresh("v")
            lines.append(f"{array.kind.name} {variable} = {array.name}[id * {array.per_item} + {part}];")
            scope.variables.append((variable, array.kind))
    if rng.random() < writer.family.atomics:
        _add_atomics(writer)
    lines += writer.block(scope, mutable, 2, rng.randint(3, 9))
    draft.phases.append(_Phase(lines, scope, [*mutable, *scope.variables[known:]][-8:]))


def _add_atomics(writer: Writer) -> None:
    for _ in range(writer.rng.randint(1, 2)):
        kind, name = KINDS[writer.rng.choice(_ATOMIC_KINDS)], writer.fresh("total")
        writer.arrays.append(Array(name, kind, length=ATOMIC_LENGTH))
        writer.atomics.append((f"{name}[@]", kind, (writer.rng.choice(_COMMUTING),)))
    kind, name = KINDS[writer.rng.choice([*_ATOMIC_KINDS, "f32", "f64"])], writer.fresh("own")
    writer.arrays.append(Array(name, kind, per_item=1))
    operations = ("fetch_add", "fetch_sub") if kind.is_float else (*_COMMUTING, "exchange_n", "compare_exchange_n")
    writer.atomics.append((f"{name}[id]", kind, operations))


def _through_shared_memory(draft: _Draft) -> None:
    """Every work-item writes its elements of LDS; after a barrier atomics change some; after another all are read."""
    writer, rng = draft.writer, draft.writer.rng
    arrays = [
        _Shared(writer.fresh("lds"), writer.family.kind(rng), draft.group_size * rng.choice([1, 2]))
        for _ in range(rng.randint(1, 2))
    ]
    counters = _Shared(writer.fresh("lds"), KINDS[rng.choice(_ATOMIC_KINDS)], ATOMIC_LENGTH)
    last = draft.phases[-1]
    for array in arrays:
        for part in range(array.length // draft.group_size):
            turn = rng.randrange(draft.group_size)
            value = writer.expression(last.scope, array.kind, 2)
            last.lines.append(f"{array.name}[{part * draft.group_size} + (item ^ {turn})] = {value};")
    draft.shared += arrays
    if rng.random() < 0.5:
        draft.shared.append(counters)
        start = writer.expression(last.scope, counters.kind, 2)
        last.lines.append(f"if (item < {ATOMIC_LENGTH}) {counters.name}[item] = {start};")
        elsewhere = writer.atomics
        writer.atomics = [(f"{counters.name}[@]", counters.kind, (rng.choice(_COMMUTING),))]
        phase = draft.next_phase([])
        phase.lines += writer.atomic(phase.scope)
        phase.lines += writer.block(phase.scope, list(phase.kept), 2, rng.randint(1, 3))
        writer.atomics = elsewhere
        arrays = [*arrays, counters]
    phase = draft.next_phase([])
    phase.scope.arrays += [(array.name, array.kind, array.length) for array in arrays]
    if counters in arrays:
        # What the atomics made is always looked at.
        out = Array(writer.fresh("out"), counters.kind, per_item=1)
        writer.arrays.append(out)
        phase.lines.append(f"{out.name}[id] = {counters.name}[item & {ATOMIC_LENGTH - 1}];")
    known = len(phase.scope.variables)
    for array in arrays:
        variable = writer.fresh("v")
        place = writer.index(phase.scope, array.length)
        phase.lines.append(f"{array.kind.name} {variable} = {array.name}[{place}];")
        phase.scope.variables.append((variable, array.kind))
    phase.lines += writer.block(phase.scope, list(phase.kept), 2, rng.randint(2, 5))
    phase.kept = [*phase.kept, *phase.scope.variables[known:]][-8:]


def _through_other_lanes(draft: _Draft) -> None:
    """A phase that takes values of other lanes of the wave, and one that goes on with them.

    The first changes no variable that it has: the CPU's work-items read each other's while they run it.
    """
    writer, rng = draft.writer, draft.writer.rng
    words = [(name, kind) for name, kind in draft.phases[-1].kept if kind.name in ("i32", "u32", "f32")]
    if not words:
        return
    phase = draft.next_phase([])
    known = len(phase.scope.variables)
    for _ in range(rng.randint(1, 4)):
        (old, kind), new = rng.choice(words), writer.fresh("v")
        control = rng.choice(
            [rng.randrange(256), *(base + rng.randint(1, 15) for base in (0x100, 0x110, 0x120, 0x150))]
        )
        control = rng.choice([control, control, rng.choice([0x140, 0x141, 0x142, 0x143])])
        macro = rng.choice(
            [
                f"FROM_LANE({new}, {old}, {writer.expression(phase.scope, _U32, 1)} & 63)",
                f"FROM_FIRST({new}, {old})",
                f"FROM_ROW({new}, {old}, {control}, {rng.choice([15, 15, 10, 12])}, {rng.choice([15, 15, 5])})",
                f"FROM_ROW_OR_ZERO({new}, {old}, {control})",
                f"FROM_ROW_OR_ZERO({new}, {old}, {control})",
            ]
        )
        phase.lines.append(f"{kind.name} {new}; {macro};")
        result = writer.fresh("v")
        if rng.random() < 0.6:
            # The exchange has this one use: clang makes it part of the operation.
            forms = ["{0} + {1}", "{0} - {1}", "least_{2}({0}, {1})", "most_{2}({1}, {0})"]
            forms += ["{0} * {1}"] if kind.is_float else ["{0} & {1}", "{1} | {0}", "{1} ^ {0}", "shr_{2}({1}, {0})"]
            text = rng.choice(forms).format(
                new, rng.choice([name for name, known in phase.scope.variables if known == kind]), kind.name
            )
        else:
            phase.scope.variables.append((new, kind))
            text = writer.expression(Scope([(old, kind), (new, kind)]), kind, 1)
        phase.lines.append(f"{kind.name} {result} = {text};")
        phase.scope.variables.append((result, kind))
    bits = [name for name, kind in words if not kind.is_float]
    if bits and rng.random() < 0.5:
        mask, count = writer.fresh("v"), writer.fresh("v")
        phase.lines.append(f"u64 {mask}; BALLOT({mask}, {rng.choice(bits)}); u32 {count}; SET_BELOW({count}, {mask});")
        phase.scope.variables += [(mask, KINDS["u64"]), (count, _U32)]
    phase.kept = [*phase.kept, *phase.scope.variables[known:]][-10:]
    phase = draft.next_phase([])
    known = len(phase.scope.variables)
    phase.lines += writer.block(phase.scope, list(phase.kept), 1, rng.randint(1, 3))
    phase.kept = [*phase.kept, *phase.scope.variables[known:]][-8:]


def _results(writer: Writer, scope: Scope) -> list[str]:
    """Stores of some of the variables, and of a few expressions of them."""
    lines = []
    own = [(name, kind) for name, kind in scope.variables if name.startswith("v")]
    for name, kind in writer.rng.sample(own, min(len(own), writer.rng.randint(2, 6))):
        parts, element = (("x", "y"), KINDS[kind.element]) if kind.element else (("",), kind)
        out = Array(writer.fresh("out"), element, per_item=len(parts))
        writer.arrays.append(out)
        for number, part in enumerate(parts):
            lines.append(f"{out.name}[id * {len(parts)} + {number}] = {name}{'.' * bool(part)}{part};")
    for _ in range(2):
        out = Array(writer.fresh("out"), writer.family.kind(writer.rng), per_item=1)
        writer.arrays.append(out)
        lines.append(f"{out.name}[id] = {writer.expression(scope, out.kind)};")
    # Neighbours, which clang stores together.
    out = Array(writer.fresh("out"), writer.family.kind(writer.rng), per_item=writer.rng.choice([3, 4]))
    writer.arrays.append(out)
    lines += [
        f"{out.name}[id * {out.per_item} + {number}] = {writer.expression(scope, out.kind, 1)};"
        for number in range(out.per_item)
    ]
    return lines


def _assemble(name: str, draft: _Draft) -> str:
    """The phases as inline functions, the kernel, and the CPU's loops over workgroups and work-items."""
    arrays, size = draft.writer.arrays, draft.group_size
    pointers = [f"{'const ' * a.is_input}GLOBAL {a.kind.name} *restrict {a.name}" for a in arrays]
    values = [f"{kind.name} {variable}" for variable, kind in draft.parameters]
    shared = [f"LOCAL {array.kind.name} *{array.name}" for array in draft.shared]
    formal = ", ".join(["u32 id", "u32 item", "u32 group", f"struct {name}_state *state", *pointers, *values, *shared])
    names = [a.name for a in arrays] + [variable for variable, _ in draft.parameters] + [a.name for a in draft.shared]
    kept = {variable: kind for phase in draft.phases[:-1] for variable, kind in phase.kept}
    text = [f"struct {name}_state {{", *(f"  {kind.name} {variable};" for variable, kind in kept.items()), "};"]
    before: Variables = []
    for number, phase in enumerate(draft.phases):
        text.append(f"INLINE void {name}_{number}({formal}) {{")
        text += [f"  {kind.name} {variable} = state->{variable};" for variable, kind in before]
        text += [f"  {line}" for line in phase.lines]
        before = phase.kept
        if number + 1 < len(draft.phases):
            text += [f"  state->{variable} = {variable};" for variable, _ in before]
        text.append("}")
    call = ", ".join(names)
    text.append("#ifdef __AMDGCN__")
    text += [
        f"static LOCAL __attribute__((loader_uninitialized)) {a.kind.name} {name}_{a.name}[{a.length}];"
        for a in draft.shared
    ]
    text.append(f"__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size({size}, {size})))")
    text.append(f"void {name}({', '.join([*pointers, *values])}) {{")
    text.append("  u32 group = __builtin_amdgcn_workgroup_id_x(), item = __builtin_amdgcn_workitem_id_x();")
    text.append(f"  struct {name}_state state;")
    text += [f"  LOCAL {a.kind.name} *{a.name} = {name}_{a.name};" for a in draft.shared]
    calls = [f"  {name}_{n}(group * {size} + item, item, group, &state, {call});" for n in range(len(draft.phases))]
    text += "\n  BARRIER();\n".join(calls).splitlines()
    text += ["}", "#else", f"void {name}(u32 groups, void *const *arguments) {{"]
    text += [f"  {pointer} = arguments[{n}];" for n, pointer in enumerate(pointers)]
    text += [
        f"  {kind.name} {variable} = *(const {kind.name} *)arguments[{n}];"
        for n, (variable, kind) in enumerate(draft.parameters, start=len(arrays))
    ]
    text.append(f"  static struct {name}_state states[{size}];")
    text += [f"  static {a.kind.name} {a.name}[{a.length}];" for a in draft.shared]
    text.append("  for (u32 group = 0; group < groups; group++) {")
    for n in range(len(draft.phases)):
        text.append(f"    for (u32 item = 0; item < {size}; item++)")
        text.append(f"      {name}_{n}(group * {size} + item, item, group, &states[item], {call});")
    return "\n".join([*text, "  }", "}", "#endif", ""])
