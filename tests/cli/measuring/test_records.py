from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import MACHINE, SHAPE, predicted

from wavecast.cli.errors import CliError
from wavecast.cli.measurement import KernelCounters, MeasuredRow, Measurement, RowCounters, row_key_of
from wavecast.cli.records import Ledger, freeze, place_in_day, read_records, record_from_json, record_to_json
from wavecast.cli.rows import Row

DAY = datetime.date(2026, 11, 30)
LATER = datetime.date(2026, 12, 1)
VARIANTS = ("separate-kernels", "wavecast")


def key(variant: str) -> tuple[object, ...]:
    return row_key_of("rowwise", variant, "mi300x", SHAPE)


def measured(variant: str, us: float) -> Row:
    return replace(
        predicted(variant, us),
        predicted_us=None,
        predicted_low_us=None,
        predicted_high_us=None,
        spec=None,
        measured_us=us,
        measured_on="there",
    )


def seen(variant: str, us: float | None, check: str = "exact") -> MeasuredRow:
    return MeasuredRow("rowwise", variant, "mi300x", SHAPE, check, us, us, None if us is None else 1.1 * us)


def measurement() -> Measurement:
    return Measurement(LATER.isoformat(), MACHINE, 2.0, 4.0, 2**29)


def test_a_measurement_completes_the_record_of_its_prediction(tmp_path: Path) -> None:
    (path,) = freeze([predicted("separate-kernels", 400.0), predicted("wavecast", 90.0)], directory=tmp_path, date=DAY)
    ledger = Ledger(tmp_path, triton="3.7.1", day=LATER)
    assert [known.predicted_us for name in VARIANTS if (known := ledger.predicted(key(name)))] == [400.0, 90.0]
    assert ledger.add([measured("wavecast", 100.0)], [seen("wavecast", 100.0)], measurement()) == [path]
    (record,) = read_records(tmp_path).values()
    baseline, ours = record.rows
    assert (baseline.measured_us, ours.measured_us) == (None, 100.0)
    assert (ours.predicted_us, ours.error_percent, ours.spec) == (90.0, pytest.approx(-10.0), "mi300x-0")
    assert record.date == DAY and record.machine is not None and record.machine.endswith(", 2026-12-01")
    assert record.spread == pytest.approx(0.1)
    assert not record.is_changed
    # What the same session measures next goes to the same record.
    more = [seen("separate-kernels", None, "wrong: part 0")]
    assert ledger.add([], more, measurement()) == [path]
    (record,) = read_records(tmp_path).values()
    assert record.measurement is not None
    assert [row.variant for row in record.measurement.rows] == ["wavecast", "separate-kernels"]
    assert record.rows[1].measured_us == 100.0


def test_a_second_measurement_leaves_the_first_alone(tmp_path: Path) -> None:
    freeze([predicted("wavecast", 90.0)], directory=tmp_path, date=DAY)
    for us in (100.0, 80.0, 120.0):
        Ledger(tmp_path, triton="3.7.1", day=LATER).add(
            [measured("wavecast", us)], [seen("wavecast", us)], measurement()
        )
    found = read_records(tmp_path)
    assert [path.name for path in found] == [
        "2026-11-30-rowwise-mi300x-triton3.7.1.json",
        "2026-12-01-rowwise-mi300x-triton3.7.1-measured-2.json",
        "2026-12-01-rowwise-mi300x-triton3.7.1-measured.json",
    ]
    assert sorted(record.rows[0].measured_us or 0 for record in found.values()) == [80.0, 100.0, 120.0]
    assert {(record.date, record.rows[0].predicted_us, record.is_changed) for record in found.values()} == {
        (DAY, 90.0, False)
    }


def test_rows_that_are_left_go_to_the_same_record_from_the_same_machine_on_the_same_day(
    tmp_path: Path,
) -> None:
    (path,) = freeze([predicted("separate-kernels", 400.0), predicted("wavecast", 90.0)], directory=tmp_path, date=DAY)
    for variant, us in (("wavecast", 100.0), ("separate-kernels", 500.0)):
        ledger = Ledger(tmp_path, triton="3.7.1", day=LATER)
        assert ledger.add([measured(variant, us)], [seen(variant, us)], measurement()) == [path]
    (record,) = read_records(tmp_path).values()
    assert [row.measured_us for row in record.rows] == [500.0, 100.0]
    assert record.measurement is not None and len(record.measurement.rows) == 2
    # Another machine, or another day, is another measurement.
    other = replace(measurement(), machine=replace(MACHINE, driver="6.17.0"))
    freeze([predicted("wavecast", 95.0)], directory=tmp_path, date=LATER)
    for how in (measurement(), other):
        ledger = Ledger(tmp_path, triton="3.7.1", day=LATER)
        ledger.add([measured("wavecast", 100.0)], [seen("wavecast", 100.0)], how)
    assert len(read_records(tmp_path)) == 3


