"""Rounds, steps and times of products by hand, and what must hold for every product."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavecast.simulator.devices import Device, load_device
from wavecast.simulator.timing.gemm import (
    Configuration,
    GemmError,
    GemmProblem,
    Mechanisms,
    Scaling,
    Shape,
    Tile,
    evaluate_gemm,
    library,
    predict_gemm,
)
from wavecast.simulator.timing.gemm.main_loop import epilogue_clk, step_clk
from wavecast.simulator.timing.gemm.rounds import count_rounds
from wavecast.simulator.timing.prediction import Bound, Position

MI300X = load_device("mi300x")
H200 = load_device("h200")
LARGE = Configuration(Tile(256, 256), chunked=True)
BLOCKWISE = library("cutlass-blockwise-sm90").configurations[0]


@pytest.mark.parametrize(
    ("m", "n", "tiles_of_fullest"),
    [
        (4096, 4864, 1),  # 16 x 19 tiles on 304 units: one full round
        (4096, 4865, 2),  # one column of tiles more
        (256, 256, 1),
        (4096, 2 * 4864, 2),
        # 17 x 19 tiles: XCD 0 to 2 get 41 and the others 40, on 38 units each
        (4097, 4864, 2),
    ],
)
def test_rounds_of_equal_tiles(m: int, n: int, tiles_of_fullest: int) -> None:
    rounds = count_rounds(GemmProblem.dense(m, n, 1024), LARGE, MI300X)
    assert (rounds.tiles, rounds.steps) == (tiles_of_fullest, tiles_of_fullest * 1024 / 64)


def test_without_quantization_work_spreads_as_if_tiles_could_be_cut_at_will() -> None:
    problem = GemmProblem.dense(4096 + 128, 4864, 1024)
    rounds = count_rounds(problem, LARGE, MI300X, quantized=False)
    assert rounds.tiles == pytest.approx((4096 + 128) / 4096)
    assert rounds.steps == pytest.approx(16 * (4096 + 128) / 4096)


def test_ragged_rows_count_by_their_tiles_and_ragged_depths_by_their_steps() -> None:
    tile = Configuration(Tile(128, 128), workgroups_per_cu=1)
    rows = GemmProblem.grouped_rows([128, 1, 0, 255], 128 * 132, 1024, "fp8")
    # 1 + 1 + 0 + 2 rows of 132 tiles on 132 SMs.
    assert count_rounds(rows, tile, H200).tiles == 4
    # Depths of 100 and 1 step: 132 tiles each; list scheduling puts the short ones behind the long ones.
    depths = GemmProblem.grouped_sums(128, 128 * 132, [100 * 128, 128, 0], "fp8")
    assert count_rounds(depths, tile, H200).steps == pytest.approx(101)
    # A sum that is much longer than the rest ends last, wherever the others go.
    lonely = GemmProblem.grouped_sums(128, 128, [1000 * 128, *[128] * 131], "fp8")
    assert count_rounds(lonely, tile, H200).steps == pytest.approx(1000)


def test_stream_k_shares_the_last_round() -> None:
    problem = GemmProblem.dense(8192, 8192, 8192)
    steps = {
        mode: count_rounds(problem, Configuration(Tile(256, 256), stream_k=mode), MI300X).steps
        for mode in (False, True)
    }
    assert steps[False] == 4 * 128  # 1,024 tiles on 304 units
    assert steps[True] == pytest.approx(1024 * 128 / 304, abs=1)


def test_cycles_of_a_step_by_hand() -> None:
    step = step_clk(GemmProblem.dense(1, 1, 1, "bf16"), LARGE, MI300X)
    # 2 x 256 x 256 x 64 operations at 2,048 a cycle; operands of 64 KiB written once and read by two waves each.
    assert step.matrix == pytest.approx(4096 / 0.94)
    assert step.lds == pytest.approx(3 * 65536 / 128 / 0.94)
    assert step.fill == pytest.approx(65536 / 64)
    assert step.busy == step.matrix
    # Hopper: 128 x 128 x 128 in 512 cycles; two warp groups of 64 rows read all of B, and a promotion of 16,384
    # accumulators on 128 lanes follows where scales go by blocks.
    for scaling, promotion in ((Scaling.ROWWISE, 0), (Scaling.BLOCKWISE, 128)):
        step = step_clk(GemmProblem.dense(1, 1, 1, "fp8", scaling), BLOCKWISE, H200)
        assert step.matrix == pytest.approx(512 / 0.96 + promotion)
        assert step.lds == pytest.approx((16384 + 2 * 16384 + 32768) / 128 / 0.96)
    exact = GemmProblem((Shape(1, 1, 1),), "fp8", Scaling.ROWWISE, exact_sums=True)
    assert step_clk(exact, BLOCKWISE, H200).matrix == pytest.approx(512 / 0.96 + 128)
    assert epilogue_clk(GemmProblem.dense(1, 1, 1), BLOCKWISE, H200) == pytest.approx(128 * 128 * 2 / 32 + 287)


def test_one_full_round_with_a_long_main_loop_reaches_the_throughput_behind_the_constants() -> None:
    """The vendor's own measurement: a clock of 1.207 GHz at 94 % of the matrix rate, in one round of tiles."""
    found = evaluate_gemm(GemmProblem.dense(4096, 4864, 32896), LARGE, MI300X)
    assert found.clock_ghz == pytest.approx(1.207, rel=0.02)
    assert 2 * 4096 * 4864 * 32896 / found.total_us * 1e-6 == pytest.approx(708, rel=0.03)
    assert found.bound is Bound.ISSUE


