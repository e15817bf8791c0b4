"""What the assembler reports about a kernel, read from the binary that Triton brings along."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from wavecast.simulator.compile.cubin import assembler_report
from wavecast.simulator.compile.triton import compile_kernel
from wavecast.simulator.errors import AssemblyError

pytestmark = pytest.mark.compile


@triton.jit
def wide_kernel(x, y, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(y + index, tl.sort(tl.load(x + index)) * 2)


@pytest.mark.parametrize("block", [128, 2048])
def test_registers_are_those_that_the_assembler_says(block: int) -> None:
    code = compile_kernel(
        wide_kernel,
        signature={"x": "*fp32", "y": "*fp32"},
        arch="sm_90",
        constexprs={"BLOCK": block},
        attrs={"x": "D", "y": "D"},
        options={"num_warps": 1},
    )
    assert code.arch == "sm_90"
    assert code.num_warps == 1
    assert 8 < code.registers <= 255
    assert (code.registers > 60) == (block == 2048)
    assert len(code.digest) == 16


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(AssemblyError, match="no cubin"):
        assembler_report(b"nothing", "kernel")
