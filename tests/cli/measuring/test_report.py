from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from fakes import MACHINE, SHAPE, predicted

from wavecast.cli.app import run
from wavecast.cli.ledger import counter_pairs
from wavecast.cli.measurement import KernelCounters, MeasuredRow, Measurement, RowCounters
from wavecast.cli.records import Ledger, freeze, read_records
from wavecast.cli.rows import Row

EARLIER, LATER = date(2026, 11, 29), date(2026, 12, 1)


def measure(folder: Path, times: dict[str, float], *, holdout: int | None = None, counted: float | None = None) -> None:
    """Measure predicted variants, with the code that was predicted."""
    kernels = () if counted is None else (KernelCounters("k", {"memory.l2_read_requests": counted, "other": 1.0}),)
    seen = [
        MeasuredRow("rowwise", variant, "mi300x", SHAPE, "exact", us, us, us, code_object="0" * 16, kernels=kernels)
        for variant, us in times.items()
    ]
    rows = [measured_row(variant, us) for variant, us in times.items()]
    how = Measurement(LATER.isoformat(), MACHINE, 2.0, 4.0, 2**29)
    Ledger(folder, triton="3.7.1", holdout=holdout, day=LATER).add(rows, seen, how)


def measured_row(variant: str, us: float) -> Row:
    row = replace(predicted(variant, us), predicted_us=None, predicted_low_us=None, predicted_high_us=None)
    return replace(row, measured_us=us, measured_on="there")


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Two predictions that were measured, an older one of the first, and a hold-out."""
    folder = tmp_path / "evidence"
    freeze([predicted("wavecast", 50.0)], directory=folder, date=EARLIER)
    measure(folder, {"wavecast": 100.0})
    counters = RowCounters(
        "rowwise", "wavecast", "mi300x", SHAPE, (KernelCounters("k", {"memory.l2_read_requests": 90.0}),)
    )
    rows = [predicted("separate-kernels", 440.0), predicted("wavecast", 95.0)]
    freeze(rows, directory=folder, counters=[counters], date=LATER)
    measure(folder, {"separate-kernels": 400.0, "wavecast": 100.0}, counted=100.0)
    freeze([predicted("wavecast", 130.0)], directory=folder, date=LATER, holdout=5)
    measure(folder, {"wavecast": 100.0}, holdout=5)
    return folder


def test_ledger_has_every_prediction_and_its_error(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(evidence), "--ledger", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "wavecast.ledger/1"
    found = [
        (entry["predicted_on"], entry["variant"], entry["holdout"], round(entry["error_percent"], 6), entry["marks"])
        for entry in document["entries"]
    ]
    assert found == [
        ("2026-11-29", "wavecast", None, -50.0, ["revised"]),
        ("2026-12-01", "separate-kernels", None, 10.0, []),
        ("2026-12-01", "wavecast", None, -5.0, []),
        ("2026-12-01", "wavecast", 5, 30.0, []),
    ]
    assert run(["report", str(evidence), "--ledger"]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "2026-11-29" in out and "-50.0" in out and "hold-out 5" in out
    assert err == "marked: 1 revised\n"


def test_a_changed_prediction_is_marked(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = evidence / "2026-12-01-rowwise-mi300x-triton3.7.1-holdout5.json"
    path.write_text(path.read_text().replace("130.0", "101.0").replace('"error_percent": 30', '"error_percent": 1'))
    data = json.loads(path.read_text())
    data["rows"][0].update(error_percent=100 * (101 / 100 - 1), predicted_low_us=90.0)
    path.write_text(json.dumps(data))
    assert run(["report", str(evidence), "--ledger", "--json"]) == 0
    out, err = capsys.readouterr()
    changed = [entry for entry in json.loads(out)["entries"] if "changed" in entry["marks"]]
    assert [(entry["record"], entry["predicted_us"]) for entry in changed] == [(path.name, 101.0)]
    assert "1 changed" in err


def test_other_code_than_was_predicted_is_marked(evidence: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in evidence.glob("*.json"):
        data = json.loads(path.read_text())
        for row in data["measurement"]["rows"]:
            row["code_object"] = "1" * 16
        path.write_text(json.dumps(data))
    assert run(["report", str(evidence)]) == 0
    assert "4 other code" in capsys.readouterr().err


def test_scores_are_of_what_was_chosen_and_of_the_hold_out_apart(
    evidence: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors of 10 and 5 % of what is newest: nine tenths of the way lies the 90th percentile; one of 50 % before."""
    assert run(["report", str(evidence)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["all", "2", "7.5", "9.5", "10.0", "+2.5", "100"] in lines
    assert ["earlier", "predictions", "1", "50.0", "50.0", "50.0", "-50.0", "0"] in lines
    assert ["hold-out", "5", "1", "30.0", "30.0", "30.0", "+30.0", "0"] in lines
    assert ["memory.l2_read_requests", "1", "10.0", "10.0", "10.0"] in lines


def test_page_has_tables_and_a_scatter_beside_it(evidence: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "measured.md"
    page.parent.mkdir()
    assert run(["report", str(evidence), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| **all** | 2 | 7.5 | 9.5 | 10.0 | +2.5 | 100 |" in text
    assert "| **earlier predictions** | 1 | 50.0 | 50.0 | 50.0 | -50.0 | 0 |" in text
    assert "(measured-mi300x.png)" in text
    assert (page.parent / "measured-mi300x.png").read_bytes()[:4] == b"\x89PNG"
    assert len((page.parent / "measured-mi300x.csv").read_text().splitlines()) == 4
    assert "Marked in the ledger: 1 revised." in text


def test_without_anything_that_has_both_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    freeze([predicted("wavecast", 50.0)], directory=tmp_path, date=EARLIER)
    assert run(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().err == "1 predictions, 0 measurements, and nothing that has both\n"
    assert run(["report", str(tmp_path / "nowhere")]) == 2


def test_conflicts_are_also_compared_with_the_cycles_that_they_lengthen(tmp_path: Path) -> None:
    """No conflict predicted of 1,000 instructions, and 30 cycles counted: the share that is missing is 3 %."""
    folder = tmp_path / "evidence"
    parts = ("memory.lds_instructions", "memory.lds_conflict_clk")
    said = KernelCounters("k", dict(zip(parts, (1000.0, 0.0), strict=True)))
    freeze(
        [predicted("wavecast", 95.0)],
        directory=folder,
        counters=[RowCounters("rowwise", "wavecast", "mi300x", SHAPE, (said,))],
        date=LATER,
    )
    seen = KernelCounters("k", dict(zip(parts, (1000.0, 30.0), strict=True)))
    row = MeasuredRow("rowwise", "wavecast", "mi300x", SHAPE, "exact", 1.0, 1.0, 1.0, kernels=(seen,))
    how = Measurement(LATER.isoformat(), MACHINE, 2.0, 4.0, 2**29)
    Ledger(folder, triton="3.7.1", day=LATER).add([measured_row("wavecast", 1.0)], [row], how)
    errors = {pair.counter: pair.error for pair in counter_pairs(read_records(folder))}
    assert errors["memory.lds_clk"] == pytest.approx(-30 / 1030)
    assert errors["memory.lds_conflict_clk"] == -1.0


def test_of_device_memory_less_than_a_megabyte_is_not_compared(tmp_path: Path) -> None:
    """Others move as much beside the launch; of other counters every one counts."""
    folder = tmp_path / "evidence"
    names = ("memory.hbm_read_bytes", "memory.hbm_write_bytes", "memory.l2_write_sectors")
    said = KernelCounters("k", dict(zip(names, (2e6, 0.0, 3.0), strict=True)))
    freeze(
        [predicted("wavecast", 95.0)],
        directory=folder,
        counters=[RowCounters("rowwise", "wavecast", "mi300x", SHAPE, (said,))],
        date=LATER,
    )
    seen = KernelCounters("k", dict(zip(names, (1.6e6, 9e5, 4.0), strict=True)))
    row = MeasuredRow("rowwise", "wavecast", "mi300x", SHAPE, "exact", 1.0, 1.0, 1.0, kernels=(seen,))
    how = Measurement(LATER.isoformat(), MACHINE, 2.0, 4.0, 2**29)
    Ledger(folder, triton="3.7.1", day=LATER).add([measured_row("wavecast", 1.0)], [row], how)
    errors = {pair.counter: pair.error for pair in counter_pairs(read_records(folder))}
    assert errors == {"memory.hbm_read_bytes": pytest.approx(0.25), "memory.l2_write_sectors": pytest.approx(-0.25)}
