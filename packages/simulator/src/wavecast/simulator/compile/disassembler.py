"""``llvm-objdump``: instructions of a code object as text, with their addresses."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wavecast.simulator.errors import AssemblyError, MissingToolError

_NAME = re.compile(r"llvm-objdump(-\d+)?(\.exe)?$")
_SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_INSTRUCTION = re.compile(r"^\s+(?P<text>\S.*?)\s*// (?P<address>[0-9A-Fa-f]+): (?P<word>[0-9A-Fa-f]{8})")
_LINE = re.compile(r"^; (.+):(\d+)(?: \(discriminator \d+\))?$")
# What a disassembler says, or writes, that does not know the architecture or an instruction of it.
_IGNORANCE = (
    "not a recognized processor",
    "not yet supported for subtarget",
    "can't find target",
    "cannot find target",
)


@dataclass(frozen=True, slots=True)
class Disassembler:
    """A program that disassembles.

    Attributes:
        path: Where it is.
        version: Its LLVM's version, ``19.1.7``.
    """

    path: Path
    version: str

    def __str__(self) -> str:
        return f"{self.path} (LLVM {self.version})"


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction of a code object.

    Attributes:
        address: Where it is.
        word: Its first 32 bits.
        text: Mnemonic and operands.
        source: File and line it was compiled from, None where no debug information says.
    """

    address: int
    word: int
    text: str
    source: tuple[str, int] | None


def disassemble(path: Path, arch: str, *, name: str) -> dict[str, list[Line]]:
    """The instructions of every function of a code object, by symbol.

    Every disassembler found is tried, ROCm's before those on the path and newer before older ones, until one knows the
    architecture.

    Args:
        path: An AMDGPU ELF file.
        arch: What it is for; for messages.
        name: What the user calls the file; for messages.

    Raises:
        MissingToolError: There is no disassembler, or none that knows the architecture.
        AssemblyError: The file cannot be disassembled.
    """
    tools = find_disassemblers()
    for tool in tools:
        words = [str(tool.path), "--disassemble", "--line-numbers", "--section=.text", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if any(phrase in done.stderr for phrase in _IGNORANCE):
            continue
        if done.returncode:
            first = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
            raise AssemblyError(f"{tool} cannot disassemble {name}: {first}")
        return _functions(done.stdout)
    found = "there is none here" if not tools else f"none of these does: {', '.join(map(str, tools))}"
    raise MissingToolError(
        f"{name} is machine code for {arch}, and an llvm-objdump that knows {arch} is needed to read it; {found}",
        hint="ROCm has one in /opt/rocm/llvm/bin, and so has a distribution's package llvm (version 17 or later for "
        "gfx942, 20 for gfx950); or give the assembly text (.s) or the HIP source instead",
    )


def find_disassemblers() -> tuple[Disassembler, ...]:
    """Every ``llvm-objdump`` of this machine: ROCm's, then those on the path, newest first."""
    rocm = [Path(os.environ.get("ROCM_PATH") or "/opt/rocm") / "llvm" / "bin" / "llvm-objdump"]
    return (*_tools(tuple(rocm)), *_tools(tuple(_on_path())))


def _on_path() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        place = Path(folder)
        if folder and place.is_dir():
            yield from sorted(entry for entry in place.iterdir() if _NAME.match(entry.name))


@lru_cache(maxsize=8)
def _tools(paths: tuple[Path, ...]) -> tuple[Disassembler, ...]:
    """Those that run, newest first, each once however many names it has."""
    tools: dict[Path, Disassembler] = {}
    for path in paths:
        real = path.resolve()
        if real in tools or not path.is_file():
            continue
        try:
            done = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if match := re.search(r"LLVM version (\S+)", done.stdout):
            tools[real] = Disassembler(path, match[1])
    return tuple(sorted(tools.values(), key=lambda tool: [-int(n) for n in re.findall(r"\d+", tool.version)]))


def _functions(text: str) -> dict[str, list[Line]]:
    functions: dict[str, list[Line]] = {}
    lines: list[Line] = []
    source: tuple[str, int] | None = None
    for line in text.splitlines():
        if match := _SYMBOL.match(line):
            lines, source = functions.setdefault(match[1], []), None
        elif match := _LINE.match(line):
            source = match[1], int(match[2])
        elif match := _INSTRUCTION.match(line):
            lines.append(Line(int(match["address"], 16), int(match["word"], 16), match["text"], source))
    return functions
