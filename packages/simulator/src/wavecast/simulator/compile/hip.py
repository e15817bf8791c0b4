"""HIP source to code objects, on a machine that needs neither a GPU nor ROCm."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from wavecast.simulator.compile.clang import HEADERS, HipCompiler, find_compiler
from wavecast.simulator.compile.code_object import CodeObject, code_objects_of
from wavecast.simulator.compile.compile_cache import kept
from wavecast.simulator.errors import CompileError, UnknownDeviceError

HIP_ARCHITECTURES = ("gfx942", "gfx950")
# What compilers read beside their command line: folders of headers, ROCm's place, and further options.
_VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "HIP_PATH", "ROCM_PATH"),
    *("HIP_CLANG_PATH", "HIP_DEVICE_LIB_PATH", "DEVICE_LIB_PATH", "HIPCC_COMPILE_FLAGS_APPEND"),
)
# Options that name folders of headers which the rule of dependencies then leaves out, as if they were the compiler's.
_SYSTEM_FOLDERS = ("-isystem", "-cxx-isystem", "-idirafter", "-iframework", "-iwithprefix", "--system-header-prefix")
# Lines of the compiler's complaint that are shown: the first error with its notes.
_COMPLAINT_LINES = 24


def compile_hip(
    source: Path | str,
    *,
    arch: str,
    include_dirs: Sequence[Path | str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    options: Sequence[str] = (),
) -> tuple[CodeObject, ...]:
    """Compile the device code of a HIP file, or take from the user's cache directory what came of it before.

    Host code in the file is read, as templates are instantiated there, and left out. ``hip/hip_runtime.h`` is included
    whether the file does so or not. Kernels are compiled for at most 1,024 work-items unless they say
    ``__launch_bounds__``; how many a launch has is said at the launch.

    Args:
        source: A file, or the text itself if it is a ``str``.
        arch: ``gfx942`` or ``gfx950``.
        include_dirs: Folders for ``#include``, before the compiler's own; that of a file is always one of them.
        defines: Macros by name; None defines the name alone.
        options: More words for the compiler, ``-O1`` or ``-std=c++20``.

    Returns:
        One code object for each kernel, in the order of the assembly. They share the text, and none has dynamic LDS.

    Raises:
        UnknownDeviceError: ``arch`` is not one of the two.
        MissingToolError: There is no compiler.
        CompileError: The compiler rejects the source, with what it says, or there is no kernel in it.
    """
    if arch not in HIP_ARCHITECTURES:
        raise UnknownDeviceError(
            f"HIP source cannot be compiled for architecture {arch!r}",
            hint=f"use one of {', '.join(HIP_ARCHITECTURES)}",
        )
    if isinstance(source, Path) and not source.is_file():
        raise CompileError(f"there is no file {source}", hint="give the path of a HIP source file")
    name = str(source) if isinstance(source, Path) else "the HIP source"
    compiler = find_compiler()
    words = compiler.words(arch)
    words += [f"-I{folder}" for folder in include_dirs]
    words += [f"-D{key}" if value is None else f"-D{key}={value}" for key, value in (defines or {}).items()]
    words += [*options, str(source) if isinstance(source, Path) else "-", "-o", "-"]
    text = None if isinstance(source, Path) else source
    wider = ["-sys-header-deps"] if any(option.startswith(_SYSTEM_FOLDERS) for option in options) else []

    def compile_anew(rule: Path) -> str:
        command = [
            *words,
            *(
                word
                for option in ("-dependency-file", str(rule), "-MT", "code", *wider)
                for word in ("-Xclang", option)
            ),
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(
                f"{name} does not compile for {arch} with {compiler.name}:\n{_complaint(done.stderr)}",
                hint=_way_out(done.stderr),
            )
        return done.stdout

    assembly = kept(_cache_key(compiler, words, text), compile_anew)
    if ".amdhsa_kernel" not in assembly:
        raise CompileError(
            f"{name} has no kernel",
            hint="mark one with __global__; a template is a kernel only where it is instantiated: launch it in the "
            "file, or write `template __global__ void …;`",
        )
    return code_objects_of(assembly, toolchain=compiler.name)


def _cache_key(compiler: HipCompiler, words: Sequence[str], text: str | None) -> list[str]:
    """What decides about the assembly, but for the files that the source includes."""
    key = [compiler.name, compiler.build, str(Path.cwd()), text or "", *words]
    key += [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    key += [hashlib.sha256(Path(word).read_bytes()).hexdigest() for word in words if _is_bitcode(word)]
    if compiler.bundled:
        key += [version("triton"), version("ziglang"), *(path.read_text() for path in sorted(HEADERS.rglob("*.h")))]
    return key


def _is_bitcode(word: str) -> bool:
    return word.endswith(".bc") and Path(word).is_file()


def _complaint(stderr: str) -> str:
    """What the compiler says, from its first error on, cut to what fits a screen."""
    lines = stderr.strip().splitlines()
    first = next((index for index, line in enumerate(lines) if "error:" in line), 0)
    # Lines before the error say through which files it was reached.
    while first and lines[first - 1].startswith(("In file included from", "                 from")):
        first -= 1
    shown = lines[first : first + _COMPLAINT_LINES]
    return "\n".join([*shown, *(["…"] if len(lines) > first + _COMPLAINT_LINES else [])])


def _way_out(stderr: str) -> str:
    if "file not found" in stderr:
        return "give the folder of that header in include_dirs"
    if "__host__ function" in stderr:
        return "device code can call functions marked __device__ only; mark it, or take the call out"
    return "correct the line that the compiler names"
