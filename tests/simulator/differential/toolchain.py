"""The clang of the ``ziglang`` wheel: one C text as assembly for the GPU and as a shared object for this CPU."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import subprocess
import sys
from pathlib import Path

PRELUDE = Path(__file__).with_name("prelude.h")
# The same meaning on both sides: no contraction unless the text says so, wrapping integers, no wider half precision.
_FLAGS = (
    "-x", "c", "-std=gnu23", "-ffreestanding", "-fwrapv", "-ffp-contract=off", "-fno-math-errno",
    "-fno-strict-aliasing", "-Xclang", "-ffloat16-excess-precision=none", "-w", "-include", str(PRELUDE),
)  # fmt: skip


def why_not() -> str:
    """Why functions cannot be compiled for both targets here; empty if they can."""
    if importlib.util.find_spec("ziglang") is None:
        return "the wheel `ziglang`, whose clang compiles for both targets, is not installed"
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        here = f"{platform.system()} on {platform.machine()}"
        return f"shared objects are made for Linux on x86-64 and AArch64, and this is {here}"
    return ""


def _zig(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ziglang", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}\n{done.stderr[-4000:]}")


def assembly(source: Path, arch: str, level: str, *flags: str) -> str:
    """AMDGCN assembly text of a C file, at optimisation level ``-O<level>``."""
    out = source.with_suffix(f".{arch}.s")
    target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib", "-S")
    _zig("clang", *_FLAGS, *target, *flags, f"-O{level}", str(source), "-o", str(out))
    return out.read_text()


def shared_object(source: Path) -> ctypes.CDLL:
    """The same file for this CPU, loaded."""
    object_file, library = source.with_suffix(".o"), source.with_suffix(".so")
    # The conversion to brain floats that some x86 processors have flushes subnormal numbers.
    x86 = ("-march=native", "-mno-avx512bf16", "-mno-avxneconvert")
    processor = x86 if platform.machine() == "x86_64" else ("-mcpu=native",)
    _zig("clang", *_FLAGS, f"--target={platform.machine()}-linux-gnu", *processor, "-fPIC", "-O1", "-c",
         str(source), "-o", str(object_file))  # fmt: skip
    _zig("ld.lld", "-shared", str(object_file), "-o", str(library))
    return ctypes.CDLL(str(library))
