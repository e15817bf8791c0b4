"""A PTX text to a ``Kernel``: operands, parameters, memory, branches and where their lanes meet again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.instruction import (
    PTX,
    RECONVERGE,
    WARP_END,
    WARP_WAIT,
    Immediate,
    Instruction,
    Label,
    ModifierValue,
    Operand,
    Register,
    RegisterFile,
    SourceLine,
    Symbol,
)
from wavecast.simulator.program.kernel import Argument, Kernel, Resources
from wavecast.simulator.program.machine import MachineInstruction, MachineWork
from wavecast.simulator.program.ptx.control_flow import block_starts, post_dominators, successors
from wavecast.simulator.program.ptx.machine_order import Statement as Ordered
from wavecast.simulator.program.ptx.machine_order import machine_order, machine_work
from wavecast.simulator.program.ptx.results import Counter
from wavecast.simulator.program.ptx.statements import Body, Scope, Statement, read_body, split_top
from wavecast.simulator.program.ptx.waits import Wait, copies_of_a_group, step_of, waits_of

_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(\(([^)]*)\))?([^{;]*)\{", re.DOTALL)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)([^,]*?)([\w$]+)(?:\[(\d+)\])?\s*$")
_THREADS = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_VARIABLE = re.compile(r"\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)")
_CONSTANT = re.compile(
    r"^\s*(?:\.visible\s+)?\.(?:global|const)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)\s*(?:=([^;]*))?;",
    re.MULTILINE,
)
_GUARD = re.compile(r"^@(!?)([%$\w]+)\s+")
_ADDRESS = re.compile(r"^\[\s*([%$\w]+)?\s*(?:\+?\s*(-?\s*\w+))?\s*\]$")
_INTEGER = re.compile(r"^-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?$")
_DECIMAL = re.compile(r"^-?\d+\.\d*(?:[eE][+-]?\d+)?$")
_ARRAY = re.compile(r"\[(\d*)\]")
_BYTES = re.compile(r"(\d+)$")
_MOST_THREADS = 1024
# What ends the lanes that reach it, and what all lanes take.
_EXITS = ("ret", "exit")
_SELECTS = {"b16": RegisterFile.HALF, "pred": RegisterFile.PREDICATE}


def is_ptx(text: str) -> bool:
    """Whether a text is PTX."""
    return _TARGET.search(text) is not None


def ptx_target(text: str) -> str:
    """Architecture that a text is for, ``sm_90`` (``sm_90a`` too).

    Raises:
        AssemblyError: It does not say.
    """
    found = _TARGET.search(text)
    if found is None:
        raise AssemblyError("the text has no .target directive, so its architecture is unknown")
    return found[1]


def ptx_kernel_names(text: str) -> tuple[str, ...]:
    """Names of the kernels of a text, in its order.

    Raises:
        AssemblyError: It has none.
    """
    names = tuple(found[1] for found in _ENTRY.finditer(text))
    if not names:
        raise AssemblyError(
            "the text has no .entry, so no kernel", hint="give the PTX of a kernel: Triton's asm['ptx']"
        )
    return names


def parse_ptx(
    text: str,
    *,
    name: str | None = None,
    shared_bytes: int = 0,
    registers: int = 0,
    stack_bytes: int = 0,
    machine: Sequence[MachineInstruction] = (),
) -> Kernel:
    """Parse one kernel.

    Args:
        text: Output of Triton (``asm["ptx"]``).
        name: Kernel to take; may be left out when the text has only one.
        shared_bytes: Dynamic shared memory of the launch (Triton's ``shared``), added to the static size.
        registers: Registers of a lane, as the assembler reports them; PTX itself has as many as it likes.
        stack_bytes: Bytes of a lane's stack, likewise.
        machine: Its machine code, whose order the instructions of each block then have; none leaves them as they stand.

    Raises:
        AssemblyError: No such kernel, several and no name, or a statement that is not understood.
    """
    entry = _entry(text, name)
    body = read_body(text, entry.end() - 1)
    memory = _memory(text, body)
    arguments = _arguments(entry[3] or "")
    constants = _constants(text[: text.index(".entry")])
    reader = _Reader(arguments, memory.symbols, constants)
    drafts = [reader.draft(statement) for statement in body.statements]
    instructions, blocks, works = _link(entry[1], drafts, body, machine)
    threads = _THREADS.search(entry[4])
    size = _MOST_THREADS
    if threads is not None:
        size = int(threads[1]) * int(threads[2] or 1) * int(threads[3] or 1)
    return Kernel(
        name=entry[1],
        arch=ptx_target(text),
        instructions=instructions,
        blocks=blocks,
        descriptor={"system_vgpr_workitem_id": 2},
        arguments=arguments,
        kernarg_bytes=max((argument.offset + argument.size for argument in arguments), default=0),
        workgroup_size=size,
        resources=Resources(
            vgpr=registers,
            arch_vgpr=registers,
            agpr=0,
            accum_offset=registers,
            sgpr=0,
            lds_bytes=memory.shared_bytes + shared_bytes,
            scratch_bytes=max(memory.local_bytes, stack_bytes),
            vgpr_spills=0,
            sgpr_spills=0,
        ),
        constants=constants,
        files=body.files,
        machine=works,
    )


def _entry(text: str, name: str | None) -> re.Match[str]:
    entries = list(_ENTRY.finditer(text))
    names = ptx_kernel_names(text)
    if name is None:
        if len(entries) > 1:
            raise AssemblyError(f"the text has {len(names)} kernels: {', '.join(names)}", hint="name one of them")
        return entries[0]
    for entry in entries:
        if entry[1] == name:
            return entry
    raise AssemblyError(f"no kernel {name!r} in the text, which has: {', '.join(names)}")


def _arguments(text: str) -> tuple[Argument, ...]:
    """Parameters at the offsets that their alignment gives them."""
    arguments: list[Argument] = []
    offset = 0
    for part in (part.strip() for part in text.split(",") if part.strip()):
        found = _PARAMETER.search(part)
        if found is None:
            raise AssemblyError(f"parameter {part!r} is not understood")
        unit = _bytes_of(found[2])
        is_array = found[5] is not None
        # ``.ptr .global .align 1`` speaks of what a pointer points to; only an array has an alignment of its own.
        alignment = int(found[1]) if is_array and found[1] else unit
        size = unit * int(found[5]) if is_array else unit
        offset = -(-offset // alignment) * alignment
        kind = "global_buffer" if ".ptr" in found[3] else "by_value"
        arguments.append(Argument(offset, size, kind, found[4]))
        offset += size
    return tuple(arguments)


def _constants(text: str) -> dict[str, bytes]:
    """Variables in global and constant memory that the text gives values; others are not modelled."""
    found = {}
    for kind, name, dimensions, values in _CONSTANT.findall(text):
        if not values:
            continue
        size = _bytes_of(kind)
        items = [item.strip() for item in values.strip().strip("{}").split(",") if item.strip()]
        if not all(_INTEGER.match(item) or item[:2] in ("0f", "0d") for item in items):
            raise AssemblyError(f"variable {name!r} has values that are no numbers: {values.strip()[:40]!r}")
        numbers = [int(item[2:], 16) if item[:2] in ("0f", "0d") else _integer(item) for item in items]
        data = b"".join((number & (1 << 8 * size) - 1).to_bytes(size, "little") for number in numbers)
        length = size
        for count in _ARRAY.findall(dimensions):
            length *= int(count or len(items))
        found[name] = data.ljust(length, b"\0")
    return found


def _bytes_of(kind: str) -> int:
    found = _BYTES.search(kind)
    if found is None:
        raise AssemblyError(f"type .{kind} has no size that is known here")
    return int(found[1]) // 8


@dataclass(slots=True)
class _Memory:
    symbols: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    local_bytes: int = 0


def _memory(text: str, body: Body) -> _Memory:
    """Places of the variables in shared and in local memory; dynamic shared memory follows the static."""
    memory = _Memory()
    dynamic = []
    for found in _VARIABLE.finditer(text[: text.index(".entry")] + "\n" + "\n".join(body.variables)):
        space, alignment, kind, symbol, dimensions = found.groups()
        sizes = _ARRAY.findall(dimensions)
        if "" in sizes:
            dynamic.append((symbol, int(alignment or 1)))
            continue
        size = _bytes_of(kind)
        for count in sizes:
            size *= int(count)
        step = int(alignment or _bytes_of(kind))
        end = memory.shared_bytes if space == "shared" else memory.local_bytes
        memory.symbols[symbol] = -(-end // step) * step
        if space == "shared":
            memory.shared_bytes = memory.symbols[symbol] + size
        else:
            memory.local_bytes = memory.symbols[symbol] + size
    for symbol, step in dynamic:
        memory.shared_bytes = -(-memory.shared_bytes // step) * step
        memory.symbols[symbol] = memory.shared_bytes
    return memory


@dataclass(slots=True)
class _Draft:
    """An instruction before its place and its branch target are known."""

    opcode: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, ModifierValue]
    text: str
    frames: tuple[SourceLine, ...]
    scopes: tuple[Scope, ...] = ()
    line: int = 0

    @property
    def is_guarded(self) -> bool:
        return "guard" in self.modifiers


class _Reader:
    """Statements to drafts; numbers registers as they come."""

    def __init__(
        self, arguments: tuple[Argument, ...], symbols: Mapping[str, int], constants: Mapping[str, bytes]
    ) -> None:
        self._parameters = {argument.name: argument.offset for argument in arguments}
        self._constants = constants
        self._symbols = symbols
        self._registers: dict[tuple[str, int], Register] = {}

    def draft(self, statement: Statement) -> _Draft:
        text, modifiers = statement.text, dict[str, ModifierValue]()
        try:
            guard = _GUARD.match(text)
            if guard:
                register = self._register(guard[2], statement)
                if register is None:
                    raise AssemblyError(f"{guard[2]!r} is no register")
                modifiers["guard"] = (register.index, int(guard[1] == "!"))
                text = text[guard.end() :]
            opcode, _, rest = text.partition(" ")
            operands: list[Operand] = []
            groups: list[int] = []
            for part in split_top(rest):
                found = self._operands(part, statement, modifiers, len(operands))
                operands += found
                groups.append(len(found))
            if any(group != 1 for group in groups):
                modifiers["groups"] = tuple(groups)
        except AssemblyError as error:
            raise AssemblyError(f"line {statement.number}: {statement.text!r}: {error}") from None
        return _Draft(
            opcode, tuple(operands), modifiers, statement.text, statement.frames, statement.scopes, statement.number
        )

    def _operands(
        self, part: str, statement: Statement, modifiers: dict[str, ModifierValue], position: int
    ) -> list[Operand]:
        if part.startswith("{"):
            return [self._operand(item, statement) for item in split_top(part[1:-1])]
        if part.startswith("["):
            return [self._address(part, statement, modifiers, position)]
        if "|" in part:
            return [self._operand(item.strip(), statement) for item in part.split("|")]
        return [self._operand(part, statement)]

    def _address(self, part: str, statement: Statement, modifiers: dict[str, ModifierValue], position: int) -> Operand:
        found = _ADDRESS.match(part)
        if found is None or found[1] is None:
            # Coordinates of a tensor and the like: kept as they stand.
            return Operand(Symbol(part))
        offset = _integer(found[2].replace(" ", "")) if found[2] else 0
        register = self._register(found[1], statement)
        if register is not None:
            if offset:
                # The second address of a copy has its own.
                modifiers[
                    "offset1" if "offset" in modifiers or (position > 0 and _is_copy(statement)) else "offset"
                ] = offset
            return Operand(register)
        if found[1] in self._constants:
            if offset:
                modifiers["offset"] = offset
            return Operand(Label(found[1]))
        return Operand(Immediate(self._place(found[1]) + offset, False))

    def _place(self, name: str) -> int:
        if name in self._parameters:
            return self._parameters[name]
        if name in self._symbols:
            return self._symbols[name]
        if _INTEGER.match(name):
            return _integer(name)
        raise AssemblyError(f"{name!r} is neither a parameter nor a variable of the kernel")

    def _operand(self, text: str, statement: Statement) -> Operand:
        negate = text.startswith("!")
        name = text[1:] if negate else text
        register = self._register(name, statement)
        if register is not None:
            return Operand(register, negate=negate)
        if name[:2] in ("0f", "0F", "0d", "0D") and len(name) in (10, 18):
            return Operand(Immediate(int(name[2:], 16), False))
        if _INTEGER.match(name):
            return Operand(Immediate(_integer(name), False))
        if _DECIMAL.match(name):
            return Operand(Immediate(float(name), True))
        if name in self._symbols:
            return Operand(Immediate(self._symbols[name], False))
        if name.startswith("%") or name == "_":
            return Operand(Symbol(name))
        if name in self._parameters:
            return Operand(Immediate(self._parameters[name], False))
        return Operand(Label(name))

    def _register(self, name: str, statement: Statement) -> Register | None:
        for scope in statement.scopes:
            kind = scope.type_of(name)
            if kind is None:
                continue
            key = name, scope.number
            if key not in self._registers:
                file, count = _file_of(kind)
                self._registers[key] = Register(file, len(self._registers), count)
            return self._registers[key]
        return None


def _is_copy(statement: Statement) -> bool:
    return "cp.async" in statement.text


def _file_of(kind: str) -> tuple[RegisterFile, int]:
    if kind == "pred":
        return RegisterFile.PREDICATE, 1
    bits = 8 * _bytes_of(kind)
    if kind in ("f16x2", "bf16x2"):
        bits = 32
    if bits <= 16:
        return RegisterFile.HALF, 1
    return RegisterFile.VECTOR, -(-bits // 32)


def _integer(text: str) -> int:
    number = text.rstrip("U")
    if re.match(r"^-?0[0-7]+$", number):
        return int(number, 8)
    try:
        return int(number, 0)
    except ValueError:
        raise AssemblyError(f"{text!r} is no number") from None


_Linked = tuple[tuple[Instruction, ...], tuple[int, ...], Mapping[int, MachineWork]]


def _link(name: str, drafts: list[_Draft], body: Body, machine: Sequence[MachineInstruction]) -> _Linked:
    """Resolve branches, and add the places where lanes meet again and the end of the warp."""
    if not drafts:
        raise AssemblyError(f"kernel {name}: the text has no instruction between its braces")
    targets: dict[int, int] = {}
    for index, draft in enumerate(drafts):
        if draft.opcode in ("bra", "bra.uni"):
            label = draft.operands[0].value if draft.operands else None
            place = _label_place(label.name, draft, body) if isinstance(label, Label) else None
            if place is None or place >= len(drafts):
                raise AssemblyError(f"{name}: branch {draft.text!r} goes to a label that is not in the text")
            targets[index] = place
    exits = [index for index, draft in enumerate(drafts) if draft.opcode in _EXITS]
    last = drafts[-1]
    if last.is_guarded or (last.opcode not in _EXITS and last.opcode not in ("bra", "bra.uni", "trap")):
        raise AssemblyError(
            f"kernel {name}: it runs past its last instruction, {last.text!r}",
            hint="a kernel ends with ret; is the text complete?",
        )
    unguarded = [index for index in exits if not drafts[index].is_guarded]
    always = [index for index in targets if not drafts[index].is_guarded]
    starts = block_starts(len(drafts), targets, exits)
    following = successors(starts, len(drafts), targets, always, unguarded)
    nearest = post_dominators(following)
    meeting: dict[int, int] = {}
    for block in range(len(starts)):
        branch = (starts[block + 1] if block + 1 < len(starts) else len(drafts)) - 1
        found = nearest[block]
        if branch in targets and branch not in always and found is not None:
            meeting[branch] = starts[found]
    group = copies_of_a_group([draft.opcode for draft in drafts])
    steps = [step_of(draft.opcode, draft.operands, draft.modifiers, group) for draft in drafts]
    spans = list(zip(starts, (*starts[1:], len(drafts)), strict=True))
    ordered = [
        Ordered(draft.opcode, draft.line, step, draft.is_guarded) for draft, step in zip(drafts, steps, strict=True)
    ]
    # Branches end their blocks, so they and their targets stay where they are.
    order = machine_order(ordered, spans, machine)
    drafts, steps = [drafts[index] for index in order], [steps[index] for index in order]
    works = machine_work([ordered[index] for index in order], spans, machine) if machine else []
    return _placed(drafts, targets, meeting, starts, waits_of(steps, spans, following), works)


def _label_place(label: str, draft: _Draft, body: Body) -> int | None:
    for scope in draft.scopes:
        if (label, scope.number) in body.labels:
            return body.labels[label, scope.number]
    return None


def _placed(
    drafts: list[_Draft],
    targets: Mapping[int, int],
    meeting: Mapping[int, int],
    starts: list[int],
    waits: Mapping[int, Wait],
    works: Sequence[MachineWork],
) -> _Linked:
    before = set(meeting.values())
    place: dict[int, int] = {}
    position = 0
    for index in range(len(drafts)):
        place[index] = position
        position += 1 + (index in before) + (index in waits)
    end = position
    blocks = sorted({place[start] for start in starts} | {end})
    leaders = set(blocks)
    instructions: list[Instruction] = []
    block = -1

    def add(draft: _Draft, target: int | None) -> None:
        nonlocal block
        index = len(instructions)
        block += index in leaders
        instructions.append(
            Instruction(
                index=index,
                opcode=draft.opcode,
                encoding=PTX,
                operands=draft.operands,
                modifiers=draft.modifiers,
                text=draft.text,
                source=draft.frames[-1] if draft.frames else None,
                target=target,
                block=block,
                frames=draft.frames,
            )
        )

    machine: dict[int, MachineWork] = {}
    for index, draft in enumerate(drafts):
        if index in before:
            add(_Draft(RECONVERGE, (), {}, RECONVERGE, draft.frames), None)
        if index in waits:
            modifiers: dict[str, ModifierValue] = {str(counter): left for counter, left in waits[index].items()}
            add(_Draft(WARP_WAIT, (), modifiers, _wait_text(waits[index]), draft.frames), None)
        if index in meeting:
            draft.modifiers["reconverge"] = place[meeting[index]]
        if draft.opcode in _EXITS:
            # A lane that ends waits there for the others of its warp.
            add(draft, end)
        else:
            add(draft, place[targets[index]] if index in targets else None)
        if works:
            machine[instructions[-1].index] = works[index]
    add(_Draft(WARP_END, (), {}, WARP_END, drafts[-1].frames), None)
    return tuple(instructions), tuple(blocks), machine


def _wait_text(wait: Wait) -> str:
    names = {Counter.VECTOR: "global", Counter.SHARED: "shared"}
    return "wait until " + " and ".join(f"at most {left} {names[counter]} remain" for counter, left in wait.items())
