from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import accuracy
from calibrate import Fold
from micro import checks
from price import Priced
from programs import Program
from published import Published, Speedup, is_reached
from report import Scored, Table, document, fill_page, folds_table, markdown, score_table, significant, worst_table

from wavecast.cli.plots.scatter import write_scatter
from wavecast.cli.scores import Point
from wavecast.simulator.devices import load_device
from wavecast.simulator.timing import Bound


def priced(benchmark: str, label: str, measured: float, predicted: float) -> Priced:
    point = Point("mi300a", benchmark, label, measured, predicted, predicted / 1.5, predicted * 1.5)
    program = Program("mi300a", benchmark, label, measured, ())
    return Priced(program, point, 2.0, {Bound.HBM: predicted - 2, Bound.LAUNCH: 0.01}, Bound.HBM, "because", {})


PRICED = (priced("copy", "1", 100, 110), priced("copy", "2", 100, 130), priced("sort", "1", 100, 20))
POINTS = tuple(entry.point for entry in PRICED)
SCORED = Scored("mi300a", PRICED, POINTS, POINTS, (Fold("copy", {"hbm.mixed_tb_s": 3.5}),))


def test_scores_by_benchmark_then_of_all_then_without_calibration() -> None:
    table = score_table(SCORED)
    assert [row[0] for row in table.rows] == ["copy", "sort", "**all**", "without calibration"]
    assert table.rows[0] == ("copy", "2", "20.0", "28.0", "30.0", "+20.0", "20.0", "100.0", "2.25", "20.0", "28.0")
    assert table.rows[2][1:3] == ("3", "30.0")
    assert all(len(row) == len(table.head) for row in table.rows)


def test_the_largest_error_comes_first_with_what_it_consists_of() -> None:
    table = worst_table(SCORED, count=1)
    assert table.rows == (("sort", "1", "100", "20.0", "-80.0", "hbm", "hbm 18.0, host 2.00"),)


def test_numbers_have_three_significant_digits() -> None:
    assert [significant(value) for value in (0.1234, 1.234, 12.34, 123.4, 12345.6)] == [
        "0.123",
        "1.23",
        "12.3",
        "123",
        "12,346",
    ]


def test_a_page_is_filled_between_its_marks_only() -> None:
    page = "before\n<!-- table folds -->\nold\n<!-- end -->\nafter\n"
    table = Table("folds", "title", ("a", "b"), (("1", "2"),))
    filled = fill_page(page, [table, Table("absent", "title", ("a",), ())])
    assert filled == "before\n<!-- table folds -->\n| a | b |\n| --- | --- |\n| 1 | 2 |\n<!-- end -->\nafter\n"
    assert fill_page(filled, [table]) == filled
    with pytest.raises(ValueError, match="without"):
        fill_page("<!-- table folds -->\n", [table])


def test_folds_say_what_each_fit_found() -> None:
    assert markdown(folds_table(SCORED)).splitlines()[-1] == "| copy | 3.5 |"


def test_the_document_is_json_with_every_part() -> None:
    speedup = Speedup("experiment", "a / b", 4.0, 3.0)
    published = Published(POINTS, (speedup,), ("one failed",))
    data = json.loads(json.dumps(document([SCORED], [], published), allow_nan=False))
    assert data["schema"] == "wavecast.accuracy/1"
    assert data["datasets"][0]["score"]["count"] == 3 and len(data["datasets"][0]["points"]) == 3
    assert data["published"]["speedups"][0]["error"] == pytest.approx(-0.25)


@pytest.mark.parametrize(
    ("predicted", "low", "high", "reached"),
    [(115, 110, 120, True), (150, 140, 160, False), (150, 80, 190, True), (150, 60, 190, False)],
)
def test_a_published_time_is_met_nearly_or_inside_a_narrow_interval(
    predicted: float, low: float, high: float, reached: bool
) -> None:
    assert is_reached(Point("published", "a", "b", 100, predicted, low, high)) is reached


def test_a_scatter_is_written_with_its_numbers(tmp_path: Path) -> None:
    png, svg, table = write_scatter(POINTS, tmp_path / "plots", name="accuracy", title="three")
    assert png.read_bytes().startswith(b"\x89PNG") and "<svg" in svg.read_text()
    lines = table.read_text().splitlines()
    assert lines[0].endswith(",error") and len(lines) == 4


def row(benchmark: str, value: int, microseconds: float, params: str = "") -> dict[str, str]:
    return {"benchmark": benchmark, "value": str(value), "params": params, "kernel_ms": str(microseconds / 1e3)}


def test_a_missing_row_of_a_microbenchmark_is_named() -> None:
    with pytest.raises(ValueError, match="no row empty_kernel"):
        checks([row("shoc_triad", 1024, 5.8, "precision=float")], load_device("mi300x"))


def test_data_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert accuracy.main(["--only", "mi300a"]) == 1
    assert "give --data and --mgpusim, or --only published" in capsys.readouterr().err
