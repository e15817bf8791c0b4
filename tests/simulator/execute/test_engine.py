"""The engine on small hand-written kernels: grid, waves, barriers, counts, trace, faults, budget."""

from __future__ import annotations

import numpy as np
import pytest
from small_kernels import STORE_ID, build, run

from wavecast.simulator.errors import (
    InstructionBudgetError,
    LaunchError,
    MemoryFaultError,
    UnsupportedInstructionError,
)
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def test_every_workgroup_and_wave_of_a_three_dimensional_grid(engine: Engine) -> None:
    kernel = build(STORE_ID, waves=3)
    out = np.zeros(12 * 192, np.uint32)
    execution = run(engine, kernel, out, 192, grid=(3, 2, 2))
    x, y, z = np.meshgrid(range(3), range(2), range(2), indexing="ij")
    expected = (x + 100 * y + 10000 * z).transpose(2, 1, 0).reshape(-1)
    np.testing.assert_array_equal(out.reshape(12, 192), np.repeat(expected[:, None], 192, axis=1))
    assert (execution.executed == 12 * 3).all()
    assert (execution.instructions_per_workgroup == 3 * len(kernel.instructions)).all()


def test_a_sample_runs_only_the_workgroups_asked_for(engine: Engine) -> None:
    out = np.zeros(12 * 64, np.uint32)
    execution = run(engine, build(STORE_ID), out, 64, grid=(3, 2, 2), workgroups=[1, 10])
    assert np.flatnonzero(out.reshape(12, 64).any(axis=1)).tolist() == [1, 10]
    assert execution.scale == 6.0 and execution.executed.max() == 2


def test_a_stray_store_names_kernel_line_lane_and_address(engine: Engine) -> None:
    out = np.zeros(63, np.uint32)
    with pytest.raises(MemoryFaultError) as caught:
        run(engine, build(STORE_ID), out, 64)
    message = str(caught.value)
    for part in ("kernel test", "store.py:9", "global_store_dword", "lane 63", "0x", "0 bytes past the end of 'out'"):
        assert part in message, message
    assert caught.value.hint


def test_buffers_do_not_touch(engine: Engine) -> None:
    """A store past one buffer is a fault even if the host has another array right behind it."""
    both = np.zeros(128, np.uint32)
    memory = AddressSpace()
    first = memory.map(both.ctypes.data, 256, "first")
    memory.map(both.ctypes.data + 256, 256, "second")
    with pytest.raises(MemoryFaultError, match="lane 0"):
        engine.execute(build(STORE_ID), grid=(3, 1, 1), arguments=[first, 64], memory=memory, workgroups=[1])
    assert not both.any()


def test_an_endless_loop_ends_with_the_budget(engine: Engine) -> None:
    kernel = build(".LBB0_1:\n\ts_nop 0\n\ts_branch .LBB0_1")
    with pytest.raises(InstructionBudgetError, match="more than 300000 instructions"):
        run(engine, kernel, np.zeros(1, np.uint32), 0, budget=300_000)


def test_an_unknown_opcode_names_instruction_line_and_architecture(engine: Engine) -> None:
    kernel = build("\t.loc 1 3 0 ; new.py:3:0\n\tv_frobnicate_b32_e32 v1, v2")
    with pytest.raises(UnsupportedInstructionError, match=r"gfx942.*v_frobnicate_b32_e32 v1, v2.*new.py:3"):
        run(engine, kernel, np.zeros(1, np.uint32), 0)


def test_the_wrong_number_of_arguments(engine: Engine) -> None:
    with pytest.raises(LaunchError, match="takes 2 arguments, 1 were given"):
        engine.execute(build("\ts_nop 0"), grid=(1, 1, 1), arguments=[0], memory=AddressSpace())


def test_an_argument_that_does_not_fit(engine: Engine) -> None:
    with pytest.raises(LaunchError, match="argument 1 'n': 4294967296 does not fit 4 bytes"):
        engine.execute(build("\ts_nop 0"), grid=(1, 1, 1), arguments=[0, 1 << 32], memory=AddressSpace())


def test_an_empty_grid(engine: Engine) -> None:
    with pytest.raises(LaunchError, match="no workgroup"):
        run(engine, build("\ts_nop 0"), np.zeros(1, np.uint32), 0, grid=(0, 1, 1))


def test_waves_meet_at_barriers_and_share_lds(engine: Engine) -> None:
    """Wave w writes its lanes to LDS, all wait, wave w reads those of the next wave."""
    kernel = build(
        """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\tv_lshlrev_b32_e32 v1, 2, v0
\tds_write_b32 v1, v0
\ts_waitcnt lgkmcnt(0)
\ts_barrier
\tv_add_u32_e32 v2, 0x100, v1
\tv_and_b32_e32 v2, 0x3ff, v2
\tds_read_b32 v3, v2
\ts_waitcnt lgkmcnt(0)
\tglobal_store_dword v1, v3, s[8:9]
""",
        waves=4,
    )
    out = np.zeros(256, np.uint32)
    run(engine, kernel, out, 0)
    np.testing.assert_array_equal(out, (np.arange(256) + 64) % 256)


