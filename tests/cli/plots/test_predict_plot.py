"""``predict --plot`` and ``--sensitivity`` on the command line."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from wavecast.cli import simulate
from wavecast.cli.app import run
from wavecast.cli.rows import document_from_json
from wavecast.simulator.devices import load_device

SMALL = ["predict", "rowwise", "--shape", "tokens=64,n=512", "--jobs", "1"]


def test_what_cannot_be_drawn_is_said_and_the_rest_is_written(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "new" / "folder"
    assert run(["predict", "colwise-per-group", "--shape", "n=2048", "--jobs", "1", "--plot", str(place)]) == 0
    stem = "colwise-per-group-mi300x-tokens32768-n2048-groups32"
    assert sorted(path.name for path in place.iterdir()) == [f"{stem}-intervals.{end}" for end in ("csv", "png", "svg")]
    assert capsys.readouterr().err.splitlines() == [
        f"no roofline for {stem}: no variant moves bytes and computes",
        f"no traffic for {stem}: no variant moves bytes",
        f"no waterfall for {stem}: the terms of the times are not known",
        f"wrote 3 files to {place}: every picture as PNG, SVG and CSV",
    ]
    assert "A byte-stores,720.0,800.0,960.0,,785" in (place / f"{stem}-intervals.csv").read_text()


def test_plot_and_json_go_together(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["predict", "colwise-per-group", "--json", "--jobs", "1", "--plot", str(tmp_path)]) == 0
    document = document_from_json(json.loads(capsys.readouterr().out))
    assert len(document.rows) == 8
    assert document.sensitivity is None
    assert len(list(tmp_path.iterdir())) == 6


def test_nothing_to_plot(fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fake_simulator.clear()
    arguments = ["weight-transpose", "--variant", "atomic-relaxed", "--shape", "experts=1,k=64,n=64"]
    assert run(["predict", *arguments, "--jobs", "1", "--plot", str(tmp_path / "out")]) == 1
    assert "nothing to plot for weight-transpose: no variant was predicted\n" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(["predict", "--list", "--plot", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: nothing to plot: --list predicts nothing\n\nhint: ")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_where_pictures_cannot_be_written_nothing_is_predicted(
    place: str, fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["predict", "colwise-per-group", "--jobs", "1", "--plot", str(tmp_path / place)]) == 2
    error = f"error: cannot write to {tmp_path / place}: {tmp_path / 'file'} is a file\n\nhint: "
    assert capsys.readouterr().err.startswith(error)
    assert fake_simulator == []


@pytest.mark.parametrize("option", ["--plot", "--freeze"])
def test_a_directory_that_may_not_be_written_to(
    option: str,
    fake_simulator: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run(["predict", "colwise-per-group", "--jobs", "1", option, str(tmp_path / "new")]) == 2
    assert f"cannot write to {tmp_path / 'new'}: {tmp_path} may not be written to" in capsys.readouterr().err
    assert fake_simulator == []


def test_a_directory_that_fills_up(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavecast.cli.plots.drawing.save", full)
    assert run(["predict", "colwise-per-group", "--jobs", "1", "--plot", str(tmp_path)]) == 2
    assert f"error: cannot write to {tmp_path}: No space left on device" in capsys.readouterr().err


def test_without_matplotlib_nothing_is_predicted(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavecast.cli.plots.files.find_spec", lambda name: None)
    assert run(["predict", "colwise-per-group", "--jobs", "1", "--plot", str(tmp_path)]) == 3
    assert capsys.readouterr().err.startswith("error: the package 'matplotlib' is not installed\n\nhint: ")
    assert fake_simulator == []


@pytest.mark.compile
@pytest.mark.execute
def test_a_real_run_is_drawn_and_adds_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    device = load_device("mi300x")
    assert run([*SMALL, "--json", "--sensitivity", "--plot", str(tmp_path)]) == 0
    document = document_from_json(json.loads(capsys.readouterr().out))
    chain, fused = document.rows
    stem = "rowwise-mi300x-tokens64-n512"
    names = {
        f"{stem}-{name}.{end}"
        for name in ("roofline", "traffic", "waterfall", "intervals")
        for end in ("png", "svg", "csv")
    }
    assert {path.name for path in tmp_path.iterdir()} == names

    def table(name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((tmp_path / f"{stem}-{name}.csv").open(encoding="utf-8", newline="")))

    first, *steps, last = table("waterfall")
    assert (float(first["end_us"]), float(last["end_us"])) == (chain.predicted_us, fused.predicted_us)
    change = sum(float(step["change_us"]) for step in steps)
    assert change == pytest.approx((fused.predicted_us or 0) - (chain.predicted_us or 0), abs=1e-9)
    # Three launches less, each of which follows another at once; the first waits for the host or for its kernel.
    launches = next(step for step in steps if step["terms"] == "launch")
    assert float(launches["change_us"]) == pytest.approx(-3 * device.launch.back_to_back_us, abs=0.2)
    hbm = [row for row in table("traffic") if row["level"] == "hbm"]
    assert [(float(row["read_bytes"]), float(row["write_bytes"])) for row in hbm] == [
        (row.hbm_read_bytes, row.hbm_write_bytes) for row in (chain, fused)
    ]
    assert document.sensitivity is not None
    for row, entry in zip(document.rows, document.sensitivity, strict=True):
        assert (entry.variant, entry.predicted_us) == (row.variant, row.predicted_us)
        constants = {effect.constant: effect for effect in entry.constants}
        alone = constants["launch.alone_us"]
        assert (alone.value, alone.kind, alone.unit) == (device.launch.alone_us, "measured", "us")
        # It shifts the time of such short kernels by as much as it moves itself.
        assert alone.high_us - (row.predicted_us or 0) == pytest.approx((alone.high or 0) - alone.value, abs=0.1)
        spreads = [abs(effect.high_us - effect.low_us) for effect in entry.constants]
        assert spreads == sorted(spreads, reverse=True)
    # The chain pays for three launches that follow one another, the fused kernel for none.
    chained = {effect.constant: effect for effect in document.sensitivity[0].constants}["launch.back_to_back_us"]
    assert chained.high_us - chained.low_us == pytest.approx(3 * ((chained.high or 0) - (chained.low or 0)))
    assert "launch.back_to_back_us" not in {effect.constant for effect in document.sensitivity[1].constants}


@pytest.mark.compile
@pytest.mark.execute
def test_the_terms_of_every_launch_make_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from wavecast.cli.experiments.catalogue import EXPERIMENTS
    from wavecast.cli.prediction import Case, predict_variant

    shape = {"experts": 1, "k": 128, "n": 256}
    case = Case(EXPERIMENTS["weight-transpose"], shape, "mi355x", ("atomic-acq-rel",))
    row, prediction = predict_variant(case, "atomic-acq-rel")
    combine = simulate.combined_us("mi355x")
    assert [combine(launch.terms) for launch in prediction.launches] == [
        launch.predicted_us for launch in prediction.launches
    ]
    assert sum(launch.predicted_us for launch in prediction.launches) == row.predicted_us
    assert sum(launch.release_fences for launch in prediction.launches) == row.fence_release
    assert all(launch.vector_ops == 64 * launch.instructions for launch in prediction.launches)
    assert all(launch.bytes.asked_atomic for launch in prediction.launches if launch.atomic_requests)


@pytest.mark.compile
@pytest.mark.execute
def test_the_table_of_constants_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--sensitivity"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("separate-kernels, ") and line.endswith("what decides it") for line in lines)
    alone = load_device("mi300x").quantities["launch.alone_us"]
    shown = ["launch.alone_us", f"{alone.value:g}", f"{alone.low:g}–{alone.high:g}", "us"]
    assert any(line.split()[:4] == shown for line in lines)
    assert any(line.endswith("constants that move it by less than 1 %") for line in lines)
    assert run([*SMALL, "--sensitivity", "--wide"]) == 0
    assert "sarchlab/mgpusim" in capsys.readouterr().out
