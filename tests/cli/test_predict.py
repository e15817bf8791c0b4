from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wavecast.cli.app import run
from wavecast.cli.errors import CliError
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.cli.prediction import Case, Outcome
from wavecast.cli.records import freeze, record_from_json
from wavecast.cli.rows import Row, document_from_json


def rows_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[Row, ...]:
    assert run(["predict", "--json", "--jobs", "1", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return document_from_json(json.loads(captured.out)).rows


def test_rows_of_an_experiment(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(["colwise-per-group"], capsys)
    assert [(row.variant, row.shape["n"]) for row in rows] == [
        (variant, n)
        for n in (2048, 7168)
        for variant in ("byte-stores", "vector-two-pass", "fused-single-pass", "wavecast")
    ]
    first, _, third, last = rows[:4]
    assert (first.speedup, first.published_us, first.error_percent) == (1.0, 785, pytest.approx(100 * (800 / 785 - 1)))
    assert (third.speedup, third.speedup_published) == (pytest.approx(800 / 120), pytest.approx(785 / 136))
    assert (last.speedup, last.published_us, last.error_percent) == (8.0, None, None)
    assert last.minimum_bytes == 3 * 32768 * 2048 + 32 * (8 * 2048 + 4)
    assert (last.device, last.spec, last.path, last.launches) == ("mi300x", "mi300x-0", "triton", 2)


def test_published_times_are_only_for_their_own_shape_and_device(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--shape", "tokens=4096,n=2048"], ["--device", "mi355x"]):
        rows = rows_of(["colwise-per-group", *arguments], capsys)
        assert all(row.published_us is None for row in rows)
    assert rows[0].device == "mi355x"


def test_rows_say_what_the_caches_hold_before(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Dirty as do_bench left them where times were published, for all variants; clean in what measure completes."""
    for arguments, caches in (([], "dirty"), (["--device", "mi355x"], "clean"), (["--freeze", str(tmp_path)], "clean")):
        assert run(["predict", "--json", "--jobs", "1", "colwise-per-group", *arguments]) == 0
        rows = document_from_json(json.loads(capsys.readouterr().out)).rows
        assert {row.caches for row in rows} == {caches}


def test_one_variant_comes_with_its_baseline(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(["colwise-per-group", "--variant", "wavecast", "--shape", "groups=4"], capsys)
    assert [row.variant for row in rows] == ["byte-stores", "wavecast"]
    assert rows[0].shape == {"tokens": 32768, "n": 2048, "groups": 4}
    assert rows[1].speedup == 8.0


def test_every_shape_that_is_named_is_predicted_once(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--shape", "n=64", "--shape", "n=128,tokens=512", "--shape", "n=64"]
    rows = rows_of(["colwise-per-group", "--variant", "wavecast", *named], capsys)
    assert [(row.shape["n"], row.shape["tokens"]) for row in rows[::2]] == [(64, 32768), (128, 512)]


def test_table(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--jobs", "1", "colwise-per-group", "--shape", "n=2048"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out
    lines = [line.rstrip() for line in captured.out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[:2] == [
        "colwise-per-group  tokens=32768 n=2048 groups=32",
        "mi300x (gfx942), bf16 -> bf16, Triton 3.7.1, caches dirty",
    ]
    (fused,) = [line.split() for line in lines if line.startswith("fused-single-pass ")]
    assert fused == ["fused-single-pass", "2", "120", "108–144", "6.67×", "136", "5.77×", "-11.8", "hbm"]
    assert "fused-single-pass: fused-single-pass has its cause." in lines
    assert any(line.startswith("published: pytorch/ao#4113") for line in lines)


def test_catalogue_is_listed(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["rowwise", "yes", "mi300x", "2", "separate-kernels,", "wavecast"] in lines
    assert ["scaled-gemm", "--all", "mi300x", "2", "wavecast"] in lines
    assert run(["predict", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "wavecast.catalogue/1"
    assert [item["name"] for item in document["experiments"]] == list(EXPERIMENTS)
    assert fake_simulator == []


def test_without_names_the_default_set_runs_and_with_all_everything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def remember(cases: Sequence[Case], **_: object) -> Iterator[Outcome]:
        asked.extend(dict.fromkeys(case.experiment.name for case in cases))
        return iter(())

    monkeypatch.setattr("wavecast.cli.prediction.predict_cases", remember)
    assert run(["predict"]) == 0
    assert asked == [name for name, item in EXPERIMENTS.items() if item.by_default]
    asked.clear()
    assert run(["predict", "--all"]) == 0
    assert asked == list(EXPERIMENTS)
    assert run(["predict", "--all", "rowwise"]) == 2
    assert capsys.readouterr().err.startswith("error: --all and rowwise\n\nhint: ")


def test_published_times_of_other_code_are_a_line_of_their_own(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "--jobs", "1", "scaled-gemm"]) == 0
    out = capsys.readouterr().out
    assert out.count("published: FBGEMM, CK row-wise, 558 µs") == 1  # on the shape that it was published for


def test_a_failing_experiment_does_not_hide_the_others(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "--jobs", "1", "rowwise", "colwise-per-group"]) == 1
    captured = capsys.readouterr()
    assert "byte-stores" in captured.out
    assert captured.err == "error: separate-kernels does not run\n\nhint: take another\n"
    # The variant that runs is shown without the speedup that the baseline would have given.
    ours = [line for line in captured.out.splitlines() if line.startswith("wavecast ")]
    assert ours[0].split()[:5] == ["wavecast", "2", "100", "90.0–120", "–"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["colwise"], "no experiment is called 'colwise'", "did you mean 'colwise-per-group'? possible: fnuz, "),
        (["rowwise", "--device", "mi30x"], "no device is called 'mi30x'", "did you mean 'mi300x'?"),
        (["rowwise", "--variant", "ours"], "no variant of rowwise is called 'ours'", "separate-kernels, wavecast"),
        (["rowwise", "--shape", "m=5"], "no size of rowwise is called 'm'", "possible: tokens, n"),
        (["rowwise", "--shape", "n=-5"], "n='-5' is no size", "positive whole number"),
        (["rowwise", "--shape", "n"], "n='' is no size", "positive whole number"),
        (["rowwise", "--shape", "n=8,n=9"], "n is given twice, 8 and 9", "name every size once"),
        (["rowwise", "--check"], "--check, and no file to check a kernel of", "run SCRIPT.py --check"),
    ],
)
def test_misuse(
    arguments: list[str], message: str, hint: str, fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert hint in captured.err.split("\n\nhint: ")[1]
    assert fake_simulator == []


def test_missing_package_is_not_possible_here(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("wavecast.cli.experiments.colwise_per_group.lazy_bf16", missing)
    assert run(["predict", "--jobs", "1", "colwise-per-group", "--shape", "n=64"]) == 3
    assert capsys.readouterr().err.startswith("error: the package 'torch' is not installed\n\nhint: ")


def test_what_an_operator_refuses_is_misuse(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("n is 64; wanted is 128; pad it")

    monkeypatch.setattr("wavecast.cli.experiments.colwise_per_group.lazy_bf16", refuse)
    assert run(["predict", "--jobs", "1", "colwise-per-group", "--shape", "n=64"]) == 2
    assert capsys.readouterr().err == "error: n is 64; wanted is 128; pad it\n"


def test_freeze_writes_records_once(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = rows_of(["colwise-per-group"], capsys)
    day = datetime.date(2026, 1, 2)
    (path,) = freeze(rows, directory=tmp_path / "records", date=day)
    assert path.name == "2026-01-02-colwise-per-group-mi300x-triton3.7.1.json"
    record = record_from_json(json.loads(path.read_text()))
    assert (record.date, record.machine, record.spread, record.rows) == (day, None, None, rows)
    with pytest.raises(CliError, match="not overwritten"):
        freeze(rows, directory=tmp_path / "records", date=day)


def test_an_experiment_named_twice_is_predicted_once(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(rows_of(["colwise-per-group", "colwise-per-group", "--shape", "n=64"], capsys)) == 4


def test_where_a_record_cannot_be_written_nothing_is_predicted(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        assert run(["predict", "--jobs", "1", "colwise-per-group", "--freeze", str(tmp_path / place)]) == 2
        assert f"{tmp_path / 'file'} is a file\n\nhint: " in capsys.readouterr().err
    assert fake_simulator == []


def test_a_record_that_exists_is_found_before_anything_is_predicted(
    fake_simulator: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wavecast.cli.doctor.package_version", lambda name: "3.7.1")
    arguments = ["predict", "--jobs", "1", "colwise-per-group", "--freeze", str(tmp_path)]
    assert run(arguments) == 0
    fake_simulator.clear()
    assert run(arguments) == 1
    assert "not overwritten" in capsys.readouterr().err
    assert fake_simulator == []


def test_a_tensor_that_no_machine_has_room_for(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for tokens in (10**15, 10**30):
        assert run(["predict", "--jobs", "1", "colwise-per-group", "--shape", f"tokens={tokens},n=64"]) == 1
        error, hint = capsys.readouterr().err.split("\n\nhint: ")
        assert error == f"error: no room for a bf16 tensor of {tokens} x 64: {128 * tokens:,} bytes"
        assert hint == "give smaller sizes\n"


def test_an_experiment_that_fails_in_part_is_not_frozen(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["predict", "--jobs", "1", "rowwise", "colwise-per-group", "--freeze", str(tmp_path)]) == 1
    (path,) = tmp_path.iterdir()
    assert "colwise-per-group" in path.name
    assert f"wrote {path}" in capsys.readouterr().err


def test_no_room_for_what_an_operator_makes(
    fake_simulator: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    # More bytes than an address can name; torch finds out by asking for them.
    monkeypatch.setattr("wavecast.cli.experiments.colwise_per_group.lazy_bf16", lambda *_: torch.empty(2**58))
    assert run(["predict", "--jobs", "1", "colwise-per-group", "--shape", "n=64"]) == 1
    assert (
        capsys.readouterr().err
        == "error: no room for the tensors that the operator makes\n\nhint: give smaller sizes\n"
    )
