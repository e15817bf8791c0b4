"""Warps: divergence, exchange between lanes, memory, atomics, barriers, traces, faults and refusals of PTX."""

from __future__ import annotations

import numpy as np
import pytest
from warps import HEADER, LANES, kernel_text, opcode_count, run

from wavecast.simulator.errors import AssemblyError, MemoryFaultError, UnsupportedInstructionError
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.program.ptx import parse_ptx
from wavecast.simulator.traffic import AccessKind, classify

STORE = "mad.wide.u32 %w, %i, 4, %a0; st.global.b32 [%w], %r1;"


class Records:
    """Keeps a copy of every trace record."""

    def __init__(self) -> None:
        self.all: list[np.ndarray] = []

    def consume(self, records: np.ndarray) -> None:
        self.all.append(records.copy())


def test_lanes_that_part_meet_again_before_the_code_that_all_execute() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = """
    setp.lt.u32 %p1, %t, 10;
    @%p1 bra $then;
    mov.b32 %r1, 200;
    bra $join;
    $then:
    mov.b32 %r1, 100;
    $join:
    add.s32 %r1, %r1, %t;
    """
    execution = run(kernel_text(body + STORE), out)
    assert out.tolist() == [100 + lane if lane < 10 else 200 + lane for lane in range(LANES)]
    assert opcode_count(execution, "add.s32") == 1
    assert opcode_count(execution, "mov.b32") == 2


def test_lanes_leave_a_loop_one_by_one_and_wait_behind_it() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = """
    mov.b32 %r1, 0;
    mov.b32 %r2, %t;
    $loop:
    add.s32 %r1, %r1, %r2;
    sub.s32 %r2, %r2, 1;
    setp.ge.s32 %p1, %r2, 0;
    @%p1 bra $loop;
    """
    execution = run(kernel_text(body + STORE), out)
    assert out.tolist() == [lane * (lane + 1) // 2 for lane in range(LANES)]
    assert opcode_count(execution, "sub.s32") == LANES
    assert opcode_count(execution, "st.global") == 1


def test_nested_branches_and_an_early_exit_leave_the_others_at_work() -> None:
    out = np.full(LANES, -1, dtype=np.int32)
    body = """
    setp.ge.u32 %p1, %t, 16;
    @%p1 bra $upper;
    and.b32 %r2, %t, 1;
    setp.eq.b32 %p2, %r2, 0;
    @%p2 ret;
    mov.b32 %r1, 1;
    bra $join;
    $upper:
    setp.ge.u32 %p3, %t, 24;
    @%p3 bra $top;
    mov.b32 %r1, 2;
    bra $join;
    $top:
    mov.b32 %r1, 3;
    $join:
    """
    run(kernel_text(body + STORE), out)
    assert out.tolist() == [(1 if lane % 2 else -1) if lane < 16 else 2 if lane < 24 else 3 for lane in range(LANES)]


def test_ways_that_only_meet_at_the_end_of_the_kernel_both_run() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = f"setp.lt.u32 %p1, %t, 5; @%p1 bra $other; mov.b32 %r1, 7; {STORE} ret; $other: mov.b32 %r1, 9; {STORE}"
    run(kernel_text(body), out)
    assert out.tolist() == [9] * 5 + [7] * 27


def test_a_guard_leaves_out_lanes_of_one_instruction() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = "mov.b32 %r1, 1; setp.lt.u32 %p1, %t, 4; @%p1 mov.b32 %r1, 2; @!%p1 add.s32 %r1, %r1, 10;"
    run(kernel_text(body + STORE), out)
    assert out.tolist() == [2] * 4 + [11] * 28


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("shfl.sync.bfly.b32 %r1, %r2, 5, 31, -1;", lambda lane: lane ^ 5),
        ("shfl.sync.up.b32 %r1, %r2, 3, 0, -1;", lambda lane: lane - 3 if lane >= 3 else lane),
        ("shfl.sync.down.b32 %r1, %r2, 3, 31, -1;", lambda lane: min(lane + 3, lane) if lane + 3 > 31 else lane + 3),
        ("shfl.sync.idx.b32 %r1, %r2, %r3, 31, -1;", lambda lane: 31 - lane),
        ("shfl.sync.idx.b32 %r1, %r2, 1, 0x181F, -1;", lambda lane: (lane & 24) | 1),
        ("shfl.sync.down.b32 %r1, %r2, 2, 0x1C1F, -1;", lambda lane: lane + 2 if lane % 4 < 2 else lane),
    ],
)
def test_a_shuffle_takes_each_lanes_value_from_its_source(text: str, source) -> None:  # type: ignore[no-untyped-def]
    out = np.zeros(LANES, dtype=np.int32)
    run(kernel_text(f"mul.lo.s32 %r2, %t, 7; sub.s32 %r3, 31, %t; {text} {STORE}"), out)
    assert out.tolist() == [7 * source(lane) for lane in range(LANES)]


