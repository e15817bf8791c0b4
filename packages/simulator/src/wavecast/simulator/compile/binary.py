"""Code objects as the GPU loads them (``.hsaco``, ``.co``, bundles, host programs) to the text that is executed here.

Instructions come from ``llvm-objdump``, symbols from pyelftools, arguments and resources from the metadata note
(MessagePack), launch state from the kernel descriptor.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wavecast.simulator.compile.bundle import COMPRESSED_MAGIC, MAGIC, unbundle
from wavecast.simulator.compile.code_object import CodeObject, code_objects_of
from wavecast.simulator.compile.descriptor import DESCRIPTOR_BYTES, read_descriptor
from wavecast.simulator.compile.disassembler import Line, disassemble
from wavecast.simulator.errors import AssemblyError

ELF_MAGIC = b"\x7fELF"
BINARY_MAGICS = (ELF_MAGIC, MAGIC, COMPRESSED_MAGIC)
_METADATA_NOTE = 32
_FAT_BINARY = ".hip_fatbin"
_ARCH = re.compile(r"-(gfx\w+)(?::[\w:+-]*)?$")
_ADDITION = re.compile(r"(?P<rest>s_addc?_u32 (?P<register>s\d+), (?P=register), )(?P<value>-?(?:0x[0-9a-f]+|\d+))$")
_BRANCHES = ("s_branch", "s_cbranch_")
_NO_FALL_THROUGH = ("s_branch", "s_endpgm", "s_setpc_b64")


def read_binary(path: Path, *, arch: str | None = None) -> tuple[CodeObject, ...]:
    """Every kernel of a compiled file.

    Args:
        path: A code object, an offload bundle, or a program with one inside.
        arch: Architecture to take, where the file has several.

    Returns:
        One code object for each kernel, in the order of the metadata, without dynamic LDS.

    Raises:
        MissingToolError: No disassembler that knows the architecture.
        AssemblyError: The file is none of these, or has nothing for the architecture.
    """
    data = path.read_bytes()
    found = dict(_code_objects(path, data))
    if not found:
        raise AssemblyError(f"{path} has no AMDGPU code object in it", hint="give a .hsaco, a bundle or a HIP program")
    if arch is None and len(found) > 1:
        raise AssemblyError(f"{path} has code for {', '.join(found)}", hint="say for which architecture it is wanted")
    chosen = arch or next(iter(found))
    if chosen not in found:
        raise AssemblyError(f"{path} has no code for {chosen}, only for {', '.join(found)}")
    return _kernels_of(path, chosen, found[chosen])


def _code_objects(path: Path, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Architecture and content of every code object in a file."""
    if not data.startswith(ELF_MAGIC):
        yield from unbundle(data)
        return
    elf = _open(path, data)
    if elf["e_machine"] == "EM_AMDGPU":
        yield _target(path, _metadata(path, elf)), data
    elif section := elf.get_section_by_name(_FAT_BINARY):
        yield from unbundle(section.data())


def _open(path: Path, data: bytes) -> Any:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return ELFFile(io.BytesIO(data))
    except ELFError as error:
        raise AssemblyError(f"{path} is a damaged ELF file: {error}") from error


def _kernels_of(path: Path, arch: str, data: bytes) -> tuple[CodeObject, ...]:
    elf = _open(path, data)
    metadata = _metadata(path, elf)
    symbols = _symbols(elf)
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / f"{path.stem}.{arch}.hsaco"
        alone.write_bytes(data)
        functions = disassemble(alone, arch, name=str(path))
    linked = Addresses(functions, symbols)
    parts = [f'\t.amdgcn_target "{metadata["amdhsa.target"]}"', "\t.text"]
    for kernel in metadata.get("amdhsa.kernels", []):
        name, descriptor = kernel[".name"], kernel[".symbol"]
        if name not in functions or descriptor not in symbols:
            raise AssemblyError(f"{path}: kernel {name!r} of the metadata has no code or no descriptor")
        parts += _body(name, linked.function(name), linked)
        directives = read_descriptor(name, _bytes_at(elf, symbols[descriptor]["st_value"], DESCRIPTOR_BYTES)).directives
        # The metadata has the exact number, the descriptor whole granules.
        directives["next_free_vgpr"] = kernel.get(".vgpr_count", directives["next_free_vgpr"])
        parts += [
            f"\t.amdhsa_kernel {name}",
            *(f"\t\t.amdhsa_{key} {value}" for key, value in directives.items()),
            "\t.end_amdhsa_kernel",
        ]
    # Functions that kernels call may call others, and all of them may take the address of constants.
    for name in iter(linked.next_called, None):
        parts += [f"\t.type {name},@function", *_body(name, linked.function(name), linked)]
    for name, address in linked.constants.items():
        content = _bytes_at(elf, address, linked.size(name) or _rest_of_section(elf, address))
        parts += [f"\t.type {name},@object", f"{name}:", *(f"\t.byte {value}" for value in content)]
        parts += [f"\t.size {name}, {len(content)}"]
    parts += ["\t.amdgpu_metadata", "---", *_metadata_text(metadata), "\t.end_amdgpu_metadata", ""]
    return code_objects_of("\n".join(parts), toolchain=_compiler(elf))


