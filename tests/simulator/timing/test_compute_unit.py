"""Hand-worked cycle counts of small instruction streams on one compute unit of an MI300X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavecast.simulator.devices import Device
from wavecast.simulator.execute.execution import Execution
from wavecast.simulator.execute.runs import RUN
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.timing.compute_unit import (
    Demand,
    Filling,
    Part,
    Spent,
    Streams,
    UnitTime,
    kernel_form,
    prepare_streams,
    price,
    run_unit,
)
from wavecast.simulator.timing.compute_unit.layout import UNKNOWN, WHOLE
from wavecast.simulator.timing.compute_unit.streams import groups_of
from wavecast.simulator.traffic import AccessKind, Traffic

START = 200  # cycles from the start of a wave to its first instruction
END = 4
L1, L2, HBM, STORED, LDS = 107, 202, 869, 277, 40


@dataclass(frozen=True)
class Unit:
    """Runs texts on a compute unit with the constants of MI300X at the peak matrix clock."""

    device: Device
    kernel_of: Callable[..., Kernel]
    traffic_of: Callable[..., Traffic]

    def run(
        self,
        texts: Sequence[str],
        *,
        waves: int = 1,
        slots: int = 1,
        workgroups: int | None = None,
        runs: Sequence[tuple[int, int, int, int]] | None = None,
        demand: Demand | None = None,
        lines: int = 160,
        interval_clk: float = 0.0,
        spread: float = 0.0,
        **rows: dict[str, Any],
    ) -> UnitTime:
        """``runs``: (wave, first, end, repeats); ``rows``: counts of traffic by ``i<instruction>``, an execution."""
        kernel = self.kernel_of([*texts, "s_endpgm"], workgroup_size=64 * waves)
        traffic = self.traffic_of(kernel, self.device, 1)
        known = {row.index: row for row in traffic.instructions}
        for name, counts in rows.items():
            index = int(name[1:])
            known[index] = replace(known[index], **{key: value * waves for key, value in counts.items()})
        traffic = replace(traffic, instructions=tuple(known.values()))
        recorded = np.array(
            [(0, *run) for run in runs or [(wave, 0, len(texts) + 1, 1) for wave in range(waves)]], dtype=RUN
        )
        execution = Execution(kernel, (1, 1, 1), np.zeros(1, np.int64), np.ones(1), np.ones(1), runs=recorded)
        misses = {row.index: row.l1_misses for row in traffic.instructions if row.l1_misses is not None}
        streams = prepare_streams(execution, instructions=1 << 20, workgroups=1, misses=misses)
        costs = price(kernel_form(kernel, traffic, self.device), self.device, demand or Demand(), warm=0.0)
        return run_unit(streams, costs, Filling(slots, workgroups or slots, 4, interval_clk, START, lines, spread))


@pytest.fixture
def unit(device: Device, kernel_of: Callable[..., Kernel], traffic_of: Callable[..., Traffic]) -> Unit:
    peak = device.with_value("compute.matrix_clock_ghz", device.compute.clock_ghz)
    return Unit(peak, kernel_of, traffic_of)


IN_L1 = {"l1_hits": 2, "l2_requests": 0}
IN_L2 = {"l1_hits": 0, "l2_requests": 2, "l2_hits": 2}


@pytest.mark.parametrize(("counts", "shown_clk"), [({"l1_hits": 1}, 116), ({"l2_hits": 1}, 213), ({}, 880)])
def test_a_clock_around_a_load_shows_what_the_microbenchmark_measured(
    unit: Unit, counts: dict[str, int], shown_clk: int
) -> None:
    """Pointer chases on MI300X: one lane, its clock before a flat load and after the waits of both counters.

    L1 by caps-tum/mt4g, the others by RRZE-HPC/gpu-benches. The no-op stands for reading the clock, whose result
    nothing here waits for.
    """
    clocked = ["s_nop 0", "global_load_dword", "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)"]
    one_lane = {
        "lines": 1,
        "l2_requests": 1 - counts.get("l1_hits", 0),
        "quad_clk": 1,
        "run_clk": 1,
        "l2_bytes": 128,
        **counts,
    }
    assert unit.run(clocked, i1=one_lane).finish_clk - START - END == pytest.approx(shown_clk, abs=1)


FILL = 4  # cycles in which the 256 bytes of a load come from the L2


def missing_in(wave: int) -> np.ndarray:
    """Of the loads of four waves, those of one miss L1."""
    misses = np.zeros((4, 64, 2), dtype=np.int32)
    misses[..., 0], misses[wave, :, 1] = 1, 1
    return misses


def test_a_load_that_hits_is_answered_after_one_of_another_wave_that_missed_before(unit: Unit) -> None:
    """Four waves ask at once: four cycles each of the address unit. The second is answered by the L2."""
    texts = ["global_load_dword", "s_waitcnt vmcnt(0)"]
    rows = {"l2_requests": 1, "l2_hits": 1, "l2_bytes": 64, "l1_misses": missing_in(1)}
    answered = START + 8 + FILL + L2
    found = unit.run(texts, waves=4, i0=rows)
    # The first has had its answer; the others wait for the second's.
    assert found.finish_clk == answered + 4 + END
    asked = [START + 4, START + 8, START + 12, START + 16]
    assert found.spent_clk[1, Spent.WAIT] == asked[0] + L1 + 3 * answered - sum(asked)
    # Where the last misses, no other waits for it.
    found = unit.run(texts, waves=4, i0={**rows, "l1_misses": missing_in(3)})
    assert found.spent_clk[1, Spent.WAIT] == 3 * L1 + FILL + L2


def test_a_stream_misses_where_the_traffic_did_and_as_often_as_all_executions(
    kernel_of: Callable[..., Kernel], execution_of: Callable[..., Execution]
) -> None:
    """A load that misses in the first of sixteen rounds, and then a loop cut to its first rounds."""
    kernel = kernel_of(["global_load_dword", "s_cbranch_scc1", "s_endpgm"], workgroup_size=64)
    runs = np.array([(0, 0, 0, 2, 1000), (0, 0, 2, 3, 1)], dtype=RUN)
    execution = replace(execution_of(kernel, 1), runs=runs)
    misses = np.zeros((1, 64, 2), dtype=np.int32)
    misses[..., 0], misses[0, ::16, 1] = 1, 1

    def missed(counts: np.ndarray) -> list[float]:
        streams = prepare_streams(execution, instructions=70, workgroups=1, misses={0: counts})
        assert (streams.missing[streams.code != 0] == UNKNOWN).all()
        return (streams.missing[streams.code == 0] / WHOLE).tolist()

    assert missed(misses) == pytest.approx([1.0 if number % 16 == 0 else 0.0 for number in range(32)])
    # In later rounds it hits: what is left of the first ones misses as seldom as all do.
    seldom = misses.copy()
    seldom[0, -1] = 1000 - 63, 0
    assert sum(missed(seldom)) == 0


def test_vector_instructions_of_one_wave_follow_one_another(unit: Unit) -> None:
    assert unit.run(["v_add_f32"] * 10).finish_clk == START + 40 + END
    assert unit.run(["v_exp_f32"] * 10).finish_clk == START + 160 + END


def test_waves_on_four_simds_do_not_meet(unit: Unit) -> None:
    assert unit.run(["v_add_f32"] * 10, waves=4).finish_clk == START + 40 + END
    assert unit.run(["v_add_f32"] * 10, waves=5).finish_clk == START + 80 + END


def test_scalar_work_of_one_wave_hides_behind_vector_work_of_another(unit: Unit) -> None:
    """Two waves on a SIMD: one begins with vector instructions, the other with scalar ones; then they change."""
    texts = ["v_add_f32"] * 10 + ["s_add_u32"] * 10
    others = [(wave, 20, 21, 1) for wave in (1, 2, 3)]
    runs = [(0, 0, 21, 1), *others, (4, 10, 20, 1), (4, 0, 10, 1), (4, 20, 21, 1)]
    assert unit.run(texts, waves=5, runs=runs).finish_clk == START + 80 + END
    # In step both want the same pipe at the same time.
    assert unit.run(texts, waves=5).finish_clk == START + 160 - 4 + END


def test_a_taken_branch_costs_sixteen_cycles(unit: Unit) -> None:
    texts = ["v_add_f32", "s_cbranch_scc1"]
    assert unit.run(texts).finish_clk == START + 4 + 4 + END
    loop = [(0, 0, 2, 9), (0, 0, 3, 1)]
    assert unit.run(texts, runs=loop).finish_clk == START + 9 * (4 + 16) + 4 + 4 + END


def test_nops_and_sleeps_hold_their_wave(unit: Unit) -> None:
    assert unit.run(["s_nop 0"]).finish_clk == START + 4 + END
    assert unit.run(["s_nop 7"]).finish_clk == START + 8 * 4 + END
    assert unit.run(["s_sleep 2"]).finish_clk == START + 4 + 2 * 64 + END


def test_a_load_from_each_level(unit: Unit) -> None:
    """Address unit 4 cycles, then the latency, then the rest of the wait."""
    texts = ["global_load_dword", "s_waitcnt vmcnt(0)"]
    assert unit.run(texts, i0=IN_L1).finish_clk == START + 4 + L1 + 4 + END
    # From beyond L1 two lines of 128 bytes also pass the 64-byte path.
    assert unit.run(texts, i0=IN_L2).finish_clk == START + 4 + 4 + L2 + 4 + END
    assert unit.run(texts).finish_clk == START + 4 + 4 + HBM + 4 + END


def test_loads_issued_together_are_waited_for_once(unit: Unit) -> None:
    texts = ["global_load_dword", "global_load_dword", "s_waitcnt vmcnt(1)", "v_add_f32", "s_waitcnt vmcnt(0)"]
    found = unit.run(texts)
    # The second leaves 4 cycles after the first, and arrives while the wave adds.
    assert found.finish_clk == START + 4 + 4 + HBM + 4 + 4 + 4 + END
    assert found.spent_clk[2, Spent.WAIT] == 4 + 4 + HBM - 8
    assert found.spent_clk[4, Spent.WAIT] == 0
    assert found.spent_clk[0, Spent.CAUSED] == found.spent_clk[2, Spent.WAIT]


def test_counters_retire_in_order(unit: Unit) -> None:
    """A hit in L1 behind a load from HBM counts as arrived no earlier than that."""
    texts = ["global_load_dword", "global_load_dword", "s_waitcnt vmcnt(0)"]
    found = unit.run(texts, i1=IN_L1)
    assert found.finish_clk == START + 4 + 4 + HBM + 4 + END
    assert found.spent_clk[0, Spent.CAUSED] > 0
    assert found.spent_clk[1, Spent.CAUSED] == 0


def test_work_between_load_and_wait_hides_latency(unit: Unit) -> None:
    texts = ["global_load_dword", *["v_add_f32"] * 300, "s_waitcnt vmcnt(0)"]
    assert unit.run(texts).finish_clk == START + 4 + 1200 + 4 + END


def test_counters_are_apart(unit: Unit) -> None:
    texts = ["global_load_dword", "ds_read_b32", "s_waitcnt lgkmcnt(0)"]
    found = unit.run(texts)
    # The wave ends before its load has arrived; the launch does not.
    assert found.ends_clk[0] == START + 4 + LDS + 4 + END
    assert found.finish_clk == START + 4 + 4 + HBM


def test_a_numeric_wait_means_the_same(unit: Unit) -> None:
    """Bits 3:0 and 15:14 are vmcnt, 11:8 lgkmcnt: 0x0f70 is vmcnt(0), 0xc07f is lgkmcnt(0)."""
    named = unit.run(["global_load_dword", "s_waitcnt vmcnt(0)"]).finish_clk
    assert unit.run(["global_load_dword", "s_waitcnt 0xf70"]).finish_clk == named
    assert unit.run(["global_load_dword", "s_waitcnt 0xc07f"]).ends_clk[0] == START + 4 + 4 + END


def test_a_loop_waits_for_the_store_of_its_last_round(unit: Unit) -> None:
    """The atax pattern: ``vmcnt(0)`` at the top also waits for the store of the round before, 288 cycles."""
    texts = ["global_load_dword", "s_waitcnt vmcnt(0)", "global_store_dword", "s_cbranch_scc1"]
    runs = [(0, 0, 4, 99), (0, 0, 5, 1)]
    found = unit.run(texts, runs=runs, i0=IN_L1)
    # A round: load 4, wait for the acknowledgement of a store that left 20 cycles ago, store 4, branch 16.
    assert (found.finish_clk - START) / 100 == pytest.approx(4 + STORED + 4 + 4, abs=8)


def test_sixty_three_vector_memory_instructions_can_be_outstanding(unit: Unit) -> None:
    found = unit.run(["global_load_dword"] * 64)
    assert found.spent_clk[62, Spent.WAIT] == 0
    # The last waits until the first has arrived, at 877, and was ready at 4 cycles for each of those before.
    assert found.spent_clk[63, Spent.WAIT] == 4 + 4 + HBM - 63 * 4


def test_lines_in_flight_are_limited(unit: Unit) -> None:
    """Sixteen loads of two lines with room for eight lines: each four wait for the four before."""
    texts = ["global_load_dword"] * 16
    free, limited = (unit.run(texts, lines=lines).finish_clk for lines in (160, 8))
    assert free == START + 15 * 4 + 4 + 4 + HBM
    assert limited == START + 4 * (4 + HBM) + 4 + 4 * 3


def test_a_scalar_load_in_a_loop_hits_the_scalar_cache(unit: Unit) -> None:
    texts = ["s_load_dword", "s_waitcnt lgkmcnt(0)"]
    once = START + 200 + 4 + END
    assert unit.run(texts).finish_clk == once
    found = unit.run(texts, runs=[(0, 0, 2, 9), (0, 0, 3, 1)])
    assert found.finish_clk == once + 9 * (48 + 4)


def test_the_address_unit_serves_one_wave_after_another(unit: Unit) -> None:
    scattered = {"quad_clk": 64, "run_clk": 64, **IN_L1}
    found = unit.run(["global_load_dword"] * 5, waves=4, i0=scattered)
    assert found.spent_clk[0, Spent.STALL] == 64 + 128 + 192
    assert found.parts_clk[Part.L1] > 0


def test_bank_conflicts_keep_the_lds_busy(unit: Unit) -> None:
    """Four waves read with conflicts of 64 cycles each: the last waits for three others."""
    reads = ["ds_read_b128", "s_waitcnt lgkmcnt(0)"]
    kernel_row = {"i0": {"lds_clk": 64}}
    found = _with_lds_row(unit).run(reads, waves=4, **kernel_row)
    assert found.finish_clk == START + 4 * 64 + LDS + 4 + END
    assert found.parts_clk[Part.LDS] > found.parts_clk[Part.LATENCY]


@pytest.mark.parametrize(("dwords", "shown_clk", "each_clk"), [(1, 52, 4), (4, 64, 16)])
def test_a_clock_around_reads_of_the_lds_shows_what_the_microbenchmark_measured(
    unit: Unit, dwords: int, shown_clk: int, each_clk: int
) -> None:
    """tingqli/pyhip on MI308X: one wave, its clock before one read or eleven and after the wait for them."""
    row = {"lds_clk": 2 * dwords, "bytes_asked": 256 * dwords}

    def clocked(count: int) -> float:
        texts = ["s_nop 0", *["ds_read_b128"] * count, "s_waitcnt lgkmcnt(0)"]
        rows = {f"i{index}": row for index in range(1, 1 + count)}
        return _with_lds_row(unit, range(1, 1 + count)).run(texts, **rows).finish_clk - START - END

    assert clocked(1) == shown_clk
    assert clocked(11) == shown_clk + 10 * each_clk


@pytest.mark.parametrize(("simds", "clk"), [((0, 1), 32), ((0, 2), 16)])
def test_two_simds_share_a_port_to_the_lds(unit: Unit, simds: tuple[int, int], clk: int) -> None:
    """Four waves, of which two read four dwords a lane each: a port sends 64 bytes a cycle, and there are two."""
    texts = ["ds_read_b128", "s_waitcnt lgkmcnt(0)"]
    runs = [(wave, 0 if wave in simds else 2, 3, 1) for wave in range(4)]
    found = _with_lds_row(unit, [0], executed=2).run(texts, waves=4, runs=runs)
    assert found.finish_clk == START + clk + LDS + 4 + END


@pytest.mark.parametrize(("dwords", "clk"), [(1, 8), (4, 20)])
def test_addresses_and_data_of_stores_share_the_input_of_the_port(unit: Unit, dwords: int, clk: int) -> None:
    """AMD's documentation: a store of a dword a lane takes 8 cycles, one of four takes 20."""
    texts = ["ds_write_b128", "s_waitcnt lgkmcnt(0)"]
    rows = _with_lds_row(unit, [0], opcode="ds_write_b128", kind=AccessKind.LDS_WRITE)
    found = rows.run(texts, i0={"lds_clk": 2 * dwords, "bytes_asked": 256 * dwords})
    assert found.finish_clk == START + clk + LDS + 4 + END