def test_a_shuffle_tells_which_sources_were_in_range() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = "shfl.sync.up.b32 %r2|%p1, %t, 4, 0, -1; selp.b32 %r1, %r2, -1, %p1;"
    run(kernel_text(body + STORE), out)
    assert out.tolist() == [-1] * 4 + list(range(28))


def test_votes_and_reductions_look_at_the_active_lanes_only() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = """
    setp.lt.u32 %p1, %t, 8;
    @!%p1 bra $rest;
    setp.gt.u32 %p2, %t, 5;
    vote.sync.ballot.b32 %r2, %p2, -1;
    redux.sync.add.s32 %r3, %t, -1;
    redux.sync.max.u32 %r4, %t, -1;
    shl.b32 %r3, %r3, 8;
    shl.b32 %r4, %r4, 20;
    or.b32 %r1, %r2, %r3;
    or.b32 %r1, %r1, %r4;
    bra $join;
    $rest:
    activemask.b32 %r1;
    $join:
    """
    run(kernel_text(body + STORE), out)
    assert out.tolist() == [0b11000000 | sum(range(8)) << 8 | 7 << 20] * 8 + [-256] * 24


@pytest.mark.parametrize("kind", ["b8", "b16", "b32", "b64", "v2.b32", "v4.b32", "v2.b64", "v2.b16", "v4.b16", "v4.b8"])
def test_loads_and_stores_of_every_width_move_the_bytes(kind: str) -> None:
    vector, _, element = kind.rpartition(".")
    count, bits = int(vector[1:] or 1) if vector else 1, int(element[1:])
    letter = {8: "h", 16: "h", 32: "r", 64: "d"}[bits]
    registers = ", ".join(f"%{letter}{number + 10}" for number in range(count))
    size = count * bits // 8
    data = np.random.default_rng(1).integers(0, 256, LANES * size, dtype=np.uint8)
    out = np.zeros_like(data)
    body = f"""
    mad.wide.u32 %d1, %t, {size}, %a0;
    mad.wide.u32 %d2, %t, {size}, %a1;
    mul.lo.s32 %r1, %t, {size};
    mov.b32 %r2, smem;
    add.s32 %r2, %r2, %r1;
    ld.global.L1::no_allocate.{kind} {{ {registers} }}, [ %d2 + 0 ];
    st.shared.{kind} [%r2+16], {{ {registers} }};
    bar.sync 0;
    ld.shared.{kind} {{ {registers} }}, [%r2+16];
    st.global.cs.{kind} [%d1], {{ {registers} }};
    """
    run(kernel_text(body, parameters=2), out, data, shared_bytes=LANES * size + 16)
    assert np.array_equal(out, data)


def test_small_loads_extend_with_the_sign_that_the_type_has() -> None:
    data, out = np.arange(-16, 16, dtype=np.int8), np.zeros((2, LANES), dtype=np.int32)
    body = """
    cvt.u64.u32 %d1, %t; add.s64 %d1, %d1, %a1;
    ld.global.s8 %r1, [%d1]; ld.global.u8 %r2, [%d1];
    mad.wide.u32 %w, %t, 4, %a0; st.global.b32 [%w], %r1; st.global.b32 [%w+128], %r2;
    """
    run(kernel_text(body, parameters=2), out, data)
    assert np.array_equal(out[0], data)
    assert np.array_equal(out[1], data.view(np.uint8))