def _symbols(elf: Any) -> dict[str, Any]:
    """Symbols by name; a stripped file keeps those that the loader needs, the kernels among them."""
    tables = [elf.get_section_by_name(name) for name in (".dynsym", ".symtab")]
    return {symbol.name: symbol for table in tables if table is not None for symbol in table.iter_symbols()}


def _bytes_at(elf: Any, address: int, size: int) -> bytes:
    """Content of the loaded file at an address; empty where nothing is."""
    for segment in elf.iter_segments("PT_LOAD"):
        start = address - segment["p_vaddr"]
        if 0 <= start < segment["p_filesz"]:
            return bytes(segment.data()[start : start + size])
    return b""


def _metadata(path: Path, elf: Any) -> dict[str, Any]:
    import msgpack

    for section in (*elf.iter_segments("PT_NOTE"), *elf.iter_sections("SHT_NOTE")):
        for note in section.iter_notes():
            if note["n_name"] == "AMDGPU" and note["n_type"] == _METADATA_NOTE:
                return dict(msgpack.unpackb(note["n_descdata"]))
    raise AssemblyError(
        f"{path} has no metadata note of code object version 3 or later", hint="compile it with ROCm 3.5 or later"
    )


def _target(path: Path, metadata: Mapping[str, Any]) -> str:
    match = _ARCH.search(str(metadata.get("amdhsa.target", "")))
    if match is None:
        raise AssemblyError(f"{path} does not say for which architecture it is", hint="compile it with ROCm 5 or later")
    return match[1]


def _compiler(elf: Any) -> str:
    """Compiler and version, from the comment that it leaves."""
    section = elf.get_section_by_name(".comment")
    match = re.search(rb"clang version ([\w.+-]+)", section.data()) if section is not None else None
    return f"clang {match[1].decode()}" if match else "an unknown compiler"


class Addresses:
    """Names for the addresses that code computes: those of functions it calls and of constants.

    Args:
        functions: Instructions by symbol.
        symbols: Symbols by name.

    Attributes:
        constants: Address of each constant that was asked for.
    """

    def __init__(self, functions: Mapping[str, Sequence[Line]], symbols: Mapping[str, Any]) -> None:
        self._functions, self._symbols = dict(functions), symbols
        self._names = {symbol["st_value"]: name for name, symbol in symbols.items() if symbol["st_size"]}
        self._called: list[str] = []
        self._given: set[str] = set()
        self.constants: dict[str, int] = {}

    def size(self, name: str) -> int:
        """Bytes of a symbol; 0 where no table says."""
        return int(self._symbols[name]["st_size"]) if name in self._symbols else 0

    def function(self, name: str) -> Sequence[Line]:
        """Instructions of a function, without what follows it."""
        self._given.add(name)
        lines, size = self._functions[name], self.size(name)
        return [line for line in lines if not size or line.address < lines[0].address + size]

    def name_of(self, address: int) -> str:
        """Name for what is at an address, made up where the file has none."""
        name = self._names.get(address, f"local_{address:x}")
        if name not in self._functions and (lines := self._code_at(address)):
            self._functions[name] = lines
        if name in self._functions:
            self._called.append(name)
        else:
            self.constants[name] = address
        return name

    def _code_at(self, address: int) -> list[Line]:
        """A function whose symbol was stripped: what is there, up to its return."""
        for lines in self._functions.values():
            first = next((index for index, line in enumerate(lines) if line.address == address), None)
            if first is not None:
                found = (index for index in range(first, len(lines)) if lines[index].text.startswith("s_setpc_b64"))
                return list(lines[first : next(found, len(lines) - 1) + 1])
        return []

    def next_called(self) -> str | None:
        """A function that is called and was not given yet, or None."""
        return next((name for name in self._called if name not in self._given), None)


