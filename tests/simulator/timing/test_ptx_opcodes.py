"""What the timing sees of PTX: units, rates, and where a warp has to wait for what it loaded."""

from __future__ import annotations

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.program.instruction import WARP_WAIT
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.program.ptx import parse_ptx
from wavecast.simulator.timing.facts import Group, group_of, kernel_facts
from wavecast.simulator.timing.machine_opcodes import MachinePipe, machine_rate
from wavecast.simulator.timing.opcodes import is_half_rate, is_quarter_rate, matrix_clk, matrix_flop, unit_of
from wavecast.simulator.timing.units import Rate, Unit

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 probe_param_0) .reqntid 128
{
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<60>; .reg .b64 %d<9>;
"""


def kernel(body: str) -> Kernel:
    return parse_ptx(f"{HEAD}{body}\nret;\n}}\n", registers=32)


def waits(parsed: Kernel) -> list[tuple[str, dict[str, object]]]:
    """Each wait with the opcode of what stands behind it."""
    found = parsed.instructions
    return [(found[i.index + 1].opcode, dict(i.modifiers)) for i in found if i.opcode == WARP_WAIT]


@pytest.mark.parametrize(
    ("text", "unit", "group"),
    [
        ("ld.global.v4.b32 {%r1,%r2,%r3,%r4}, [%d1];", Unit.VECTOR_MEMORY, Group.GLOBAL_LOAD),
        ("cp.async.cg.shared.global [%r1], [%d1], 0x10;", Unit.VECTOR_MEMORY, Group.GLOBAL_LOAD),
        ("st.global.b32 [%d1], %r1;", Unit.VECTOR_MEMORY, Group.GLOBAL_STORE),
        ("atom.global.gpu.acq_rel.add.f32 %r1, [%d1], %r2;", Unit.VECTOR_MEMORY, Group.GLOBAL_ATOMIC),
        ("ld.shared.b32 %r1, [%r2];", Unit.LDS, Group.LDS),
        ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;", Unit.LDS, Group.LDS),
        ("ld.param.u64 %d1, [probe_param_0];", Unit.SCALAR_MEMORY, Group.SCALAR_LOAD),
        ("bar.sync 0;", Unit.SCALAR, Group.BARRIER),
        ("fence.acq_rel.gpu;", Unit.SCALAR, Group.FENCE_RELEASE),
        ("fma.rn.f32 %r1, %r2, %r3, %r4;", Unit.VALU, Group.VECTOR),
        ("mov.b32 %r1, %r2;", Unit.NONE, Group.NONE),
        ("cp.async.commit_group;", Unit.NONE, Group.NONE),
    ],
)
def test_an_instruction_occupies_the_unit_of_its_kind(text: str, unit: Unit, group: Group) -> None:
    first = kernel(text).instructions[0]
    assert (unit_of(first), group_of(first)) == (unit, group)


@pytest.mark.parametrize(
    ("text", "half", "quarter"),
    [
        ("add.f32 %r1, %r2, %r3;", False, False),
        ("fma.rn.bf16x2 %r1, %r2, %r3, %r4;", False, False),
        ("add.s32 %r1, %r2, %r3;", True, False),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;", True, False),
        ("add.f64 %d1, %d2, %d3;", True, False),
        ("ex2.approx.ftz.f32 %r1, %r2;", False, True),
        ("cvt.rn.f64.s32 %d1, %r1;", False, True),
        ("shfl.sync.idx.b32 %r1, %r2, 1, 31, -1;", False, False),
    ],
)
def test_rates_are_those_of_the_programming_guide(text: str, half: bool, quarter: bool) -> None:
    first = kernel(text).instructions[0]
    assert (is_half_rate(first), is_quarter_rate(first)) == (half, quarter)


def test_a_product_on_tensor_cores_counts_its_operations() -> None:
    text = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4},{%r5,%r6,%r7,%r8},{%r9,%r10},"
    first = kernel(text + "{%r1,%r2,%r3,%r4};").instructions[0]
    assert unit_of(first) is Unit.MATRIX
    assert matrix_flop(first) == 2 * 16 * 8 * 16
    assert matrix_clk(first, load_device("h200")) == 8


def test_a_warp_waits_before_the_first_use_and_for_no_later_load() -> None:
    parsed = kernel(
        """
        ld.global.b32 %r1, [%d1];
        ld.global.b32 %r2, [%d2];
        ld.shared.b32 %r3, [%r9];
        add.s32 %r4, %r8, 1;
        add.s32 %r5, %r1, %r4;
        add.s32 %r6, %r1, %r5;
        add.s32 %r7, %r2, %r3;
        """
    )
    assert waits(parsed) == [("add.s32", {"vmcnt": 1}), ("add.s32", {"vmcnt": 0, "lgkmcnt": 0})]


def test_a_loop_waits_for_what_its_last_turn_loaded() -> None:
    parsed = kernel(
        """
        ld.global.b32 %r1, [%d1];
        $loop:
        mov.b32 %r2, %r1;
        ld.global.b32 %r1, [%d1];
        add.s32 %r3, %r3, %r2;
        setp.lt.s32 %p1, %r3, 9;
        @%p1 bra $loop;
        """
    )
    assert waits(parsed) == [("add.s32", {"vmcnt": 1})]


def test_who_uses_what_a_move_took_apart_waits_in_its_place() -> None:
    parsed = kernel(
        """
        ld.global.b32 %r1, [%d1];
        mov.b32 {%h1, %h2}, %r1;
        ld.global.b32 %r2, [%d2];
        cvt.f32.bf16 %r3, %h2;
        """
    )
    assert waits(parsed) == [("cvt.f32.bf16", {"vmcnt": 1})]


def test_asynchronous_copies_are_waited_for_a_group_at_a_time() -> None:
    copy = "cp.async.cg.shared.global [%r1], [%d1], 0x10;"
    parsed = kernel(f"{copy} {copy} cp.async.commit_group; {copy} {copy} cp.async.commit_group; cp.async.wait_group 1;")
    assert waits(parsed) == [("cp.async.wait_group", {"vmcnt": 2})]


def test_facts_of_a_kernel_count_what_the_text_says_and_the_occupancy_of_its_registers() -> None:
    facts = kernel_facts(
        kernel("ld.global.v2.b32 {%r1,%r2}, [%d1]; st.global.v2.b32 [%d1], {%r1,%r2};"), load_device("h200")
    )
    assert facts.widths(Group.GLOBAL_LOAD) == {8: 1}
    assert facts.residency is not None
    assert (facts.residency.waves_per_simd, facts.residency.waves_per_workgroup) == (16, 4)


@pytest.mark.parametrize(
    ("head", "rate"),
    [
        ("FFMA", (MachinePipe.FMA, Rate.FULL)),
        ("IMAD", (MachinePipe.FMA, Rate.HALF)),
        ("LOP3", (MachinePipe.ALU, Rate.HALF)),
        ("MUFU", (MachinePipe.SPECIAL, Rate.QUARTER)),
        ("LDG", None),
        ("UIADD3", None),
        ("BRA", None),
    ],
)
def test_machine_code_keeps_the_pipes_busy_that_the_guide_gives_it(
    head: str, rate: tuple[MachinePipe, Rate] | None
) -> None:
    assert machine_rate(head) == rate