def test_an_asynchronous_copy_fills_with_zeros_what_the_source_has_not() -> None:
    data = np.arange(1, 4 * LANES + 1, dtype=np.int32)
    out = np.full(4 * LANES, -1, dtype=np.int32)
    body = """
    mad.wide.u32 %d1, %t, 16, %a0; mad.wide.u32 %d2, %t, 16, %a1;
    shl.b32 %r1, %t, 4; mov.b32 %r2, smem; add.s32 %r2, %r2, %r1;
    setp.lt.u32 %p1, %t, 8; selp.b32 %r3, 16, 0, %p1;
    cp.async.cg.shared.global [ %r2 + 0 ], [ %d2 + 0 ], 0x10, %r3;
    cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r2]; st.global.v4.b32 [%d1], {%r10, %r11, %r12, %r13};
    """
    records = Records()
    execution = run(kernel_text(body, parameters=2), out, data, shared_bytes=16 * LANES, observer=records)
    assert np.array_equal(out, np.where(np.arange(4 * LANES) < 32, data, 0))
    copies = [index for index, i in enumerate(execution.kernel.instructions) if i.opcode.startswith("cp.async.cg")]
    found = np.concatenate(records.all)
    assert found["exec"][found["instruction"] == copies[0]].tolist() == [0xFF]
    access = classify(execution.kernel.instructions[copies[0]])
    assert access is not None
    assert (access.kind, access.bytes_per_lane) == (AccessKind.LDS_DIRECT, 16)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("red.global.gpu.relaxed.add.f32 [%a0], %r2;", np.float32(sum(range(32))).view(np.int32)),
        ("atom.global.gpu.acq_rel.max.s32 %r3, [%a0], %t;", 31),
        ("atom.global.gpu.acq_rel.add.u32 %r3, [%a0], 3;", 96),
        ("atom.global.acq_rel.gpu.cas.b32 %r3, [%a0], 0, 77;", 77),
        ("setp.eq.b32 %p1, %t, 9; @%p1 atom.global.exch.b32 %r3, [%a0], %t;", 9),
        ("atom.global.or.b32 _, [%a0], %t;", 31),
    ],
)
def test_atomics_of_all_lanes_meet_at_one_address(text: str, want: int) -> None:
    out = np.zeros(1, dtype=np.int32)
    run(kernel_text(f"cvt.rn.f32.u32 %r2, %t; {text}"), out)
    assert int(out[0]) == int(want)


def test_warps_of_a_block_meet_at_the_barrier_and_share_memory() -> None:
    out = np.zeros(128, dtype=np.int32)
    body = """
    shl.b32 %r2, %t, 2; mov.b32 %r3, smem; add.s32 %r4, %r3, %r2;
    st.shared.b32 [%r4], %t;
    bar.sync 0;
    sub.s32 %r5, 508, %r2; add.s32 %r5, %r5, %r3;
    ld.shared.b32 %r1, [%r5];
    """
    run(kernel_text(body + STORE, threads=128), out, shared_bytes=512)
    assert out.tolist() == list(range(127, -1, -1))


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrices_come_back_from_shared_memory_as_they_went_in(trans: str) -> None:
    out = np.zeros(4 * LANES, dtype=np.uint32)
    moved = np.zeros(4 * LANES, dtype=np.uint32)
    body = f"""
    shl.b32 %r1, %t, 4; mov.b32 %r2, smem; add.s32 %r2, %r2, %r1;
    mul.lo.s32 %r10, %t, 0x00020002; add.s32 %r10, %r10, 0x00010000;
    add.s32 %r11, %r10, 0x01000100; add.s32 %r12, %r10, 0x02000200; add.s32 %r13, %r10, 0x03000300;
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r2], {{%r10, %r11, %r12, %r13}};
    ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r2];
    mad.wide.u32 %d1, %t, 16, %a0; st.global.v4.b32 [%d1], {{%r20, %r21, %r22, %r23}};
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r30, %r31, %r32, %r33}}, [%r2];
    mad.wide.u32 %d2, %t, 16, %a1; st.global.v4.b32 [%d2], {{%r30, %r31, %r32, %r33}};
    """
    run(kernel_text(body, parameters=2), out, moved, shared_bytes=16 * LANES)
    rows = out.view(np.uint16).reshape(4, 8, 8)
    plain = np.arange(64, dtype=np.uint16).reshape(8, 8)
    for matrix in range(4):
        assert np.array_equal(rows[matrix], (plain.T if trans else plain) + 256 * matrix)
    lanes = moved.view(np.uint16).reshape(LANES, 4, 2)
    assert all(
        lanes[lane, m].tolist() == [2 * lane + 256 * m, 2 * lane + 1 + 256 * m] for lane in range(32) for m in range(4)
    )


def test_a_matrix_product_is_that_of_its_fragments() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    fragments = np.zeros((LANES, 6, 2), dtype=np.float16)
    for lane in range(LANES):
        g, t = divmod(lane, 4)
        for register, (row, column) in enumerate([(g, 0), (g + 8, 0), (g, 8), (g + 8, 8)]):
            fragments[lane, register] = a[row, column + 2 * t : column + 2 * t + 2]
        for register, depth in enumerate((0, 8)):
            fragments[lane, 4 + register] = b[depth + 2 * t : depth + 2 * t + 2, g]
    out = np.zeros((LANES, 4), dtype=np.float32)
    body = """
    mad.wide.u32 %d1, %t, 24, %a1; mad.wide.u32 %d2, %t, 16, %a0; mov.b32 %r20, 0;
    ld.global.v2.b32 {%r1, %r2}, [%d1]; ld.global.v2.b32 {%r3, %r4}, [%d1+8]; ld.global.v2.b32 {%r5, %r6}, [%d1+16];
    mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%r10,%r11,%r12,%r13}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r10,%r11,%r12,%r13};
    st.global.v4.b32 [%d2], {%r10, %r11, %r12, %r13};
    """
    run(kernel_text(body, parameters=2), out, fragments)
    want = a.astype(np.float32) @ b.astype(np.float32)
    for lane in range(LANES):
        g, t = divmod(lane, 4)
        assert out[lane].tolist() == [*want[g, 2 * t : 2 * t + 2], *want[g + 8, 2 * t : 2 * t + 2]]


