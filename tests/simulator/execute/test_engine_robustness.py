"""What a broken kernel, launch or observer must not do: hang, crash the process, or spoil the launch after it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from small_kernels import SPIN, STORE_ID, build, run

from wavecast.simulator.errors import (
    AssemblyError,
    InstructionBudgetError,
    LaunchError,
    MemoryFaultError,
    UnknownDeviceError,
    UnsupportedInstructionError,
)
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.memory import AddressSpace

pytestmark = pytest.mark.execute


class Ignore:
    """An observer without interest."""

    def consume(self, records: np.ndarray) -> None:
        del records


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.mark.parametrize("observer", [None, Ignore()], ids=["plain", "traced"])
def test_a_wave_that_spins_does_not_starve_the_one_it_waits_for(engine: Engine, observer: Ignore | None) -> None:
    """With a trace, the ring fills more often than the time slice ends."""
    out = np.zeros(1, np.uint32)
    execution = run(engine, build(SPIN, waves=2), out, 0, observer=observer, budget=10_000_000)
    assert out[0] == 1
    # One slice of the wave that spins, whether it is traced or not.
    assert execution.executed[7] == pytest.approx((1 << 16) / 5, abs=5)


def test_an_endless_loop_with_a_traced_access_ends_with_the_budget(engine: Engine) -> None:
    body = "\ts_load_dwordx2 s[8:9], s[0:1], 0x0\n\tv_mov_b32_e32 v1, 0\n"
    body += ".LBB0_1:\n\tglobal_load_dword v2, v1, s[8:9]\n\ts_branch .LBB0_1"
    with pytest.raises(InstructionBudgetError, match="more than 300000 instructions"):
        run(engine, build(body), np.zeros(1, np.uint32), 0, observer=Ignore(), budget=300_000)


@pytest.mark.parametrize("access", ["global_load_dwordx4 v[4:7], v[2:3], off", "s_load_dwordx4 s[12:15], s[8:9], -0x8"])
def test_an_address_at_the_end_of_the_address_space_is_a_fault(engine: Engine, access: str) -> None:
    """Its end wraps round to a small number, which must not pass for one inside a buffer."""
    kernel = build(f"\ts_mov_b64 s[8:9], 0\n\tv_mov_b32_e32 v2, -8\n\tv_mov_b32_e32 v3, -1\n\t{access}")
    with pytest.raises(MemoryFaultError, match="16 bytes at address 0xfffffffffffffff8"):
        run(engine, kernel, np.zeros(4, np.uint32), 0)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("\ts_nop 0", "runs past its last instruction"),
        ("\ts_cbranch_scc1 .LBB0_9\n\ts_endpgm\n.LBB0_9:", "runs past its last instruction"),
        ("\ts_endpgm\n\tv_mov_b32_e32 v1, 0\n\ts_code_end", "runs past its last instruction"),
        ("", "no instruction"),
    ],
)
def test_a_kernel_without_an_end_is_refused(engine: Engine, body: str, what: str) -> None:
    with pytest.raises(AssemblyError, match=f"test: .*{what}"):
        engine.program(build(body, end=""))


def test_padding_behind_the_end_is_no_missing_end(engine: Engine) -> None:
    execution = run(engine, build("\ts_endpgm\n\ts_code_end\n\ts_nop 0", end=""), np.zeros(1, np.uint32), 0)
    assert execution.executed.tolist() == [1, 0, 0]


def test_registers_beyond_those_that_the_text_counts_are_there(engine: Engine) -> None:
    """Hand-written assembly has no NumVgprs comment, or a stale one."""
    body = STORE_ID.replace("v1", "v201").replace("v2,", "v250,")
    out = np.zeros(64, np.uint32)
    run(engine, build(body), out, 64)
    assert (out == 0).all()
    kernel = build(
        "\ts_load_dwordx2 s[8:9], s[0:1], 0x0\n\tv_lshlrev_b32_e32 v200, 2, v0\n\tv_accvgpr_write_b32 a99, v0\n"
        "\tv_mov_b32_e32 v16, 7\n\tglobal_store_dword v200, a99, s[8:9]"
    )
    run(engine, kernel, out, 0)
    np.testing.assert_array_equal(out, np.arange(64))


def test_a_scalar_register_that_does_not_exist() -> None:
    with pytest.raises(AssemblyError, match=r"line \d+.*s\[102:103\]"):
        build("\ts_mov_b64 s[102:103], 0")


def test_a_launch_works_after_one_that_failed(engine: Engine) -> None:
    kernel, out, memory = build(STORE_ID), np.zeros(64, np.uint32), AddressSpace()
    for n, error in ((1000, MemoryFaultError), (1 << 40, LaunchError)):
        with pytest.raises(error):
            engine.execute(
                kernel, grid=(2, 1, 1), arguments=[memory.map_array(out, "out"), n], memory=memory, workgroups=[1]
            )
    assert [buffer.name for buffer in memory.buffers] == ["out"]
    run(engine, kernel, out, 64)
    assert not out.any()


def test_a_refused_launch_leaves_nothing_mapped(engine: Engine) -> None:
    memory = AddressSpace()
    kernel = build("\ts_nop 0", extra="\t\t.amdhsa_ieee_mode 0")
    with pytest.raises(LaunchError, match="ieee_mode"):
        engine.execute(kernel, grid=(1, 1, 1), arguments=[0, 0], memory=memory)
    assert memory.buffers == []


@pytest.mark.parametrize("directive", ["ieee_mode", "dx10_clamp"])
def test_modes_that_the_engine_does_not_follow_are_refused(engine: Engine, directive: str) -> None:
    kernel = build("\ts_nop 0", extra=f"\t\t.amdhsa_{directive} 0")
    with pytest.raises(LaunchError, match=directive):
        run(engine, kernel, np.zeros(1, np.uint32), 0)


def test_what_an_observer_raises_comes_through_and_ends_the_launch(engine: Engine) -> None:
    class Broken:
        def consume(self, records: np.ndarray) -> None:
            raise RuntimeError(f"{len(records)} records")

    memory, out = AddressSpace(), np.zeros(64, np.uint32)
    arguments = [memory.map_array(out, "out"), 64]
    kernel = build(STORE_ID)
    with pytest.raises(RuntimeError, match="1 records"):
        engine.execute(kernel, grid=(1, 1, 1), arguments=arguments, memory=memory, observer=Broken())
    assert len(memory.buffers) == 1
    engine.execute(kernel, grid=(1, 1, 1), arguments=arguments, memory=memory)


def test_an_argument_that_is_no_number_the_kernel_can_take(engine: Engine) -> None:
    for value in (None, "1", 1j):
        with pytest.raises(LaunchError, match="argument 1 'n'"):
            engine.execute(build("\ts_nop 0"), grid=(1, 1, 1), arguments=[0, value], memory=AddressSpace())
    execution = engine.execute(
        build("\ts_nop 0"), grid=(1, 1, 1), arguments=[np.uint64(0), np.int32(-1)], memory=AddressSpace()
    )
    assert execution.executed[0] == 1


def test_threads_launch_one_kernel_at_the_same_time(engine: Engine) -> None:
    """Each launch has buffers of its own: what a row remembers of one must not reach the other."""
    kernel = build(STORE_ID)
    outs = [np.full(4096 * 64, -1, np.int32) for _ in range(4)]

    def work(out: np.ndarray) -> None:
        for _ in range(3):
            run(engine, kernel, out, 64, grid=(4096, 1, 1))

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        np.testing.assert_array_equal(out, np.repeat(np.arange(4096), 64))


def test_translated_kernels_are_not_kept_for_ever(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Engine()
    monkeypatch.setattr(own._programs, "_most", 2)
    kernels = [build(f"\ts_nop {number}") for number in range(3)]
    programs = [own.program(kernel) for kernel in kernels]
    assert own.program(kernels[2]) is programs[2] and own.program(kernels[1]) is programs[1]
    assert own.program(kernels[0]) is not programs[0]
    assert own.program(kernels[1]) is programs[1], "the one used last stays"
    del programs
    gc.collect()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("v_add_u32_e64 v1, v2, v3 quad_perm:[0,1,2,3]", "modifier quad_perm"),
        ("v_dot4_i32_i8 v1, v2, v3, v4 op_sel_hi:[0,0,0]", "modifier op_sel_hi"),
        ("v_mul_f32_e64 v1, v2, v3 mul:3", "KeyError 3"),
        ("v_add_f32_sdwa v1, v2, v3 dst_sel:BYTE_7 src0_sel:DWORD src1_sel:DWORD", "KeyError 'BYTE_7'"),
        ("v_add_u32_e32 v1, v2", "has 2 operands"),
        ("v_add_u32_e32 s1, v2, v3", "operand 0 is 's', not a vector register"),
        ("s_add_u32 v1, s2, s3", "operand 0 is 'v', not a scalar register"),
        ("global_load_dword v1, s2, s[8:9]", "operand 1 is 's', not a vector register"),
        ("buffer_load_dword v1, v2, v[4:7], 0 offen", "operand 2 is 'v', not a scalar register"),
    ],
)
def test_a_form_without_semantics_names_kernel_line_and_architecture(engine: Engine, line: str, what: str) -> None:
    kernel = build(f"\t.loc 1 3 0 ; new.py:3:0\n\t{line}")
    with pytest.raises(UnsupportedInstructionError) as caught:
        engine.program(kernel)
    message = str(caught.value)
    for part in ("kernel test (gfx942)", repr(line), "instruction 0, new.py:3", what):
        assert part in message, message


def test_another_architecture_is_refused(engine: Engine) -> None:
    """gfx1100 has waves of 32 lanes, gfx90a other encodings of 8-bit floats."""
    for arch in ("gfx1100", "gfx90a"):
        with pytest.raises(UnknownDeviceError, match=f"kernel test is for {arch}") as caught:
            engine.program(build("\ts_nop 0", arch=arch))
        assert "gfx942, gfx950" in caught.value.hint


def test_lds_accesses_beyond_the_allocation_are_counted(engine: Engine) -> None:
    body = "\tv_lshlrev_b32_e32 v1, 2, v0\n\tds_write_b32 v1, v0\n\tds_read_b32 v2, v1 offset:192"
    for lds, count in ((1024, 0), (256, 2 * 48), (128, 2 * (32 + 64))):
        execution = run(engine, build(body, lds=lds), np.zeros(1, np.uint32), 0, grid=(2, 1, 1))
        assert execution.stray_lds_accesses == count