def _with_lds_row(
    unit: Unit,
    indices: Sequence[int] = (0,),
    *,
    opcode: str = "ds_read_b128",
    kind: AccessKind = AccessKind.LDS_READ,
    executed: int | None = None,
) -> Unit:
    def traffic_of(kernel: Kernel, device: Device, workgroups: int) -> Traffic:
        traffic = unit.traffic_of(kernel, device, workgroups)
        loads = unit.traffic_of(unit.kernel_of(["global_load_dword"], workgroup_size=64), device, 1).instructions
        waves = kernel.workgroup_size // 64
        count = waves if executed is None else executed
        row = replace(loads[0], opcode=opcode, kind=kind, executed=count, lds_clk=8 * count, bytes_asked=1024 * count)
        rows = (replace(row, index=index) for index in indices)
        return replace(traffic, instructions=(*rows, *traffic.instructions))

    return replace(unit, traffic_of=traffic_of)


def test_matrix_instructions_follow_at_their_own_rate(unit: Unit) -> None:
    """Ten 32x32x8 products of 32 cycles: each starts when the pipe is free, the wave goes on after the last's issue."""
    found = unit.run(["v_mfma_f32_32x32x8_bf16_1k"] * 10)
    assert found.finish_clk == START + 9 * 32 + 4 + END