def _rest_of_section(elf: Any, address: int) -> int:
    """Bytes from an address to the end of its section."""
    for section in elf.iter_sections():
        start, size = section["sh_addr"], section["sh_size"]
        if start and start <= address < start + size:
            return int(start + size - address)
    return 0


def _body(name: str, lines: Sequence[Line], linked: Addresses) -> Iterator[str]:
    """A function as text: names in place of addresses, and no padding that nothing reaches."""
    targets = {_branch_target(line) for line in lines if line.text.startswith(_BRANCHES)}
    symbolic = _symbolic(lines, linked)
    files: dict[str, int] = {}
    source = None
    reached = True
    yield f"{name}:"
    for line in lines:
        if line.address in targets:
            yield f"{_label(line.address)}:"
            reached = True
        if not reached:
            continue
        if line.source is not None and line.source != source:
            source = line.source
            if source[0] not in files:
                files[source[0]] = len(files) + 1
                yield f'\t.file\t{files[source[0]]} "{source[0]}"'
            yield f"\t.loc\t{files[source[0]]} {source[1]} 0"
        mnemonic = line.text.partition(" ")[0]
        if line.text.startswith(("<", ".")):
            raise AssemblyError(
                f"kernel {name!r}: {line.word:#010x} at {line.address:#x} is no instruction the disassembler knows",
                hint="use a newer llvm-objdump; if it is data between instructions, give the assembly text instead",
            )
        if mnemonic.startswith(_BRANCHES):
            yield f"\t{mnemonic} {_label(_branch_target(line))}"
        else:
            yield f"\t{symbolic.get(line.address, line.text)}"
        reached = mnemonic not in _NO_FALL_THROUGH
    yield "\t.section .rodata"


def _symbolic(lines: Sequence[Line], linked: Addresses) -> dict[int, str]:
    """Text by address of the additions that make an address of the program counter, with a name as in the source."""
    texts = {}
    for counter, low, high in zip(lines, lines[1:], lines[2:], strict=False):
        if not counter.text.startswith("s_getpc_b64"):
            continue
        halves = [_ADDITION.match(line.text) for line in (low, high)]
        if halves[0] is None or halves[1] is None:
            continue
        distance = (int(halves[1]["value"], 0) & 0xFFFFFFFF) << 32 | int(halves[0]["value"], 0) & 0xFFFFFFFF
        name = linked.name_of((counter.address + 4 + distance) % (1 << 64))
        texts[low.address] = f"{halves[0]['rest']}{name}@rel32@lo+4"
        texts[high.address] = f"{halves[1]['rest']}{name}@rel32@hi+12"
    return texts


def _label(address: int) -> str:
    return f".LBB_{address:x}"


def _branch_target(line: Line) -> int:
    """Where a branch goes: its low 16 bits count dwords from the next instruction."""
    distance = (line.word & 0xFFFF ^ 0x8000) - 0x8000
    return line.address + 4 + 4 * distance


def _metadata_text(metadata: Mapping[str, Any]) -> Iterator[str]:
    """The part of the metadata that the parser of assembly text reads, in the same form."""
    yield "amdhsa.kernels:"
    for kernel in metadata.get("amdhsa.kernels", []):
        yield "  - .args:"
        for argument in kernel.get(".args", []):
            fields = [(key, value) for key, value in argument.items() if isinstance(value, str | int)]
            yield from (f"{'      - ' if not n else '        '}{key}: {value}" for n, (key, value) in enumerate(fields))
        yield from (f"    {key}: {value}" for key, value in kernel.items() if isinstance(value, str | int))
    yield f"amdhsa.target: {metadata['amdhsa.target']}"