def test_counts_follow_control_flow(engine: Engine) -> None:
    """A loop that runs n times, and a branch that is never taken."""
    kernel = build(
        """
\ts_load_dword s10, s[0:1], 0x8
\ts_mov_b32 s11, 0
.LBB0_1:
\ts_add_u32 s11, s11, 1
\ts_cmp_lg_u32 s11, s10
\ts_cbranch_scc1 .LBB0_1
\ts_cmp_eq_u32 s11, 0
\ts_cbranch_scc1 .LBB0_3
\ts_nop 1
.LBB0_3:
"""
    )
    execution = run(engine, kernel, np.zeros(1, np.uint32), 7, grid=(5, 1, 1))
    assert (execution.executed / 5).tolist() == [1, 1, 7, 7, 7, 1, 1, 1, 1]


class Collect:
    """Keeps copies of the records."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []

    def consume(self, records: np.ndarray) -> None:
        self.parts.append(records.copy())


def test_the_trace_has_every_access_in_order(engine: Engine) -> None:
    kernel = build(STORE_ID, waves=2)
    out = np.zeros(6 * 128, np.uint32)
    memory, collect = AddressSpace(), Collect()
    base = memory.map_array(out, "out")
    engine.execute(kernel, grid=(3, 2, 1), arguments=[base, 128], memory=memory, observer=collect)
    records = np.concatenate(collect.parts)
    store = next(i.index for i in kernel.instructions if i.opcode == "global_store_dword")
    assert records["instruction"].tolist() == [store] * 12
    assert records["workgroup"].tolist() == [g for g in range(6) for _ in range(2)]
    assert records["wave"].tolist() == [0, 1] * 6
    assert (records["exec"] == np.uint64(0xFFFFFFFFFFFFFFFF)).all()
    expected = base + 4 * (np.arange(12)[:, None] * 64 + np.arange(64))
    np.testing.assert_array_equal(records["address"], expected.astype(np.uint64))


def test_a_trace_longer_than_the_ring_loses_nothing(engine: Engine) -> None:
    kernel = build(
        """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\ts_load_dword s10, s[0:1], 0x8
\tv_lshlrev_b32_e32 v1, 2, v0
\ts_mov_b32 s11, 0
.LBB0_1:
\tglobal_store_dword v1, v0, s[8:9]
\ts_add_u32 s11, s11, 1
\ts_cmp_lg_u32 s11, s10
\ts_cbranch_scc1 .LBB0_1
"""
    )
    collect = Collect()
    execution = run(engine, kernel, np.zeros(64, np.uint32), 10_000, observer=collect)
    assert sum(len(part) for part in collect.parts) == 10_000
    assert execution.executed[4] == 10_000 and execution.executed[-1] == 1


def test_hidden_arguments_carry_the_grid(engine: Engine) -> None:
    arguments = "".join(
        f"      - .offset: {offset}\n        .size: {size}\n        .value_kind: {kind}\n"
        for offset, size, kind in (
            (0, 8, "global_buffer"),
            (8, 4, "hidden_block_count_x"),
            (12, 4, "hidden_block_count_y"),
            (16, 2, "hidden_group_size_x"),
            (18, 2, "hidden_remainder_x"),
        )
    )
    kernel = build(
        """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\ts_load_dwordx2 s[10:11], s[0:1], 0x8
\ts_load_dword s12, s[0:1], 0x10
\tv_mov_b32_e32 v1, 0
\tv_mov_b32_e32 v2, s10
\tv_mov_b32_e32 v3, s11
\tv_mov_b32_e32 v4, s12
\tglobal_store_dwordx3 v1, v[2:4], s[8:9]
""",
        arguments=arguments,
        kernarg=24,
        waves=2,
    )
    out = np.zeros(3, np.uint32)
    memory = AddressSpace()
    engine.execute(kernel, grid=(5, 3, 1), arguments=[memory.map_array(out, "out")], memory=memory, workgroups=[0])
    assert out.tolist() == [5, 3, 128]


def test_preloaded_arguments_arrive_in_scalar_registers(engine: Engine) -> None:
    """The preload is the leading words of the segment, right behind the segment's pointer."""
    kernel = build(
        "\tv_mov_b32_e32 v1, 0\n\tv_mov_b32_e32 v2, s4\n\tglobal_store_dword v1, v2, s[2:3]",
        extra="\t\t.amdhsa_user_sgpr_kernarg_preload_length 3\n\t\t.amdhsa_user_sgpr_kernarg_preload_offset 0",
    )
    object.__setattr__(kernel, "descriptor", {**kernel.descriptor, "user_sgpr_count": 5})
    out = np.zeros(1, np.uint32)
    run(engine, kernel, out, 4711)
    assert out[0] == 4711