def test_vector_work_goes_on_beside_the_matrix_pipe(unit: Unit) -> None:
    """Between two products 28 cycles are free: seven additions cost nothing, eight do."""
    product = "v_mfma_f32_32x32x8_bf16_1k"
    for count, each in ((0, 32), (7, 32), (8, 36)):
        found = unit.run([product, *["v_add_f32"] * count] * 10)
        assert found.finish_clk == START + 9 * each + 4 + 4 * count + END


def test_waves_share_the_matrix_pipe_of_their_simd(unit: Unit) -> None:
    found = unit.run(["v_mfma_f32_32x32x8_bf16_1k"] * 10, slots=8, workgroups=8)
    assert found.finish_clk == START + 19 * 32 + 4 + END


def test_a_barrier_waits_for_the_slowest_wave(unit: Unit) -> None:
    """Wave 1 comes a hundred additions later; the barrier opens for both when it is there."""
    texts = [*["v_add_f32"] * 100, "s_barrier", "v_add_f32"]
    found = unit.run(texts, waves=2, runs=[(0, 100, 103, 1), (1, 0, 103, 1)])
    assert found.finish_clk == START + 400 + 4 + 4 + END
    assert found.spent_clk[100, Spent.WAIT] == 400
    assert found.parts_clk[Part.BARRIER] == 400


