"""Triton's kernels, assembled to machine code and read back, are the same kernels."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wavecast.simulator.compile.binary import read_binary
from wavecast.simulator.compile.disassembler import find_disassemblers
from wavecast.simulator.launch import parsed_kernel

from .cases import CASES, compile_case

HAS_TOOLS = importlib.util.find_spec("ziglang") is not None and any(
    int(tool.version.partition(".")[0]) >= 17 for tool in find_disassemblers()
)
pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(not HAS_TOOLS, reason="needs the clang of ziglang and llvm-objdump of LLVM 17 or later"),
]
# Preloaded arguments, scratch, accumulation registers, packed and sub-dword forms, conversions, lane exchange, atomics.
NAMES = (
    "row-quantize-fp8e4b8", "transpose-fp32", "gemm-fp8e4b8-stages2", "gemm-bf16-spill",
    "gemm-bf16-accumulation-registers", "gemm-fp64", "split-k-bf16", "attention-causal", "weight-only-gemm",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_read_back(name: str, tmp_path: Path) -> None:
    written = compile_case(next(case for case in CASES if case.name == name), "gfx942")
    source = tmp_path / "kernel.s"
    source.write_text(written.assembly)
    zig = [sys.executable, "-m", "ziglang"]
    machine, linked = source.with_suffix(".o"), source.with_suffix(".hsaco")
    target = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx942"]
    subprocess.run([*zig, "clang", "-x", "assembler", *target, "-c", source, "-o", machine], check=True)
    subprocess.run([*zig, "ld.lld", "-shared", machine, "-o", linked], check=True)
    (read,) = read_binary(linked)
    got, want = parsed_kernel(replace(read, lds_bytes=written.lds_bytes)), parsed_kernel(written)
    for one, other in zip(got.instructions, want.instructions, strict=True):
        assert (one.opcode, one.encoding, one.target) == (other.opcode, other.encoding, other.target)
        if one.target is None:
            assert (one.operands, one.modifiers) == (other.operands, other.modifiers)
    assert got.arguments == want.arguments
    # How many of the registers are ordinary stands in a comment of the compiler only.
    assert replace(got.resources, arch_vgpr=0) == replace(want.resources, arch_vgpr=0)
    preload = [kernel.descriptor["user_sgpr_kernarg_preload_length"] for kernel in (got, want)]
    assert preload[0] == preload[1]
    assert got.descriptor["user_sgpr_count"] == want.descriptor["user_sgpr_count"]