def test_the_dispatch_packet_carries_workgroup_and_grid(engine: Engine) -> None:
    """s[0:1] is the dispatch packet's address where the descriptor asks for it; the argument segment follows."""
    kernel = build(
        """
\ts_load_dwordx4 s[8:11], s[0:1], 0x0
\ts_load_dwordx4 s[12:15], s[0:1], 0x10
\ts_load_dwordx2 s[16:17], s[0:1], 0x28
\ts_load_dwordx2 s[18:19], s[2:3], 0x0
\tv_mov_b32_e32 v8, 0
"""
        + "\n".join(f"\tv_mov_b32_e32 v{number}, s{8 + number}" for number in range(8))
        + """
\tglobal_store_dwordx4 v8, v[0:3], s[18:19]
\tglobal_store_dwordx4 v8, v[4:7], s[18:19] offset:16
\tv_mov_b32_e32 v0, s16
\tv_mov_b32_e32 v1, s17
\tv_mov_b32_e32 v2, s2
\tv_mov_b32_e32 v3, s3
\tglobal_store_dwordx4 v8, v[0:3], s[18:19] offset:32
""",
        waves=2,
        lds=512,
        extra="\t\t.amdhsa_user_sgpr_dispatch_ptr 1",
    )
    object.__setattr__(kernel, "descriptor", {**kernel.descriptor, "user_sgpr_count": 4})
    out = np.zeros(12, np.uint32)
    run(engine, kernel, out, 0, grid=(5, 3, 1), workgroups=[0])
    sizes = out[:4].view(np.uint16)
    assert sizes[0] & 0xFF == 2, "the type of a kernel dispatch"
    assert sizes[1:6].tolist() == [2, 128, 1, 1, 0]
    assert out[3:8].tolist() == [5 * 128, 3, 1, 0, 512]
    assert out[8:10].tolist() == out[10:12].tolist(), "the packet's argument address is that of the register"


POINTER = "      - .offset: 0\n        .size: 8\n        .value_kind: global_buffer\n        .name: out\n"
# Stores v0 at out[x + y * width + z * area].
STORE_ITEM = """
\ts_load_dwordx2 s[8:9], s[0:1], 0x0
\tv_and_b32_e32 v1, 0x3ff, v0
\tv_bfe_u32 v2, v0, 10, 10
\tv_bfe_u32 v3, v0, 20, 10
\tv_mul_u32_u24_e32 v2, {x}, v2
\tv_mul_u32_u24_e32 v3, {xy}, v3
\tv_add3_u32 v1, v1, v2, v3
\tv_lshlrev_b32_e32 v1, 2, v1
\tglobal_store_dword v1, v0, s[8:9]
"""


@pytest.mark.parametrize("block", [(64, 2, 2), (5, 3, 7), (100, 1, 1), (32, 1, 1), (7, 30, 1), (1, 1, 65)])
def test_work_item_ids_of_a_workgroup_with_three_dimensions(engine: Engine, block: tuple[int, int, int]) -> None:
    """x, y and z take ten bits each of v0; lanes that the workgroup does not have write nothing."""
    x, y, z = block
    kernel = build(
        STORE_ITEM.format(x=x, xy=x * y), waves=4, extra="\t\t.amdhsa_system_vgpr_workitem_id 2", arguments=POINTER
    )
    out = np.full(256, -1, np.int32)
    memory = AddressSpace()
    pointer = memory.map_array(out, "out")
    execution = engine.execute(kernel, grid=(1, 1, 1), block=block, arguments=[pointer], memory=memory)
    items = np.arange(x * y * z)
    expected = items % x | items // x % y << 10 | items // (x * y) << 20
    np.testing.assert_array_equal(out, np.concatenate([expected, np.full(256 - len(items), -1)]))
    assert execution.executed[0] == -(-len(items) // 64)


def test_a_workgroup_larger_than_the_kernel_was_compiled_for(engine: Engine) -> None:
    with pytest.raises(LaunchError, match=r"\(64, 3, 1\) work-items.*at most 128"):
        run(engine, build("\ts_nop 0", waves=2), np.zeros(1, np.uint32), 0, block=(64, 3, 1))


def test_hidden_arguments_carry_the_workgroup(engine: Engine) -> None:
    kinds = ("hidden_group_size_x", "hidden_group_size_y", "hidden_group_size_z", "hidden_grid_dims")
    arguments = POINTER + "".join(
        f"      - .offset: {8 + 2 * number}\n        .size: 2\n        .value_kind: {kind}\n"
        for number, kind in enumerate(kinds)
    )
    body = """
\ts_load_dwordx4 s[8:11], s[0:1], 0x0
\tv_mov_b32_e32 v1, 0
\tv_mov_b32_e32 v2, s10
\tv_mov_b32_e32 v3, s11
\tglobal_store_dwordx2 v1, v[2:3], s[8:9]
"""
    kernel = build(body, arguments=arguments, waves=2)
    out = np.zeros(4, np.uint16)
    memory = AddressSpace()
    engine.execute(kernel, grid=(2, 1, 1), block=(20, 3, 2), arguments=[memory.map_array(out, "out")], memory=memory)
    assert out.tolist() == [20, 3, 2, 3]
