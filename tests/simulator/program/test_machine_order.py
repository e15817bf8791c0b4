"""PTX in the order of its machine code: loads first, results unchanged, work counted once."""

from __future__ import annotations

import pytest

from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.program.machine import MachineInstruction
from wavecast.simulator.program.ptx import parse_ptx

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 k_param_0)
.reqntid 32
{
.reg .pred %p<8>;
.reg .b32 %r<32>;
.reg .b64 %d<8>;
"""
FIRST = HEAD.count("\n") + 1  # line of a body's first statement
PAIR = (
    "ld.param.u64 %d0, [k_param_0];",
    "ld.global.b32 %r0, [%d0];",
    "add.s32 %r1, %r0, 1;",
    "ld.global.b32 %r2, [%d0+128];",
    "add.s32 %r3, %r2, 1;",
    "add.s32 %r4, %r1, %r3;",
    "st.global.b32 [%d0], %r4;",
)


def parsed(body: tuple[str, ...], machine: list[tuple[int, str, int]]) -> Kernel:
    """A kernel whose machine code is (statement, opcode, stall)."""
    text = HEAD + "\n".join(body) + "\nret;\n}\n"
    return parse_ptx(text, registers=32, machine=[MachineInstruction(FIRST + n, op, stall) for n, op, stall in machine])


def texts(kernel: Kernel) -> list[str]:
    return [i.text.split()[0] + i.text.split()[1].strip(",") for i in kernel.instructions if "%r" in i.text]


def test_loads_that_the_assembler_moved_up_are_under_way_together() -> None:
    kernel = parsed(PAIR, [(1, "LDG.E", 4), (3, "LDG.E", 4), (2, "IADD3", 4), (5, "IADD3", 5), (6, "STG.E", 1)])
    assert texts(kernel)[:2] == ["ld.global.b32%r0", "ld.global.b32%r2"]
    waits = [dict(i.modifiers) for i in kernel.instructions if i.opcode == "warp_wait" and "vmcnt" in i.modifiers]
    assert waits == [{"vmcnt": 1}, {"vmcnt": 0}]


def test_without_machine_code_the_text_keeps_its_order() -> None:
    kernel = parsed(PAIR, [])
    assert texts(kernel) == [s.split()[0] + s.split()[1].strip(",") for s in PAIR if "%r" in s]
    assert not kernel.machine


def test_nothing_passes_what_it_depends_on_whatever_the_machine_code_says() -> None:
    backwards = [(n, "IADD3", 1) for n in reversed(range(len(PAIR)))]
    order = texts(parsed(PAIR, backwards))
    for earlier, later in (("ld.global.b32%r0", "add.s32%r1"), ("ld.global.b32%r2", "add.s32%r3")):
        assert order.index(earlier) < order.index(later)
    assert order[-2:] == ["add.s32%r4", "st.global.b32[%d0]"]


@pytest.mark.parametrize("between", ["st.global.b32 [%d0], %r9;", "bar.sync 0;", "membar.gl;"])
def test_a_load_passes_no_store_and_no_barrier(between: str) -> None:
    body = ("ld.param.u64 %d0, [k_param_0];", "mov.u32 %r9, 7;", between, "ld.global.b32 %r0, [%d0];")
    order = [i.text for i in parsed(body, [(3, "LDG.E", 1), (2, "X", 1)]).instructions]
    assert order.index(between.rstrip(";")) < order.index("ld.global.b32 %r0, [%d0]")


def test_a_guarded_load_keeps_behind_what_gives_the_other_lanes_their_value() -> None:
    body = (
        "ld.param.u64 %d0, [k_param_0];",
        "mov.u32 %r0, 0;",
        "setp.lt.s32 %p0, 1, 2;",
        "@%p0 ld.global.b32 %r0, [%d0];",
    )
    order = [i.text for i in parsed(body, [(3, "LDG.E", 1), (2, "ISETP", 1), (1, "CS2R", 1)]).instructions]
    assert order.index("mov.u32 %r0, 0") < order.index("@%p0 ld.global.b32 %r0, [%d0]")


def test_an_unrolled_loop_counts_as_one_of_its_copies() -> None:
    copies = [(1, "LDG.E", 2), (2, "IADD3", 4), (2, "LOP3", 4)] * 4
    works = {i.text: parsed(PAIR, copies).machine[i.index] for i in parsed(PAIR, copies).instructions if "%r" in i.text}
    load, add = works["ld.global.b32 %r0, [%d0]"], works["add.s32 %r1, %r0, 1"]
    assert (load.copies, len(load.heads) / load.copies) == (4.0, 1.0)
    assert (len(add.heads) / add.copies, add.stall_clk / add.copies) == (2.0, 8.0)
    assert works["add.s32 %r4, %r1, %r3"].heads == ()
