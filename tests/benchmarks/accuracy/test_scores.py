from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from wavecast.cli.scores import Point, score, score_by


def point(measured: float, predicted: float, low: float, high: float, benchmark: str = "copy") -> Point:
    return Point("set", benchmark, "1", measured, predicted, low, high)


# Errors +10 %, -50 %, 0 %; differences 10, 100, 0 of 310 µs; intervals 1.5, 4 and 2.25 wide, the second misses.
POINTS = [point(100, 110, 80, 120), point(200, 100, 45, 180, "sort"), point(10, 10, 8, 18)]


def test_figures_of_three_points_by_hand() -> None:
    result = score(POINTS)
    assert result.count == 3
    assert result.median == pytest.approx(0.1)
    assert result.p90 == pytest.approx(0.1 + 0.8 * 0.4)
    assert result.worst == pytest.approx(0.5)
    assert result.bias == pytest.approx(0)
    assert result.wmape == pytest.approx(110 / 310)
    assert result.coverage == pytest.approx(2 / 3)
    assert result.width == pytest.approx(2.25)


def test_groups_are_scored_apart_in_the_order_in_which_they_appear() -> None:
    result = score_by(POINTS, lambda entry: entry.benchmark)
    assert list(result) == ["copy", "sort"]
    assert result["sort"].count == 1 and result["sort"].median == pytest.approx(0.5)
    assert result["copy"].median == pytest.approx(0.05)


def test_no_points() -> None:
    with pytest.raises(ValueError, match="no points"):
        score([])


@pytest.mark.parametrize(
    ("times", "message"),
    [((0, 1, 1, 1), "above 0"), ((1, float("nan"), 1, 1), "finite"), ((1, 5, 1, 2), "outside its interval")],
)
def test_times_that_make_no_sense(times: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        point(*times)
