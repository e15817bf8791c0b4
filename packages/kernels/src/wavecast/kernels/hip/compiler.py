"""HIP source that needs no header to assembly text and machine code: by ``hipcc`` where there is one, else by clang.

The clang of the ``ziglang`` wheel knows the targets, on any machine. The text is what a virtual device executes, the
machine code what a GPU loads; both are of one compilation, or of one compiler with the same words.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

HIP_ARCHITECTURES = ("gfx942", "gfx950")
"""For which sources are compiled."""

_OPTIONS = (
    "-x", "hip", "--cuda-device-only", "-O3", "-w", "-nogpuinc", "-nogpulib", "-nostdinc", "-fuse-cuid=none",
    "-gline-tables-only", "-fhip-kernel-arg-name",
)  # fmt: skip
_TARGET = "--target=amdgcn-amd-amdhsa"


@dataclass(frozen=True)
class Compiler:
    """What compiles.

    Attributes:
        name: it and its version.
        command: words that start it.
        is_hipcc: whether it is ROCm's, which also links.
    """

    name: str
    command: tuple[str, ...]
    is_hipcc: bool


@dataclass(frozen=True)
class CompiledHip:
    """One source for one architecture.

    Attributes:
        path: the source.
        arch: ``gfx942`` or ``gfx950``.
        assembly: text of all its kernels.
        compiler: what made it.
    """

    path: Path
    arch: str
    assembly: str
    compiler: Compiler

    @property
    def toolchain(self) -> str:
        """Compiler and version."""
        return self.compiler.name

    @cached_property
    def code_object(self) -> bytes:
        """Machine code that ``hipModuleLoadData`` takes."""
        return _kept(self._key, ".hsaco", self._link)

    @cached_property
    def _key(self) -> str:
        return hashlib.sha256(self.assembly.encode()).hexdigest()

    def _link(self) -> bytes:
        command = self.compiler.command
        with tempfile.TemporaryDirectory() as folder:
            text, part, whole = (Path(folder) / f"code{suffix}" for suffix in (".s", ".o", ".hsaco"))
            if self.compiler.is_hipcc:
                words = _words(self.compiler, self.arch, "--no-gpu-bundle-output", str(self.path), "-o", str(whole))
                _run(words, self.path, self.arch, self.compiler)
                return whole.read_bytes()
            text.write_text(self.assembly, encoding="utf-8")
            assemble = [*command, _TARGET, f"-mcpu={self.arch}", "-x", "assembler", "-c", str(text), "-o", str(part)]
            _run(assemble, self.path, self.arch, self.compiler)
            link = [*command[:-1], "ld.lld", "-shared", str(part), "-o", str(whole)]
            _run(link, self.path, self.arch, self.compiler)
            return whole.read_bytes()


@lru_cache(maxsize=64)
def compile_hip(path: Path, arch: str) -> CompiledHip:
    """Compile a source, or take what an earlier compilation of it has left in Triton's cache.

    Raises:
        ValueError: another architecture than `HIP_ARCHITECTURES`.
        RuntimeError: there is no compiler, or it rejects the source.
    """
    if arch not in HIP_ARCHITECTURES:
        raise ValueError(f"{path.name} is for {' and '.join(HIP_ARCHITECTURES)}, got {arch}; use the Triton kernel")
    compiler = find_compiler()
    parts = (*_texts(path), arch, compiler.name, *_OPTIONS)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def compiled() -> bytes:
        return _run(_words(compiler, arch, "-S", str(path), "-o", "-"), path, arch, compiler)

    return CompiledHip(path, arch, _kept(key, ".s", compiled).decode(), compiler)


def _texts(path: Path) -> Iterator[str]:
    """A source and what it includes."""
    text = path.read_text(encoding="utf-8")
    yield text
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        yield from _texts(path.parent / name)


@lru_cache(maxsize=1)
def find_compiler() -> Compiler:
    """``hipcc`` if it is on the path, else the wheel's clang.

    Raises:
        RuntimeError: neither is there.
    """
    hipcc = shutil.which("hipcc")
    if hipcc is not None:
        version = subprocess.run([hipcc, "--version"], capture_output=True, text=True, check=False).stdout
        return Compiler(f"hipcc {' '.join(version.split()[:3])}", (hipcc,), is_hipcc=True)
    if importlib.util.find_spec("ziglang") is None:
        raise RuntimeError(
            "kernels in HIP need a compiler, and there is neither hipcc on the path nor the package ziglang; "
            "pip install 'wavecast-kernels[hip]', put ROCm's bin directory on the PATH, or use the Triton kernel"
        )
    version = importlib.metadata.version("ziglang")
    return Compiler(f"clang (ziglang {version})", (sys.executable, "-m", "ziglang", "clang"), is_hipcc=False)


def _words(compiler: Compiler, arch: str, *others: str) -> list[str]:
    return [*compiler.command, *_OPTIONS, f"--offload-arch={arch}", *others]


def _run(words: Sequence[str], path: Path, arch: str, compiler: Compiler) -> bytes:
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path.name} does not compile for {arch} with {compiler.name}:\n{done.stderr.decode()}")
    return done.stdout


def _kept(key: str, suffix: str, make: object) -> bytes:
    """Content of a file of Triton's cache, made if it is not there."""
    from triton.runtime.cache import get_cache_manager

    assert callable(make)
    cache, name = get_cache_manager(key), f"hip{suffix}"
    known = cache.get_file(name)
    if known is not None:
        return Path(known).read_bytes()
    content: bytes = make()
    cache.put(content, name, binary=True)
    return content
