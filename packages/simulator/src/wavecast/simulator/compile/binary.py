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
    parts = [f'\t.amdgcn_target "{metadata["amdhsa.target"]}"', "\t.text"]
    for kernel in metadata.get("amdhsa.kernels", []):
        name, descriptor = kernel[".name"], kernel[".symbol"]
        if name not in functions or descriptor not in symbols:
            raise AssemblyError(f"{path}: kernel {name!r} of the metadata has no code or no descriptor")
        parts += _body(name, functions[name], symbols[name]["st_size"] if name in symbols else 0)
        directives = read_descriptor(name, _bytes_at(elf, symbols[descriptor]["st_value"], DESCRIPTOR_BYTES)).directives
        # The metadata has the exact number, the descriptor whole granules.
        directives["next_free_vgpr"] = kernel.get(".vgpr_count", directives["next_free_vgpr"])
        parts += [
            f"\t.amdhsa_kernel {name}",
            *(f"\t\t.amdhsa_{key} {value}" for key, value in directives.items()),
            "\t.end_amdhsa_kernel",
        ]
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


def _body(name: str, lines: Sequence[Line], size: int) -> Iterator[str]:
    """A function as text: labels where branches go, and no padding that nothing reaches."""
    start = lines[0].address
    inside = [line for line in lines if not size or line.address < start + size]
    targets = {_branch_target(line) for line in inside if line.text.startswith(_BRANCHES)}
    files: dict[str, int] = {}
    source = None
    reached = True
    yield f"{name}:"
    for line in inside:
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
        yield f"\t{mnemonic} {_label(_branch_target(line))}" if mnemonic.startswith(_BRANCHES) else f"\t{line.text}"
        reached = mnemonic not in _NO_FALL_THROUGH
    yield "\t.section .rodata"


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
