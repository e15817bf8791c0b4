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


@triton.jit
def rows_kernel(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n, other=0.0)
    tl.store(y + index, tl.exp(value) / (value + 2.0), mask=index < n)


def test_machine_code_names_the_line_of_ptx_of_every_memory_operation() -> None:
    code = compile_kernel(
        rows_kernel,
        signature={"x": "*fp32", "y": "*fp32", "n": "i32"},
        arch="sm_90",
        constexprs={"BLOCK": 512},
        attrs={"x": "D", "y": "D"},
        options={"num_warps": 1},
    )
    lines = code.assembly.split("\n")
    for head, word in (("LDG", "ld.global"), ("STG", "st.global")):
        mine = [item for item in code.machine if item.head == head]
        assert mine
        assert all(word in lines[item.line - 1] for item in mine)
    assert all(0 <= item.stall_clk <= 15 for item in code.machine)
    # The rare cases of the division are a function of their own; the kernel ends before it.
    assert not any(item.head == "RET" for item in code.machine)
