"""Experiments whose kernels an H200 runs beside its warps: predicted, in one row with those that are executed."""

from __future__ import annotations

import pytest

from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.experiments.works import COLUMNS_KERNEL, PRODUCT_KERNEL
from wavecast.cli.prediction import Case, predict_variant

pytestmark = pytest.mark.compile


def test_a_product_on_an_h200_has_a_row_with_the_bytes_of_its_operands() -> None:
    shape = {"m": 1024, "n": 1024, "k": 2048}
    row, prediction = predict_variant(Case(EXPERIMENTS["scaled-gemm"], shape, "h200", ("wavecast",)), "wavecast")
    assert [kernel.name for kernel in row.kernels] == [PRODUCT_KERNEL]
    assert row.predicted_low_us is not None
    assert row.predicted_us is not None
    assert row.predicted_low_us < row.predicted_us
    assert row.hbm_read_bytes == pytest.approx(1024 * 2048 * 2, rel=0.01)
    assert row.hbm_write_bytes == 1024 * 1024 * 2
    assert prediction.launches[0].counters["memory.hbm_write_bytes"] < 1024 * 1024 * 2


def test_long_columns_move_each_value_once_in_parts_that_a_multiprocessor_holds() -> None:
    works = EXPERIMENTS["wgrad-copies"].works
    assert works is not None
    gradient, of_input = works("wavecast", {"tokens": 24576, "n": 1408, "k": 2048, "groups": 8})[COLUMNS_KERNEL]
    # 3,072 rows are 24 pieces of 128, two parts of 12; 22 and 32 blocks of 64 columns.
    assert (gradient.items, of_input.items) == (8 * 2 * 22, 8 * 2 * 32)
    assert gradient.read_bytes == 24576 * 1408 * 2
    assert of_input.joined
