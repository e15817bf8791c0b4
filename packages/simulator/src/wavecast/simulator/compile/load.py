"""Any file with kernels to its code objects: HIP source, assembly text, machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from wavecast.simulator.compile.binary import BINARY_MAGICS, read_binary
from wavecast.simulator.compile.code_object import CodeObject, code_objects_of
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.compile.symbol import source_name
from wavecast.simulator.errors import AssemblyError, LaunchError

HIP_SUFFIXES = (".hip", ".cpp", ".cc", ".cxx")
ASSEMBLY_SUFFIXES = (".s", ".amdgcn")
BINARY_SUFFIXES = (".hsaco", ".co")
_COMPILER = re.compile(r'^\s*\.ident\s+"(?:AMD )?(clang) version ([^\s"]+)', re.MULTILINE)


def load_code_objects(
    path: Path,
    *,
    arch: str | None,
    include_dirs: Sequence[Path | str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    options: Sequence[str] = (),
) -> tuple[CodeObject, ...]:
    """Every kernel of a file.

    What begins like machine code is machine code, whatever its name; HIP source and assembly text are told apart by the
    suffix.

    Args:
        path: The file.
        arch: Architecture to compile for, and to take from a file that has several. None takes the one that there is,
            which HIP source does not have.
        include_dirs: For HIP source, see ``compile_hip``.
        defines: Likewise.
        options: Likewise.

    Raises:
        MissingToolError: A compiler or disassembler is needed and not there.
        CompileError: HIP source does not compile.
        AssemblyError: The file has no kernel for the architecture, or is nothing of this.
    """
    if not path.is_file():
        raise AssemblyError(f"there is no file {path}", hint="give HIP source, assembly text or a code object")
    with path.open("rb") as file:
        start = file.read(max(map(len, BINARY_MAGICS)))
    if start.startswith(BINARY_MAGICS):
        codes = read_binary(path, arch=arch)
    elif path.suffix in HIP_SUFFIXES:
        if arch is None:
            raise AssemblyError(f"{path} is source, which is for no architecture", hint="say for which it is compiled")
        return compile_hip(path, arch=arch, include_dirs=include_dirs, defines=defines, options=options)
    elif path.suffix in ASSEMBLY_SUFFIXES:
        codes = read_assembly(path)
    else:
        known = ", ".join((*HIP_SUFFIXES, *ASSEMBLY_SUFFIXES, *BINARY_SUFFIXES))
        raise AssemblyError(
            f"{path} is neither HIP source nor assembly text by its name, nor machine code by its content",
            hint=f"files are known by their suffix: {known}; CUDA source (.cu) becomes HIP with hipify",
        )
    if include_dirs or defines or options:
        raise AssemblyError(
            f"{path} is compiled already", hint="include folders, macros and options are for HIP source"
        )
    if arch is not None and codes[0].arch != arch:
        raise AssemblyError(f"{path} is for {codes[0].arch}, and {arch} is wanted", hint=f"compile it for {arch}")
    return codes


def read_assembly(path: Path) -> tuple[CodeObject, ...]:
    """Every kernel of a file of assembly text.

    Raises:
        AssemblyError: It is not text, or has no kernel.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise AssemblyError(f"{path} is not assembly text", hint="give what clang -S or Triton wrote") from error
    compiler = _COMPILER.search(text)
    return code_objects_of(text, toolchain=f"{compiler[1]} {compiler[2]}" if compiler else "an unknown compiler")


def kernel_named(codes: Sequence[CodeObject], name: str | None) -> CodeObject:
    """One of several code objects, by its symbol or by its name in the source.

    Args:
        codes: At least one.
        name: ``scale``, ``math::scale`` or ``_Z5scalePf``; None takes the only one.

    Raises:
        LaunchError: None has the name, several have it, or no name was given where there is a choice.
    """
    known = ", ".join(_title(code) for code in codes)
    if name is None:
        if len(codes) > 1:
            raise LaunchError(f"there are {len(codes)} kernels: {known}", hint="name one of them")
        return codes[0]
    exact = [code for code in codes if code.name == name]
    found = exact or [code for code in codes if source_name(code.name) == name]
    found = found or [code for code in codes if source_name(code.name).rpartition("::")[2] == name]
    if not found:
        raise LaunchError(f"no kernel is called {name!r}", hint=f"possible: {known}")
    if len(found) > 1:
        titles = ", ".join(code.name for code in found)
        raise LaunchError(f"{len(found)} kernels are called {name!r}", hint=f"give the symbol: {titles}")
    return found[0]


def _title(code: CodeObject) -> str:
    plain = source_name(code.name)
    return code.name if plain == code.name else f"{plain} ({code.name})"