def test_predictions_of_another_triton_are_not_compared_with(tmp_path: Path) -> None:
    freeze([predicted("wavecast", 90.0, triton="3.6.0")], directory=tmp_path, date=DAY)
    ledger = Ledger(tmp_path, triton="3.7.1", day=LATER)
    assert ledger.predicted(key("wavecast")) is None
    (path,) = ledger.add([measured("wavecast", 100.0)], [seen("wavecast", 100.0)], measurement())
    record = read_records(tmp_path)[path]
    assert (record.date, record.seal, record.rows[0].predicted_us) == (LATER, None, None)


def test_a_prediction_that_was_changed_is_noticed(tmp_path: Path) -> None:
    (path,) = freeze([predicted("wavecast", 90.0)], directory=tmp_path, date=DAY)
    data = json.loads(path.read_text())
    assert not record_from_json(data).is_changed
    data["rows"][0]["predicted_us"] = 99.0
    assert record_from_json(data).is_changed
    del data["seal"]
    assert not record_from_json(data).is_changed  # nothing to tell it by


def test_a_record_goes_to_json_and_back() -> None:
    from wavecast.cli.records import Record, completed

    rows = (measured("wavecast", 100.0),)
    whole = replace(measurement(), rows=(replace(seen("wavecast", 100.0), gpus_us=(100.0, 99.0)),))
    record = completed(Record(LATER, None, None, ()), rows, whole)
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


def test_a_file_that_is_no_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"schema": "wavecast.gpu-operators/1"}')
    assert read_records(tmp_path) == {}
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(CliError, match="broken.json cannot be read"):
        read_records(tmp_path)


def test_what_is_predicted_just_before_goes_to_a_record_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, triton="3.7.1", day=LATER)
    assert ledger.predicted(key("wavecast")) is None
    counters = RowCounters(
        "rowwise", "wavecast", "mi300x", SHAPE, (KernelCounters("k", {"memory.hbm_read_bytes": 1.0}),)
    )
    (path,) = ledger.freeze([predicted("wavecast", 90.0)], [counters])
    assert read_records(tmp_path)[path].seal is not None
    assert ledger.predicted_counters(key("wavecast")) == counters
    assert ledger.add([measured("wavecast", 100.0)], [seen("wavecast", 100.0)], measurement()) == [path]
    record = read_records(tmp_path)[path]
    assert (record.rows[0].error_percent, record.is_changed) == (pytest.approx(-10.0), False)
    assert record.counters == (counters,)
    # Another one beside it: names are not taken twice.
    assert ledger.freeze([predicted("separate-kernels", 400.0)], []) == [tmp_path / f"{path.stem}-2.json"]


def test_a_hold_out_is_kept_apart(tmp_path: Path) -> None:
    freeze([predicted("wavecast", 90.0)], directory=tmp_path, date=DAY)
    (path,) = freeze([predicted("wavecast", 95.0)], directory=tmp_path, date=DAY, holdout=7)
    assert path.name == "2026-11-30-rowwise-mi300x-triton3.7.1-holdout7.json"
    ledger = Ledger(tmp_path, triton="3.7.1", holdout=7, day=LATER)
    assert ledger.add([measured("wavecast", 100.0)], [seen("wavecast", 100.0)], measurement()) == [path]
    found = read_records(tmp_path)
    assert {record.holdout: record.rows[0].measured_us for record in found.values()} == {None: None, 7: 100.0}


def test_records_of_a_day_are_in_the_order_of_their_numbers() -> None:
    ends = ("", "-2", "-10", "-measured", "-measured-2")
    paths = [Path(f"2026-12-01-rowwise-mi300x-triton3.7.1{end}.json") for end in ends]
    assert sorted(set(paths), key=place_in_day) == paths


def test_the_projects_own_predictions_are_those_that_were_written_down(root: Path) -> None:
    """Also where rows have got keys since."""
    records = read_records(root / "docs/evidence")
    assert len(records) > 100
    assert [path.name for path, record in records.items() if record.is_changed] == []