def test_a_wave_that_ends_opens_the_barrier(unit: Unit) -> None:
    texts = ["v_add_f32", "s_barrier"]
    found = unit.run(texts, waves=2, runs=[(0, 1, 3, 1), (1, 2, 3, 1)])
    assert found.finish_clk == START + 4 + END


LOAD_THEN_COMPUTE = ["global_load_dwordx4", "s_waitcnt vmcnt(0)", "s_barrier", *["v_exp_f32"] * 56, "s_barrier"]


def test_phases_overlap_only_if_there_is_another_workgroup_out_of_step(unit: Unit) -> None:
    """One workgroup takes 908 cycles for its data and 896 to work with it. A second that starts when the first has its
    data fills the gap; one that starts with it wants the data, and then the pipe, at the same time."""
    load, work = START + 16 + HBM, 56 * 16
    alone, apart, in_step = (
        unit.run(LOAD_THEN_COMPUTE, waves=4, slots=slots, workgroups=20, interval_clk=interval).finish_clk / 20
        for slots, interval in ((1, 0.0), (2, 960.0), (2, 0.0))
    )
    assert alone == pytest.approx(load + work, rel=0.02)
    assert in_step == pytest.approx((load + 2 * work) / 2, rel=0.03)
    assert (load + work) / 2 < apart < in_step


