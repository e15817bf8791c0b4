"""The compilers that turn HIP source into AMDGCN assembly: ROCm's, or the clang of the ``ziglang`` wheel.

The wheel's clang knows the target and has libc++ and a C library, so that host code in the file compiles too. It has
neither ROCm's headers nor its device library; both come with Triton. What clang's own HIP headers would add, which the
wheel leaves out, is in ``hip_headers``.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import platformdirs

from wavecast.simulator.errors import MissingToolError

HEADERS = Path(__file__).with_name("hip_headers")
# What ROCm's device library asks about target and options: waves of 64, denormals kept, nothing fast but inexact.
_SWITCHES = {
    "ABI_version": ("i32", 600),
    "wavefrontsize64": ("i8", 1),
    "daz_opt": ("i8", 0),
    "finite_only_opt": ("i8", 0),
    "unsafe_math_opt": ("i8", 0),
    "correctly_rounded_sqrt32": ("i8", 1),
}
_ISA_VERSION = {"gfx942": 9402, "gfx950": 9500}
# One host for all machines: nothing of the host's code is kept, but its types and headers are read.
_HOST = "x86_64-linux-musl"
_HOST_HEADERS = (
    "libcxx/include",
    "libcxxabi/include",
    "include",
    f"libc/include/{_HOST}",
    "libc/include/generic-musl",
    "libc/include/x86-linux-any",
    "libc/include/any-linux-any",
)
# The configuration of libc++ that its own build would write to a file.
_HOST_DEFINES = (
    "_LIBCPP_ABI_VERSION=1",
    "_LIBCPP_ABI_NAMESPACE=__1",
    "_LIBCPP_HAS_THREADS=1",
    "_LIBCPP_HAS_MONOTONIC_CLOCK=1",
    "_LIBCPP_HAS_TERMINAL=1",
    "_LIBCPP_HAS_MUSL_LIBC=1",
    "_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0",
    "_LIBCPP_HAS_FILESYSTEM=1",
    "_LIBCPP_HAS_RANDOM_DEVICE=1",
    "_LIBCPP_HAS_LOCALIZATION=1",
    "_LIBCPP_HAS_UNICODE=1",
    "_LIBCPP_HAS_WIDE_CHARACTERS=1",
    "_LIBCPP_HAS_TIME_ZONE_DATABASE=1",
    "_LIBCPP_PSTL_BACKEND_SERIAL",
    "_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "_LIBCPP_ASSERTION_SEMANTIC_DEFAULT=_LIBCPP_ASSERTION_SEMANTIC_IGNORE",
)
# Device code as text, with line numbers and argument names, and nothing in it that depends on where the file lies.
_DEVICE_ASSEMBLY = (
    "-x", "hip", "--cuda-device-only", "-S", "-O3", "-w",
    "-gline-tables-only", "-fhip-kernel-arg-name", "-fuse-cuid=none",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HipCompiler:
    """A compiler of HIP source.

    Attributes:
        name: Compiler and version, ``clang 22.1.8 (ziglang)``.
        build: All that it says of its version: builds of ROCm share the number of their clang.
        command: Words that start it.
        bundled: Whether it is the wheel's, which has to be told where headers and libraries are.
    """

    name: str
    build: str
    command: tuple[str, ...]
    bundled: bool

    def words(self, arch: str) -> list[str]:
        """The command line that compiles for an architecture; source and output are still to be added."""
        words = [*self.command, *_DEVICE_ASSEMBLY, f"--offload-arch={arch}"]
        if not self.bundled:
            return [*words, "-include", "hip/hip_runtime.h"]
        zig, amd = _package("ziglang") / "lib", _triton_backend()
        includes = [HEADERS, amd / "include", *(zig / part for part in _HOST_HEADERS)]
        bitcode = [amd / "lib" / "ockl.bc", amd / "lib" / "ocml.bc", _switches(arch)]
        return [
            *words, "-nogpuinc", "-nogpulib", "-nostdinc", "-nostdinc++", "-fdeclspec", f"--target={_HOST}",
            "-D__HIP_PLATFORM_AMD__=1", *(f"-D{define}" for define in _HOST_DEFINES),
            *(word for path in includes for word in ("-isystem", str(path))),
            *(word for path in bitcode for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))),
            "-include", str(HEADERS / "wavecast_hip.h"),
        ]  # fmt: skip


def find_compiler() -> HipCompiler:
    """``hipcc`` if it is on the path, else the wheel's clang.

    Raises:
        MissingToolError: Neither is there.
    """
    hipcc = shutil.which("hipcc")
    if hipcc is not None:
        return HipCompiler(f"hipcc {_version((hipcc,))}", _build((hipcc,)), (hipcc,), bundled=False)
    if importlib.util.find_spec("ziglang") is None:
        raise MissingToolError(
            "HIP source needs a compiler, and there is neither hipcc on the path nor the package ziglang",
            hint="pip install 'wavecast-simulator[hip]', or put ROCm's bin directory on the PATH",
        )
    command = (sys.executable, "-m", "ziglang", "clang")
    return HipCompiler(f"clang {_version(command)} (ziglang)", _build(command), command, bundled=True)


@lru_cache(maxsize=4)
def _build(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout


def _version(command: tuple[str, ...]) -> str:
    text = _build(command)
    found = re.search(r"clang version (\S+)", text) or re.search(r"(\d+\.\d+\S*)", text)
    return found[1] if found else "of unknown version"


def _package(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingToolError(f"the package {name} is not installed", hint=f"pip install {name}")
    return Path(next(iter(spec.submodule_search_locations)))


def _triton_backend() -> Path:
    """Triton's folder with ROCm's headers and device library."""
    folder = _package("triton") / "backends" / "amd"
    wanted = [folder / "include" / "hip" / "hip_runtime.h", folder / "lib" / "ocml.bc", folder / "lib" / "ockl.bc"]
    for path in wanted:
        if not path.is_file():
            raise MissingToolError(
                f"the installed Triton has no {path.relative_to(folder)}, which compiling HIP without ROCm needs",
                hint="install triton 3.6 to 3.9 from PyPI, or put ROCm's bin directory on the PATH",
            )
    return folder


def _switches(arch: str) -> Path:
    """Bitcode that answers what the device library asks; written to the user's cache directory on first use."""
    import llvmlite.binding as llvm

    values = {**_SWITCHES, "ISA_version": ("i32", _ISA_VERSION[arch])}
    text = "".join(
        f"@__oclc_{name} = weak_odr hidden local_unnamed_addr addrspace(4) constant {kind} {value}\n"
        for name, (kind, value) in values.items()
    )
    content = llvm.parse_assembly('target triple = "amdgcn-amd-amdhsa"\n' + text).as_bitcode()
    path = Path(platformdirs.user_cache_dir("wavecast", appauthor=False)) / "hip" / f"switches-{arch}.bc"
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{id(content)}")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return path