def test_the_trace_has_the_addresses_of_the_lanes_that_took_part() -> None:
    out = np.zeros(2 * LANES, dtype=np.int32)
    records = Records()
    body = "setp.lt.u32 %p1, %t, 3; mov.b32 %r1, 1; mad.wide.u32 %w, %i, 4, %a0; @%p1 st.global.b32 [%w+8], %r1;"
    execution = run(kernel_text(body), out, blocks=2, observer=records)
    (found,) = records.all
    assert found["workgroup"].tolist() == [0, 1]
    assert found["exec"].tolist() == [7, 7]
    distances = found["address"][:, :3] - found["address"][0, 0]
    assert distances.tolist() == [[0, 4, 8], [128, 132, 136]]
    assert execution.kernel.instructions[found["instruction"][0]].opcode == "st.global.b32"


def test_recorded_runs_tell_every_warp_instruction() -> None:
    out = np.zeros(64, dtype=np.int32)
    body = "mov.b32 %r1, 0; $loop: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 50; @%p1 bra $loop;"
    execution = run(kernel_text(body + STORE, threads=64), out, record=1)
    runs = execution.runs
    assert int(((runs["end"] - runs["first"]) * runs["repeats"]).sum()) == int(execution.executed.sum())
    assert runs["repeats"].max() >= 48


def test_a_stray_address_names_kernel_lane_and_buffer() -> None:
    out = np.zeros(LANES, dtype=np.int32)
    body = "mov.b32 %r1, 0; mad.wide.u32 %w, %i, 8, %a0; st.global.b32 [%w], %r1;"
    with pytest.raises(MemoryFaultError, match=r"kernel probe.*st\.global\.b32.*lane 16.*'array 0' \(128 bytes\)"):
        run(kernel_text(body), out)
    with pytest.raises(MemoryFaultError, match=r"lane 0: 4 bytes at offset 64 of shared memory, and the block has 64"):
        run(kernel_text("mov.b32 %r1, smem; st.shared.b32 [%r1+64], %t;"), out, shared_bytes=64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frobnicate.f32 %r1, %r2;", r"kernel probe \(sm_90\).*'frobnicate\.f32 %r1, %r2' \(instruction 5, x\.py:12\)"),
        ("cvt.rz.f16.f32 %h1, %r1;", r"cvt\.rz\.f16\.f32.*\.rz has no semantics"),
        ("bar.sync 1, 64;", r"bar\.sync 1, 64"),
        ("wgmma.fence.sync.aligned;", "1 wgmma.*counted, but not executed"),
    ],
)
def test_what_has_no_semantics_is_refused_with_its_place(text: str, message: str) -> None:
    loc = ".loc 1 12 3 // x.py:12:3\n"
    kernel = parse_ptx(kernel_text(loc + text).replace(".address_size 64", '.address_size 64\n.file 1 "/a/x.py"'))
    with pytest.raises(UnsupportedInstructionError, match=message):
        Engine().program(kernel)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, "no .entry"),
        (kernel_text("bra $nowhere;"), "label that is not in the text"),
        (kernel_text("add.s32 %r1, %nothing, [oops+4];"), r"line \d+: 'add\.s32.*'oops' is neither"),
        (kernel_text("").replace("ret;\n}", ""), "no closing brace"),
        (kernel_text("").replace("ret;\n", "mov.b32 %r1, 0;\n"), "runs past its last instruction"),
    ],
)
def test_text_that_is_not_understood_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        parse_ptx(text)


def test_parameters_lie_where_their_alignment_puts_them() -> None:
    text = kernel_text("").replace(
        ".param .u64 probe_param_0",
        ".param .u32 n, .param .u64 .ptr .global .align 1 probe_param_0, .param .align 4 .b8 s[6], .param .u16 h",
    )
    kernel = parse_ptx(text)
    places = [(a.name, a.offset, a.size) for a in kernel.arguments]
    assert places == [("n", 0, 4), ("probe_param_0", 8, 8), ("s", 16, 6), ("h", 22, 2)]
    assert kernel.kernarg_bytes == 24