def test_a_share_of_memory_is_a_rate(unit: Unit) -> None:
    """A workgroup's data take the device 4,000 cycles at this unit's share: so do many workgroups, however many run."""
    texts = ["global_load_dword", "s_waitcnt vmcnt(0)"]
    for slots in (1, 2, 8):
        found = unit.run(texts, waves=4, slots=slots, workgroups=64, demand=Demand(memory=4000))
        assert found.finish_clk == pytest.approx(64 * 4000, rel=0.3 if slots == 1 else 0.05)
        assert found.finish_clk >= 64 * 4000 * 0.99
        assert found.parts_clk[Part.MEMORY] > 0


def test_stores_are_taken_before_memory_has_them(unit: Unit) -> None:
    """The store is acknowledged by L2; the launch ends when memory has taken it."""
    texts = ["global_store_dword", "s_waitcnt vmcnt(0)"]
    found = unit.run(texts, demand=Demand(memory=10_000), workgroups=1)
    assert found.ends_clk[0] == START + 4 + STORED + 4 + END
    assert found.finish_clk > found.ends_clk[0]


def test_workgroups_start_at_the_rate_of_the_launcher(unit: Unit) -> None:
    found = unit.run(["v_add_f32"], slots=8, workgroups=64, interval_clk=1000)
    assert found.finish_clk == pytest.approx(64 * 1000, rel=0.05)


