"""Kernels that are timed from what they work on: copies that a copy unit feeds, and products by tensor cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wavecast.simulator.devices import load_device
from wavecast.simulator.timing import Bound, Position
from wavecast.simulator.timing.gemm import Configuration, GemmProblem, Tile, predict_gemm
from wavecast.simulator.timing.modelled import StagedCopy, TiledProduct, kept_bytes, predict_modelled
from wavecast.simulator.traffic.dirty import NOTHING

H200, MI300X = load_device("h200"), load_device("mi300x")
COPY = StagedCopy(items=13_200, programs=132, read_bytes=2 << 30, write_bytes=1 << 30, joined=False)
PRODUCT = TiledProduct(
    GemmProblem.dense(8192, 8192, 8192, "fp8"),
    Configuration(Tile(128, 256, lds_stages=4, ahead=3, wave_columns=1), persistent=True, window=16, bulk=True),
)


def test_a_copy_takes_what_memory_takes_and_a_wait_for_each_round() -> None:
    found = predict_modelled(COPY, H200)
    floor_us = 3 * (1 << 30) / (H200.hbm.mixed_tb_s * 1e6)
    # Reads have the larger share, and go faster than both mixed.
    assert 0.9 * floor_us < found.predicted_us < 1.25 * floor_us
    waits_us = 100 * (H200.hbm.latency_clk + H200.l2.store_ack_clk) / H200.clk_per_us
    free = replace(H200, hbm=replace(H200.hbm, latency_clk=0), l2=replace(H200.l2, store_ack_clk=0))
    assert found.predicted_us - predict_modelled(COPY, free).predicted_us == pytest.approx(waits_us)
    assert found.low_us < found.predicted_us < found.high_us


def test_items_that_wait_for_one_another_take_longer() -> None:
    assert predict_modelled(replace(COPY, joined=True), H200).predicted_us > predict_modelled(COPY, H200).predicted_us


def test_a_round_that_few_items_fill_takes_as_long_as_a_full_one() -> None:
    times = [predict_modelled(replace(COPY, items=items), H200).predicted_us for items in (2 * 132, 2 * 132 + 1)]
    assert times[1] / times[0] == pytest.approx(3 * 132 / (2 * 132 + 1), rel=0.02)


def test_the_cause_names_what_a_unit_waits_whether_the_last_round_is_full_or_not() -> None:
    waits_us = (H200.hbm.latency_clk + H200.l2.store_ack_clk) / H200.clk_per_us
    for items in (2 * 132, 2 * 132 + 1):
        assert f"between which {waits_us:.1f} µs pass" in predict_modelled(replace(COPY, items=items), H200).cause


def test_a_product_alone_runs_at_the_clock_of_a_rested_device() -> None:
    rested, hot = (predict_modelled(PRODUCT, H200, rested=rested) for rested in (True, False))
    assert rested.predicted_us < hot.predicted_us
    assert hot.predicted_us == predict_gemm(PRODUCT.problem, H200, PRODUCT.configuration).predicted_us
    first = predict_modelled(PRODUCT, H200, position=Position.FIRST)
    assert first.predicted_us > hot.predicted_us


@pytest.mark.parametrize("work", [COPY, PRODUCT], ids=["copy", "product"])
def test_what_the_l2_keeps_is_paid_for_by_the_launch_after(work: StagedCopy | TiledProduct) -> None:
    first = predict_modelled(work, H200, before=NOTHING)
    then = predict_modelled(work, H200, before=first.left)
    assert first.left.dirty_bytes == kept_bytes(first, H200) > 0
    chained = predict_modelled(work, H200)
    assert first.terms[Bound.HBM] < then.terms[Bound.HBM] == pytest.approx(chained.terms[Bound.HBM])
    assert kept_bytes(chained, MI300X) == 0.0
