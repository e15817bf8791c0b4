from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, median

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import overlap
import overlap_published as published
from overlap_points import Point, summary


def test_the_five_published_overlap_points_are_met_without_a_fitted_contention() -> None:
    assert fmean(abs(point.error) for point in published.fused_points()) <= 0.05


def test_the_published_all_reduce_of_eight_mi300x_is_met() -> None:
    assert median(abs(point.error) for point in published.all_reduce_points()) <= 0.12


def test_rings_of_few_gpus_and_collectives_beside_a_product_are_met() -> None:
    points = [*published.few_ranks_points(), *published.beside_points()]
    assert all(abs(point.error) < 0.1 for point in points)


def test_collectives_across_nodes_reach_the_published_thresholds_and_come_near_what_was_measured() -> None:
    assert all(
        point.predicted > 0.99 * point.measured for nodes in (1, 2) for point in published.threshold_points(nodes)
    )
    assert all(abs(point.error) < 0.1 for point in published.two_nodes_points())
    assert all(abs(point.error) < 0.15 for point in published.two_nodes_algorithms())


def test_the_shapes_of_mi308x_are_met_within_15_percent() -> None:
    assert all(abs(point.error) <= 0.15 for point in published.mi308x_points())


@pytest.mark.parametrize("ranks", [2, 4])
def test_native_over_decomposed_rises_with_the_depth_as_published(ranks: int) -> None:
    found = [published.ratios(ranks, depth) for depth in published.RATIOS]
    low, high = list(map(min, found)), list(map(max, found))
    assert low == sorted(low)
    # The native path wins at the least depth and loses at the greatest one.
    assert low[0] < 1 < high[-1]
    for (first, last), least, most in zip(published.RATIOS.values(), low, high, strict=True):
        # The published range is of both numbers of GPUs and unknown widths: ours must lie in it, or within 15 % of it.
        assert least > 0.85 * first
        assert most < 1.15 * last


def test_fitted_rows_do_not_count() -> None:
    points = [Point("a", "x", 100.0, 110.0), Point("a", "y", 100.0, 300.0, fitted=True)]
    assert summary(points)[0] == "1"
    assert summary(points)[1] == "10.0 %"


def test_without_a_folder_only_published_figures_are_scored(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert overlap.main([]) == 0
    out = capsys.readouterr().out
    assert "MI355X" in out
    assert "H200" not in out
    assert overlap.main(["--data", str(tmp_path)]) == 1