@pytest.mark.parametrize(("workgroups", "measured_clk"), [(1, 362), (2, 447), (3, 590)])
def test_nbody_inner_iteration(unit: Unit, workgroups: int, measured_clk: float) -> None:
    """sarchlab/mgpusim, nbody on MI300A: cycles an iteration with one, two and three workgroups on a compute unit.

    The kinds of its instructions in the order in which clang puts them: a uniform load that hits L1, 36 vector
    instructions and two transcendental ones, hazards that ``s_nop`` bridges, and a barrier every 256 iterations.
    """
    body = ["global_load_dwordx4", *["s_add_u32"] * 4, "s_waitcnt vmcnt(0)"]
    for count, then in ((1, "s_nop 0"), (7, "s_nop 1"), (1, "v_sqrt_f32"), (0, "s_nop 0"), (5, "s_nop 1")):
        body += [*["v_fma_f32"] * count, then]
    for count, then in ((2, "s_nop 1"), (4, "s_nop 1"), (2, "v_rcp_f32"), (14, "s_cbranch_scc0")):
        body += [*["v_fma_f32"] * count, then]
    texts, length, rounds = [*body, "s_barrier"], len(body), 256
    tiles = [(0, length, rounds - 1), (0, length + 1, 1)] * 4
    runs = [(wave, *run) for wave in range(4) for run in [*tiles, (length + 1, length + 2, 1)]]
    found = unit.run(texts, waves=4, slots=workgroups, runs=runs, interval_clk=239, spread=0.24, i0=IN_L1)
    assert found.finish_clk / (4 * rounds) == pytest.approx(measured_clk, rel=0.05)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=40), st.integers(0, 24), st.integers(1, 500))
