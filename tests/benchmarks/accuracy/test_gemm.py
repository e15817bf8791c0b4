from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gemm

from wavecast.cli.scores import score
from wavecast.simulator.devices import device_names
from wavecast.simulator.timing.gemm import LIBRARIES, Mechanisms


def test_every_published_row_has_a_source_a_known_device_and_a_known_kernel() -> None:
    with gemm.PUBLISHED.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({(row["set"], row["form"], row["groups"], row["m"], row["n"], row["k"]) for row in rows}) == len(rows)
    for row in rows:
        assert len(row["source"]) > 10 and row["part"] in ("fit", "scored")
        assert row["device"] in device_names() and row["kernel"] in LIBRARIES


def test_no_data_set_is_fitted_on_more_than_it_is_scored_on_but_those_behind_device_constants() -> None:
    cases = gemm.published_cases()
    for name in {case.dataset for case in cases}:
        parts = [case.fitted for case in cases if case.dataset == name]
        assert sum(parts) <= 1 or name.endswith("max-achievable") or name == "h200 bf16 torch"
    fitted = [case for case in cases if case.fitted]
    assert len(fitted) < len(cases) / 4


def test_a_published_time_is_operations_over_throughput_and_calls_take_as_long_as_the_host() -> None:
    cases = {(case.dataset, case.label): case for case in gemm.published_cases()}
    small = cases["mi300x fp8 hipBLASLt", "1024x1024x1024"]
    assert small.fitted and small.measured_us == pytest.approx(2 * 1024**3 / 53.1e6)
    next_one = cases["mi300x fp8 hipBLASLt", "2048x2048x2048"]
    assert next_one.floor_us == small.measured_us
    point = gemm.predicted(next_one)
    assert point.predicted_us == point.low_us == small.measured_us
    large = gemm.predicted(cases["mi300x fp8 hipBLASLt", "8192x8192x8192"])
    assert large.low_us > small.measured_us
    # Kernels that were timed without a host between them have no such floor.
    assert cases["mi355x bf16 HipKittens", "2048x2048x2048"].floor_us == 0


def write_shapes(folder: Path, rows: list[tuple[int, int, int, float]]) -> None:
    lines = ["m,n,k,measured_us", *(",".join(map(str, row)) for row in rows)]
    (folder / gemm.SHAPES).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_shapes_are_split_once_and_for_all(tmp_path: Path) -> None:
    shapes = [(4 * m, 1152, 512, 10.0) for m in range(1, 1001)]
    write_shapes(tmp_path, shapes)
    parts = [gemm.shape_cases(tmp_path, development=flag) for flag in (True, False)]
    assert sum(map(len, parts)) == 1000 and 200 < len(parts[0]) < 300
    labels = [{case.label for case in part} for part in parts]
    assert not labels[0] & labels[1]
    # What was seen before the split was fixed is never scored.
    assert all(gemm.is_development(4 * m, 4096, 8192) for m in range(1, 200))


def test_scores_tables_and_ablations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shapes(tmp_path, [(m, 4096, 4096, 15.0 + 30 * (m // 1024)) for m in range(128, 3000, 384)])
    part = gemm.score_gemm("gemm-h200-scored", tmp_path)
    assert score(part.points) == part.ablations["whole model"]
    assert set(part.ablations) == set(gemm.ABLATIONS)
    assert part.ablations["no quantization"].bias < part.ablations["whole model"].bias
    assert not part.fitted
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gemm -->\nold\n<!-- end gemm -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(gemm, "PAGE", page)
    assert gemm.main(["--data", str(tmp_path), "--only", "gemm-h200-development", "--page"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "### gemm-h200-development" in text and "no power limit" in text
    capsys.readouterr()
    assert gemm.main(["--data", str(tmp_path), "--only", "gemm-h200-scored", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["parts"]
    assert len(found["points"]) == len(part.points)


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"'mi300x'.*gemm-published, gemm-h200-development"):
        gemm.score_gemm("mi300x")
    assert gemm.main(["--only", "gemm-h200-scored"]) == 1
    assert "--data" in capsys.readouterr().err
    assert gemm.main(["--data", str(tmp_path)]) == 1
    assert "h200_fp8_gemm.csv does not exist" in capsys.readouterr().err


def test_an_ablation_changes_the_prediction() -> None:
    case = next(case for case in gemm.published_cases() if case.label == "8192x8192x8192")
    whole = gemm.predicted(case).predicted_us
    assert gemm.predicted(case, mechanisms=Mechanisms(clock=False)).predicted_us < whole
    assert gemm.predicted(case, mechanisms=Mechanisms(reuse=False)).predicted_us > whole