def test_narrow_operands_run_at_their_own_clock() -> None:
    for dtype, clock in (("bf16", 1.207), ("fp8", 1.14)):
        found = evaluate_gemm(GemmProblem.dense(16384, 4864, 32768, dtype), LARGE, MI300X)
        assert found.clock_ghz == pytest.approx(clock, rel=0.05), dtype


def test_a_few_rows_are_limited_by_memory_and_a_tiny_product_by_the_launch() -> None:
    found = predict_gemm(GemmProblem.dense(16, 57344, 8192), MI300X, "hipblaslt-gfx942")
    assert found.bound in (Bound.HBM, Bound.MALL)
    weights_us = 57344 * 8192 * 2 / (MI300X.hbm.read_tb_s * 1e6)
    assert weights_us < found.predicted_us < 1.4 * weights_us
    assert "HBM" in found.cause or "memory-side" in found.cause
    shallow = predict_gemm(GemmProblem.dense(4096, 1024, 256), MI300X, "hipblaslt-gfx942")
    assert shallow.bound is Bound.WRITE_BACK and "of 8.4 MB" in shallow.cause
    tiny = predict_gemm(GemmProblem.dense(16, 64, 64), H200, "cublaslt-sm90", position="first")
    assert tiny.bound is Bound.LAUNCH and tiny.predicted_us > H200.launch.first_us


def test_the_chosen_kernel_is_the_fastest_of_the_list_and_splits_where_tiles_are_few() -> None:
    deep = GemmProblem.dense(128, 128, 65536, "bf16")
    found = predict_gemm(deep, MI300X, "hipblaslt-gfx942")
    assert found.configuration.split_k > 1
    whole = predict_gemm(deep, MI300X, Configuration(Tile(128, 128)))
    assert found.predicted_us < whole.predicted_us
    wide = predict_gemm(GemmProblem.dense(8192, 8192, 8192), MI300X, "hipblaslt-gfx942")
    assert wide.configuration.split_k == 1
    assert wide.low_us <= wide.predicted_us <= wide.high_us
    assert wide.alternatives and wide.configuration not in wide.alternatives


@pytest.mark.parametrize("device", [load_device(name) for name in ("mi300x", "mi325x", "mi355x", "h200")])
@given(m=st.integers(1, 20000), n=st.integers(1, 9000), k=st.integers(64, 9000))
def test_no_product_beats_its_rates_and_each_mechanism_costs_time(device: Device, m: int, n: int, k: int) -> None:
    problem = GemmProblem.dense(m, n, k, "fp8")
    configuration = BLOCKWISE if device.arch == "sm_90" else Configuration(Tile(128, 128), chunked=True)
    found = evaluate_gemm(problem, configuration, device)
    assert found.total_us > problem.flop / (problem.flop_per_clk(device) * device.compute.num_cu * device.clk_per_us)
    for off in ("quantization", "reuse", "clock"):
        without = evaluate_gemm(problem, configuration, device, mechanisms=Mechanisms(**{off: False}))
        if off == "reuse":
            assert without.total_us >= found.total_us * 0.999
        else:
            assert without.total_us <= found.total_us * 1.001
    deeper = evaluate_gemm(GemmProblem.dense(m, n, k + 512, "fp8"), configuration, device)
    assert deeper.total_us > found.total_us


def test_position_adds_the_cost_of_the_launch_alone() -> None:
    problem = GemmProblem.dense(4096, 4096, 4096, "fp8")
    positions = Position.FIRST, Position.BACK_TO_BACK
    times = [evaluate_gemm(problem, BLOCKWISE, H200, position=position).total_us for position in positions]
    assert times[0] - times[1] == pytest.approx(H200.launch.first_us - H200.launch.back_to_back_us)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GemmProblem.dense(1, 1, 1, "fp7"), "'fp7' is not known.*bf16.*mxfp4"),
        (lambda: GemmProblem.dense(0, 5, 5), "nothing to time"),
        (lambda: GemmProblem((Shape(1, -1, 1),)), "sizes of 0 or more"),
        (lambda: predict_gemm(GemmProblem.dense(9, 9, 9, "mxfp8"), MI300X, LARGE), "multiplies no mxfp8.*it does bf16"),
        (lambda: predict_gemm(GemmProblem.dense(9, 9, 9), H200, "hipblaslt-gfx942"), "gfx942; h200 is sm_90"),
        (lambda: predict_gemm(GemmProblem.dense(9, 9, 9), H200, "cublas"), "'cublas'; known are .*cublaslt-sm90"),
        (
            lambda: predict_gemm(GemmProblem.dense(9, 9, 9), MI300X, Configuration(Tile(512, 512))),
            "does not hold.*smaller",
        ),
    ],
)
def test_what_cannot_be_priced_is_refused_with_the_way_out(make: object, message: str) -> None:
    with pytest.raises(GemmError, match=message):
        make()  # type: ignore[operator]