def test_one_wave_is_never_faster_when_something_costs_more(body: list[int], column: int, more: int) -> None:
    """Of one wave alone; several can be lucky in the order in which they meet."""
    from wavecast.simulator.timing.compute_unit.layout import COSTS, NO_LIMIT, Action, Cost, Pipe

    costs = np.zeros((9, COSTS), dtype=np.int64)
    costs[:, Cost.ISSUE], costs[:, Cost.BUSY] = 256, 256
    costs[:, [Cost.VECTOR_LEFT, Cost.LGKM_LEFT]] = NO_LIMIT
    costs[:, Cost.ACTION] = [0, 0, 4, 4, 5, 6, 1, 1, 3]
    costs[:, Cost.PIPE] = [Pipe.VECTOR, Pipe.MATRIX, *[Pipe.NONE] * 7]
    costs[2:4, Cost.COUNTS_VECTOR], costs[4:6, Cost.COUNTS_LGKM] = 1, 1
    costs[2:4, Cost.BEYOND_L1], costs[3, Cost.BEYOND_L2] = 1 << 32, 1 << 32
    costs[2:6, Cost.LATENCY_L1 : Cost.LATENCY_HBM + 1] = 5000
    costs[6, Cost.VECTOR_LEFT], costs[7, Cost.LGKM_LEFT] = 0, 1
    code = np.array([*body, 8], dtype=np.int32)
    again = np.array([name in code[:place] for place, name in enumerate(code)])
    missing = np.full(len(code), UNKNOWN)
    streams = Streams(code, again, missing, np.zeros(1, np.int64), np.array([len(code)]), 1)
    priced = {Cost.ISSUE, Cost.BUSY, *range(Cost.ADDRESS, Cost.FENCES + 1), *range(Cost.LATENCY_L1, Cost.LINES)}
    if column not in priced:
        column = Cost.ISSUE
    dearer = costs.copy()
    dearer[:8, column] += more
    filling = Filling(1, 1, 4, 0.0, START, 160, spread=0.0)
    assert Action(int(costs[8, Cost.ACTION])) is Action.END
    assert run_unit(streams, dearer, filling).finish_clk >= run_unit(streams, costs, filling).finish_clk


def test_groups_that_repeat_themselves_are_found() -> None:
    names = np.array([0, 1, 2, 1, 2, 1, 2, 3, 4, 4, 5])
    begin, size, rounds = groups_of(names, 8)
    assert list(zip(begin, size, rounds, strict=True)) == [(0, 1, 1), (1, 2, 3), (7, 1, 1), (8, 1, 2), (10, 1, 1)]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 10))
def test_groups_put_together_give_the_sequence(names: list[int], longest: int) -> None:
    begin, size, rounds = groups_of(np.array(names, dtype=np.int64), longest)
    rebuilt = [
        name
        for start, width, count in zip(begin, size, rounds, strict=True)
        for _ in range(count)
        for name in names[start : start + width]
    ]
    assert rebuilt == names
    assert all(width <= longest for width in size)


def test_long_loops_are_cut_and_the_rest_stays(unit: Unit) -> None:
    kernel = unit.kernel_of(["v_add_f32"] * 10, workgroup_size=64)
    runs = np.array([(0, 0, 0, 4, 1), (0, 0, 2, 4, 100_000), (0, 0, 2, 10, 1)], dtype=RUN)
    execution = Execution(kernel, (1, 1, 1), np.zeros(1, np.int64), np.ones(10), np.ones(1), runs=runs)
    streams = prepare_streams(execution, instructions=100, workgroups=4)
    assert streams.code.tolist() == [0, 1, 2, 3, *[2, 3] * 32, *range(2, 10)]
    assert prepare_streams(execution, instructions=1 << 20, workgroups=4).code.size == 200_012


def test_an_execution_without_a_recording_is_refused(unit: Unit) -> None:
    kernel = unit.kernel_of(["v_add_f32"], workgroup_size=64)
    execution = Execution(kernel, (1, 1, 1), np.zeros(1, np.int64), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="no workgroup of kernel 'by_hand' was recorded: execute it with record=8"):
        prepare_streams(execution, instructions=100, workgroups=4)
