"""Recorded instruction streams: every instruction of the chosen workgroups, in order, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from small_kernels import STORE_ID, build, run

from wavecast.simulator.execute import engine as engine_module
from wavecast.simulator.execute.engine import Engine
from wavecast.simulator.execute.execution import Execution

pytestmark = pytest.mark.execute

# Two instructions, a loop of three that runs n times with a barrier in it, and two more.
LOOP = """
\ts_load_dword s10, s[0:1], 0x8
\ts_mov_b32 s11, 0
.LBB0_1:
\ts_add_u32 s11, s11, 1
\ts_barrier
\ts_cmp_lg_u32 s11, s10
\ts_cbranch_scc1 .LBB0_1
\ts_nop 1
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def stream(execution: Execution, position: int, wave: int) -> list[int]:
    """Instructions of one wave, in order."""
    found: list[int] = []
    for entry in execution.runs:
        if (entry["position"], entry["wave"]) == (position, wave):
            found += int(entry["repeats"]) * list(range(entry["first"], entry["end"]))
    return found


def test_a_wave_without_branches_is_one_run(engine: Engine) -> None:
    kernel = build(STORE_ID, waves=3)
    execution = run(engine, kernel, np.zeros(12 * 192, np.uint32), 192, grid=(3, 2, 2), record=2)
    every = len(kernel.instructions)
    assert execution.runs.tolist() == [(place, wave, 0, every, 1) for place in (3, 6) for wave in range(3)]


def test_a_loop_with_a_barrier_is_recorded_in_order(engine: Engine) -> None:
    kernel = build(LOOP, waves=2)
    execution = run(engine, kernel, np.zeros(1, np.uint32), 5, record=1)
    for wave in range(2):
        assert stream(execution, 0, wave) == [0, 1, *[2, 3, 4, 5] * 5, 6, 7]


def test_a_simple_loop_costs_one_entry(engine: Engine) -> None:
    kernel = build(LOOP.replace("\ts_barrier\n", ""))
    execution = run(engine, kernel, np.zeros(1, np.uint32), 100_000, record=1)
    assert execution.runs.tolist() == [(0, 0, 0, 5, 1), (0, 0, 2, 5, 99_998), (0, 0, 2, 7, 1)]
    assert execution.executed.tolist() == [1, 1, 100_000, 100_000, 100_000, 1, 1]


def test_small_rings_do_not_change_the_stream(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = build(LOOP, waves=2)
    whole = run(engine, kernel, np.zeros(1, np.uint32), 50, grid=(4, 1, 1), record=4)
    monkeypatch.setattr(engine_module, "_RING_RUNS", 3)
    parts = run(engine, kernel, np.zeros(1, np.uint32), 50, grid=(4, 1, 1), record=4)
    assert len(parts.runs) >= len(whole.runs)
    for position in range(4):
        for wave in range(2):
            assert stream(parts, position, wave) == stream(whole, position, wave)


def test_a_full_trace_does_not_cut_a_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ignore:
        def consume(self, records: np.ndarray) -> None:
            del records

    kernel = build(STORE_ID + "\n".join("\tglobal_store_dword v2, v1, s[8:9]" for _ in range(6)))
    monkeypatch.setattr(engine_module, "_RING_RECORDS", 2)
    execution = run(engine, kernel, np.zeros(64, np.uint32), 64, record=1, observer=Ignore())
    assert execution.runs.tolist() == [(0, 0, 0, len(kernel.instructions), 1)]


def test_recording_leaves_counts_as_they_are(engine: Engine) -> None:
    kernel = build(LOOP, waves=4)
    plain, recorded = (
        run(engine, kernel, np.zeros(1, np.uint32), 20, grid=(10, 1, 1), record=count) for count in (0, 10)
    )
    assert len(plain.runs) == 0
    np.testing.assert_array_equal(plain.executed, recorded.executed)
    np.testing.assert_array_equal(plain.instructions_per_workgroup, recorded.instructions_per_workgroup)
    lengths = recorded.runs["repeats"] * (recorded.runs["end"] - recorded.runs["first"])
    totals = np.bincount(recorded.runs["position"], lengths)
    np.testing.assert_array_equal(totals, recorded.instructions_per_workgroup)
