from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wavecast.simulator.compile.disassembler import find_disassemblers

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Assembles and links assembly text to a code object, as the compiler does after it has written that text."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the wheel ziglang, whose clang assembles and links, is not installed")
    folder = tmp_path_factory.mktemp("assembled")
    made: dict[tuple[str, str], Path] = {}

    def assemble(text: str, arch: str, *, stripped: bool = False) -> Path:
        key = (text, f"{arch}{stripped}")
        if key not in made:
            source = folder / f"{len(made)}.s"
            source.write_text(text)
            zig = [sys.executable, "-m", "ziglang"]
            target = ["--target=amdgcn-amd-amdhsa", f"-mcpu={arch}"]
            machine, linked = source.with_suffix(".o"), source.with_suffix(".hsaco")
            subprocess.run([*zig, "clang", "-x", "assembler", *target, "-c", source, "-o", machine], check=True)
            strip = ["--strip-all"] if stripped else []
            subprocess.run([*zig, "ld.lld", "-shared", *strip, machine, "-o", linked], check=True)
            made[key] = linked
        return made[key]

    return assemble


@pytest.fixture
def needs_disassembler() -> None:
    """Skips where no ``llvm-objdump`` is new enough for gfx942 (LLVM 17)."""
    if not any(int(tool.version.partition(".")[0]) >= 17 for tool in find_disassemblers()):
        pytest.skip("no llvm-objdump of LLVM 17 or later, or of ROCm")
