"""From the assembly text that a compiler emits for gfx942 or gfx950 to a ``Kernel``."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from wavecast.simulator.errors import AssemblyError
from wavecast.simulator.program.constants import linked_symbol, parse_constant
from wavecast.simulator.program.instruction import Instruction, Label, ModifierValue, Operand, SourceLine
from wavecast.simulator.program.kernel import Argument, Kernel, Resources
from wavecast.simulator.program.operand import parse_modifier, parse_operand, split_operands, split_words

# The architecture ends the target triple, whose middle differs between compilers, before any feature flags.
_TARGET = re.compile(r"\.amdgcn_target\s+\"[^\"]*-(gfx\w+?)(?::[^\"]*)?\"")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_LABEL = re.compile(r"([.$A-Za-z_][\w.$@]*):$")
_FRAME = re.compile(r"([^\s@\[\]]+):(\d+):(\d+)")
_COUNTER = re.compile(r";\s*(NumVgprs|NumAgprs|TotalNumSgprs|ScratchSize):\s*(\d+)")
_TYPE = re.compile(r"^\s*\.type\s+([^\s,]+),\s*@(\w+)", re.MULTILINE)
_ENCODINGS = ("_e64_dpp", "_dpp", "_sdwa", "_e32", "_e64")
_CONDITIONAL = "s_cbranch_"
_WORKGROUP_BOUND, _LEAST_BOUND = "max_flat_workgroup_size", 64
_ENDS_BLOCK = ("s_branch", "s_endpgm", "s_setpc_b64", "s_swappc_b64")


def parse_assembly(text: str, *, name: str | None = None, lds_bytes: int = 0) -> Kernel:
    """Parse one kernel out of AMDGCN assembly text.

    Args:
        text: Output of Triton (``asm["amdgcn"]``) or of ``clang -S``.
        name: Kernel to take; may be left out when the text has only one.
        lds_bytes: Dynamic LDS bytes of the launch (Triton's ``shared``), added to the static size.

    Raises:
        AssemblyError: No such kernel, several kernels and no name, or a line that is not understood.
    """
    kernels = kernel_names(text)
    if name is None:
        if len(kernels) > 1:
            raise AssemblyError(f"the text has {len(kernels)} kernels: {', '.join(kernels)}", hint="name one of them")
        name = kernels[0]
    elif name not in kernels:
        raise AssemblyError(f"no kernel {name!r} in the text, which has: {', '.join(kernels)}")
    arch = target_of(text)

    body = _Body(name)
    body.read(text)
    constants = {symbol: parse_constant(text, symbol) for symbol in body.data}
    descriptor = _read_descriptor(text, name)
    metadata = _read_metadata(text, name)
    return Kernel(
        name=name,
        arch=arch,
        instructions=tuple(body.instructions),
        blocks=tuple(body.blocks),
        descriptor=descriptor,
        arguments=metadata.arguments,
        kernarg_bytes=metadata.values.get("kernarg_segment_size", 0),
        workgroup_size=metadata.values.get(_WORKGROUP_BOUND, _LEAST_BOUND),
        resources=_resources(body.counters, descriptor, metadata.values, lds_bytes),
        functions=body.functions,
        constants=constants,
        files=body.files,
    )


def kernel_names(text: str) -> tuple[str, ...]:
    """Symbols of the kernels of a text, in its order.

    Raises:
        AssemblyError: It has none.
    """
    names = re.findall(r"^\s*\.amdhsa_kernel\s+(\S+)", text, re.MULTILINE)
    if not names:
        raise AssemblyError(
            "the text has no .amdhsa_kernel directive, so no kernel",
            hint="give the assembly of a GPU code object: Triton's asm['amdgcn'], or clang -S --cuda-device-only",
        )
    return tuple(names)


def target_of(text: str) -> str:
    """Architecture that a text is for.

    Raises:
        AssemblyError: It does not say.
    """
    target = _TARGET.search(text)
    if not target:
        raise AssemblyError("the text has no .amdgcn_target directive, so its architecture is unknown")
    return target[1]


def workgroup_bound(text: str, name: str) -> int:
    """Work-items that a workgroup of a kernel may have.

    Raises:
        AssemblyError: The text has no metadata of the kernel.
    """
    return _read_metadata(text, name).values.get(_WORKGROUP_BOUND, _LEAST_BOUND)


@dataclass(slots=True)
class _Draft:
    """An instruction before its block and its branch target are known."""

    opcode: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, ModifierValue]
    text: str
    frames: tuple[SourceLine, ...]


@dataclass(slots=True)
class _Body:
    """The instructions of a kernel and, behind them, of the functions that it calls."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    data: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    def read(self, text: str) -> None:
        drafts: list[_Draft] = []
        labels: dict[str, int] = {}
        lines = text.splitlines()
        self._read_function(self.name, lines, drafts, labels)
        types: dict[str, str] | None = None
        checked = 0
        while checked < len(drafts):
            symbol = linked_symbol(drafts[checked].operands)
            checked += 1
            if symbol is None or symbol in self.functions or symbol in self.data:
                continue
            if types is None:
                types = dict(_TYPE.findall(text))
            if types.get(symbol) == "object":
                self.data.append(symbol)
            elif types.get(symbol) == "function":
                self.functions[symbol] = len(drafts)
                self._read_function(symbol, lines, drafts, labels)
        self._link(drafts, labels)

    def _read_function(self, name: str, lines: list[str], drafts: list[_Draft], labels: dict[str, int]) -> None:
        """Append the instructions of one function of the text."""
        files: dict[int, str] = {}
        frames: tuple[SourceLine, ...] = ()
        inside = False
        for number, raw in enumerate(lines, start=1):
            code, _, comment = raw.partition(";")
            line = code.strip()
            if not inside:
                if line.startswith(".file"):
                    self._read_file(line, files)
                elif line == f"{name}:":
                    inside = True
                elif drafts and (match := _COUNTER.match(raw.strip())):
                    self.counters.setdefault(match[1], int(match[2]))
                continue
            if not line:
                continue
            if line.startswith("."):
                if line.startswith((".section", ".Lfunc_end", ".size", ".amdhsa_kernel")):
                    inside = False
                elif match := _LABEL.match(line):
                    labels[match[1]] = len(drafts)
                elif line.startswith(".loc"):
                    frames = _source_frames(line, comment, files)
                elif line.startswith(".file"):
                    self._read_file(line, files)
            elif match := _LABEL.match(line):
                labels[match[1]] = len(drafts)
            else:
                drafts.append(_parse_line(line, number, frames))

    def _read_file(self, line: str, files: dict[int, str]) -> None:
        if match := _FILE.match(line):
            files[int(match[1])] = name = match[3] or match[2]
            self.files.setdefault(name, posixpath.join(match[2], match[3]) if match[3] else name)

    def _link(self, drafts: list[_Draft], labels: Mapping[str, int]) -> None:
        targets: dict[int, int] = {}
        leaders = {0, *self.functions.values()}
        for index, draft in enumerate(drafts):
            branches = draft.opcode == "s_branch" or draft.opcode.startswith(_CONDITIONAL)
            if branches:
                label = draft.operands[0].value
                if not isinstance(label, Label) or label.name not in labels:
                    raise AssemblyError(f"{self.name}: branch {draft.text!r} goes to a label that is not in the text")
                targets[index] = labels[label.name]
                leaders.add(labels[label.name])
            if branches or draft.opcode in _ENDS_BLOCK:
                leaders.add(index + 1)
        self.blocks = sorted(leader for leader in leaders if leader < len(drafts))
        starts = set(self.blocks)
        block = -1
        for index, draft in enumerate(drafts):
            block += index in starts
            self.instructions.append(
                Instruction(
                    index=index,
                    opcode=draft.opcode,
                    encoding=draft.encoding,
                    operands=draft.operands,
                    modifiers=draft.modifiers,
                    text=draft.text,
                    source=draft.frames[-1] if draft.frames else None,
                    target=targets.get(index),
                    block=block,
                    frames=draft.frames,
                )
            )


def _source_frames(line: str, comment: str, files: Mapping[int, str]) -> tuple[SourceLine, ...]:
    """The call chain of inlined code, innermost first; its outermost frame is in the kernel's own function."""
    frames = _FRAME.findall(comment)
    if frames:
        return tuple(SourceLine(file, int(number), int(column)) for file, number, column in frames)
    if match := _LOCATION.match(line):
        return (SourceLine(files.get(int(match[1]), "?"), int(match[2]), int(match[3])),)
    return ()


def _parse_line(line: str, number: int, frames: tuple[SourceLine, ...]) -> _Draft:
    mnemonic, _, rest = line.partition(" ")
    mnemonic, _, tail = mnemonic.partition("\t")
    rest = f"{tail} {rest}".strip()
    opcode, encoding = _split_encoding(mnemonic)
    if opcode.startswith("s_waitcnt"):
        return _Draft(opcode, "", (), _wait_counters(rest), line, frames)
    parts = split_operands(rest)
    operands: list[Operand] = []
    modifiers: dict[str, ModifierValue] = {}
    try:
        for position, part in enumerate(parts):
            if part.startswith(("hwreg(", "sendmsg(")):
                operands.append(parse_operand(part))
                continue
            words = split_words(part)
            if position and ":" in words[0] and not words[0].startswith(("v[", "s[", "a[", "|", "-")):
                # A modifier such as ``quad_perm:[…]`` that a comma, not a space, separates from the operands.
                pass
            else:
                operands.append(parse_operand(words[0]))
                words = words[1:]
            for word in words:
                key, value = _modifier_or_operand(word, operands)
                if key:
                    modifiers[key] = value
    except AssemblyError as error:
        raise AssemblyError(f"line {number}: {line!r}: {error}") from None
    return _Draft(opcode, encoding, tuple(operands), modifiers, line, frames)


def _modifier_or_operand(word: str, operands: list[Operand]) -> tuple[str, ModifierValue]:
    if word == "off":
        operands.append(parse_operand(word))
        return "", 0
    return parse_modifier(word)


def _split_encoding(mnemonic: str) -> tuple[str, str]:
    for suffix in _ENCODINGS:
        if mnemonic.endswith(suffix):
            return mnemonic[: -len(suffix)], suffix[1:]
    return mnemonic, ""


def _wait_counters(text: str) -> dict[str, ModifierValue]:
    """``vmcnt(0) & lgkmcnt(0)`` as ``{"vmcnt": 0, "lgkmcnt": 0}``; a bare number is kept as ``{"raw": n}``."""
    counters: dict[str, ModifierValue] = {key: int(value) for key, value in re.findall(r"(\w+cnt)\((\d+)\)", text)}
    if not counters and text:
        counters["raw"] = int(text, 0)
    return counters


def _read_descriptor(text: str, name: str) -> dict[str, int]:
    match = re.search(rf"\.amdhsa_kernel\s+{re.escape(name)}\s*\n(.*?)\.end_amdhsa_kernel", text, re.DOTALL)
    if not match:
        raise AssemblyError(f"kernel {name!r}: .amdhsa_kernel has no .end_amdhsa_kernel")
    values: dict[str, int] = {}
    symbols = dict(re.findall(r"^\s*\.set\s+([\w.$]+),\s*(\d+)\s*$", text, re.MULTILINE))
    for key, value in re.findall(r"\.amdhsa_(\w+)\s+([^\s;]+)", match[1]):
        resolved = symbols.get(value, value)
        try:
            values[key] = int(resolved, 0)
        except ValueError:
            raise AssemblyError(
                f"kernel {name!r}: .amdhsa_{key} {value} is a symbolic expression",
                hint="compile to an object and disassemble it, so that the kernel descriptor holds numbers",
            ) from None
    return values


@dataclass(slots=True)
class _Metadata:
    arguments: tuple[Argument, ...]
    values: Mapping[str, int]


def _read_metadata(text: str, name: str) -> _Metadata:
    """Read the kernel's entry of ``.amdgpu_metadata``, a small and regular subset of YAML."""
    match = re.search(r"\.amdgpu_metadata\s*\n(.*?)\.end_amdgpu_metadata", text, re.DOTALL)
    if not match:
        raise AssemblyError("the text has no .amdgpu_metadata block", hint="compile for code object version 4 or later")
    for entry in re.split(r"^  - ", match[1].split("amdhsa.target")[0], flags=re.MULTILINE)[1:]:
        symbol = re.search(r"^\s*\.name:\s+'?([^\s']+)'?\s*$", entry.split(".args:")[0], re.MULTILINE)
        symbol = symbol or re.search(r"^    \.name:\s+'?([^\s']+)'?\s*$", entry, re.MULTILINE)
        if symbol and symbol[1] == name:
            arguments = tuple(sorted(_read_arguments(entry), key=lambda argument: argument.offset))
            numbers = re.findall(r"^\s{0,4}\.(\w+):\s+(\d+)\s*$", entry, re.MULTILINE)
            return _Metadata(arguments, {key: int(value) for key, value in numbers})
    raise AssemblyError(f"the metadata has no entry for kernel {name!r}")


def _read_arguments(entry: str) -> list[Argument]:
    match = re.search(r"^\s*\.args:\s*\n((?:^      .*\n?)*)", entry, re.MULTILINE)
    if not match:
        return []
    arguments = []
    for item in re.split(r"^      - ", match[1], flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"\.(\w+):\s+'?([^\s']+)'?", item))
        arguments.append(
            Argument(int(fields["offset"]), int(fields["size"]), fields["value_kind"], fields.get("name", ""))
        )
    return arguments


def _resources(
    counters: Mapping[str, int], descriptor: Mapping[str, int], metadata: Mapping[str, int], lds_bytes: int
) -> Resources:
    vgpr = descriptor.get("next_free_vgpr", 0)
    accum_offset = descriptor.get("accum_offset", vgpr)
    agpr = counters.get("NumAgprs", metadata.get("agpr_count", 0))
    return Resources(
        vgpr=vgpr,
        arch_vgpr=counters.get("NumVgprs", vgpr - agpr),
        agpr=agpr,
        accum_offset=accum_offset,
        sgpr=counters.get("TotalNumSgprs", metadata.get("sgpr_count", 0)),
        lds_bytes=descriptor.get("group_segment_fixed_size", 0) + lds_bytes,
        scratch_bytes=descriptor.get("private_segment_fixed_size", 0),
        vgpr_spills=metadata.get("vgpr_spill_count", 0),
        sgpr_spills=metadata.get("sgpr_spill_count", 0),
    )
