from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from threading import Event

import pytest
import torch
from fakes import FakeGpu, predicted

from wavecast.cli.app import run
from wavecast.cli.measuring.session import watchdog
from wavecast.cli.prediction import Case, Outcome
from wavecast.cli.records import freeze, read_records, record_from_json

ROWWISE = ["measure", "rowwise", "--shape", "tokens=64,n=128", "--seconds", "0", "--no-predict"]


def measured(arguments: list[str], folder: Path) -> int:
    return run([*arguments, "--records", str(folder)])


def test_without_a_gpu_the_way_out_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert measured(ROWWISE, tmp_path) == 3
    error = capsys.readouterr().err
    assert error.startswith("error: torch sees no GPU\n\nhint: ") and "docs/guides/measure.md" in error


def test_times_are_medians_and_go_to_a_record(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measured([*ROWWISE, "--json"], tmp_path) == 0
    document = record_from_json(json.loads(capsys.readouterr().out))
    (path,) = tmp_path.glob("*.json")
    assert path.name.endswith("-rowwise-mi300x-triton3.7.1-measured.json")
    record = read_records(tmp_path)[path]
    assert record == document
    assert [(row.variant, row.measured_us, row.predicted_us) for row in record.rows] == [
        ("separate-kernels", pytest.approx(400.0), None),
        ("wavecast", pytest.approx(100.0), None),
    ]
    assert record.spread == pytest.approx(1.018 / 0.982 - 1)
    assert record.measurement is not None
    first, ours = record.measurement.rows
    assert (first.check, first.rounds, first.clock_mhz) == ("exact", 20, 2100.0)
    assert (ours.cold_us, ours.warm_us) == (pytest.approx(100.0), pytest.approx(50.0))
    assert ours.cold_low_us == pytest.approx(98.2) and ours.cold_high_us == pytest.approx(101.8)
    assert (record.measurement.event_us, record.measurement.machine.runtime) == (pytest.approx(0.5), "rocm 7.2")


def test_table(fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measured(ROWWISE, tmp_path) == 0
    out, err = capsys.readouterr()
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["rowwise  tokens=64 n=128", "mi300x: AMD Instinct MI300X, Triton 3.7.1"]
    (ours,) = [line.split() for line in lines if line.startswith("wavecast ")]
    assert ours == ["wavecast", "–", "–", "100", "1.8", "50.0", "–", "4.00×", "exact"]
    assert "between two events: nothing 0.500 µs" in err and "wrote " in err


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("wrong", "wrong: part 0 is off by "),
        ("stale", "wrong: part 0 is off by "),
        ("memory", "no memory: HIP out of memory. Tried to allocate 40.00 GiB"),
    ],
)
def test_what_is_not_right_is_not_timed_and_the_others_are(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str, told: str
) -> None:
    fake_gpu.faults["separate-kernels"] = fault
    assert measured(ROWWISE, tmp_path) == 1
    out, err = capsys.readouterr()
    assert f"error: rowwise separate-kernels tokens=64 n=128: {told}" in err
    (record,) = read_records(tmp_path).values()
    assert [row.variant for row in record.rows] == ["wavecast"]
    assert record.measurement is not None
    assert [row.check.startswith(told) for row in record.measurement.rows] == [True, False]
    assert ("separate-kernels", False) not in fake_gpu.samples
    assert "separate-kernels" in out


def test_what_an_operator_refuses_there_is_said_and_is_no_failure(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_gpu.faults["separate-kernels"] = "refused"
    assert measured(ROWWISE, tmp_path) == 0
    assert "refused: format" in capsys.readouterr().out.replace("\n", " ")


def test_a_gpu_that_disappears_leaves_what_was_measured(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has gone once the first of two shapes has been written down."""
    fake_gpu.vanishes = lambda: bool(list(tmp_path.glob("*.json")))
    shapes = ({"tokens": 64, "n": 128}, {"tokens": 32, "n": 128})
    monkeypatch.setattr("wavecast.cli.experiments.catalogue.choose_shapes", lambda experiment, texts: shapes)
    assert run(["measure", "rowwise", "--seconds", "0", "--no-predict", "--records", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    told = "error: the GPU does not answer any more: failed: RuntimeError: HIP error: device is not present; measured"
    assert told in err
    (record,) = read_records(tmp_path).values()
    assert [dict(row.shape) for row in record.rows] == [shapes[0], shapes[0]]


def test_of_several_gpus_the_slowest_counts(fake_gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = FakeGpu(times_us={"separate-kernels": 300.0, "wavecast": 150.0})
    monkeypatch.setattr("wavecast.cli.measuring.gpu.GpuBench", lambda index: (fake_gpu, slow)[index])
    assert measured([*ROWWISE, "--gpus", "2"], tmp_path) == 0
    (record,) = read_records(tmp_path).values()
    assert record.measurement is not None
    assert [row.measured_us for row in record.rows] == [pytest.approx(400.0), pytest.approx(150.0)]
    assert [row.gpus_us for row in record.measurement.rows] == [
        (pytest.approx(400.0), pytest.approx(300.0)),
        (pytest.approx(100.0), pytest.approx(150.0)),
    ]


def test_what_is_not_predicted_yet_is_predicted_before_it_is_measured(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def predict_cases(cases: Sequence[Case], *, apart: bool, **_: object) -> Iterator[Outcome]:
        assert apart and not fake_gpu.samples
        for case in cases:
            asked.append(case.variants)
            rows = [predicted(variant, 90.0, shape=dict(case.shape)) for variant in case.variants]
            yield Outcome(tuple(rows), (), ())

    monkeypatch.setattr("wavecast.cli.prediction.predict_cases", predict_cases)
    monkeypatch.setattr("wavecast.cli.predict.predicted_counters", lambda outcomes: [])
    freeze([predicted("wavecast", 80.0)], directory=tmp_path, date=date(2026, 11, 30))
    assert run([*ROWWISE[:-1], "--records", str(tmp_path)]) == 0
    assert asked == [("separate-kernels",)]
    out, err = capsys.readouterr()
    assert "predicted first: " in err
    (ours,) = [line.split() for line in out.splitlines() if line.startswith("wavecast ")]
    assert ours == ["wavecast", "80.0", "72.0–88.0", "100", "1.8", "50.0", "-20.0", "4.00×", "exact"]
    assert "wavecast: the code that ran is not the code that was predicted" in out  # nothing was launched by Triton
    records = read_records(tmp_path).values()
    assert sorted((row.variant, row.predicted_us, row.measured_us) for record in records for row in record.rows) == [
        ("separate-kernels", 90.0, pytest.approx(400.0)),
        ("wavecast", 80.0, pytest.approx(100.0)),
    ]
    assert not any(record.is_changed for record in records)


def test_only_what_waits_is_measured_if_asked_for(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    freeze([predicted("wavecast", 80.0)], directory=tmp_path, date=date(2026, 11, 30))
    arguments = [*ROWWISE, "--missing", "--records", str(tmp_path)]
    assert run(arguments) == 0
    assert "separate-kernels" not in {name for name, _ in fake_gpu.samples}
    (record,) = read_records(tmp_path).values()
    assert [row.measured_us for row in record.rows] == [pytest.approx(100.0)]
    assert run(arguments) == 1
    assert "nothing that is predicted there waits for a measurement" in capsys.readouterr().err


def test_where_the_simulator_is_not_installed_that_is_said(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run([*ROWWISE[:-1], "--records", str(tmp_path)]) == 0
    assert "no new predictions: the simulator needs numba, llvmlite" in capsys.readouterr().err
    monkeypatch.undo()


def test_a_step_that_takes_too_long_is_noticed_and_one_that_ends_in_time_is_not() -> None:
    expired = Event()
    with watchdog(0.02, expired.set):
        assert expired.wait(10)
    expired.clear()
    with watchdog(30, expired.set) as still_here:
        still_here()
    assert not expired.wait(0.05)


def test_a_gpu_that_hangs_ends_the_process_and_says_what_is_kept(
    fake_gpu: FakeGpu, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second shape never ends; the process is not really ended here, and so goes on when it is let go."""
    let_go, ended = Event(), []

    def end(code: int) -> None:
        ended.append(code)
        let_go.set()

    def hangs() -> bool:
        if list(tmp_path.glob("*.json")):
            assert let_go.wait(10)
        return False

    fake_gpu.vanishes = hangs
    monkeypatch.setattr("wavecast.cli.measure.os._exit", end)
    shapes = ({"tokens": 64, "n": 128}, {"tokens": 32, "n": 128})
    monkeypatch.setattr("wavecast.cli.experiments.catalogue.choose_shapes", lambda experiment, texts: shapes)
    arguments = ["measure", "rowwise", "--seconds", "0", "--no-predict", "--watchdog", "1", "--records", str(tmp_path)]
    run(arguments)
    assert ended == [1]
    err = capsys.readouterr().err
    assert (
        "a step has taken more than 1 s: the GPU hangs, or --watchdog is too short; measured before and kept: " in err
    )


def test_misuse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["measure", "--all", "rowwise"]) == 2
    assert run(["measure", "rowise"]) == 2
    assert "did you mean 'rowwise'" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run(["measure", "rowwise", "--records", str(tmp_path / "file")]) == 2
