from __future__ import annotations

import json
from pathlib import Path

import pytest

from wavecast.cli import operators, simulate
from wavecast.cli.app import run
from wavecast.cli.experiments.catalogue import EXPERIMENTS
from wavecast.simulator.devices import load_device

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/operators.md"


def tables_of(text: str) -> dict[str, list[list[str]]]:
    """Rows of each device's table, cells apart, heading first."""
    tables: dict[str, list[list[str]]] = {}
    for section in text.split("\n## ")[1:]:
        device, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line.startswith("|")]
        if lines:
            tables[device] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return tables


def expected_rows() -> list[tuple[str, str]]:
    """Operator and shape of every line, from the catalogue alone."""
    rows = []
    for name, experiment in EXPERIMENTS.items():
        if name in operators.NO_OPERATOR:
            continue
        variants = [f"{name} {variant}" for variant in experiment.variants] if experiment.other_operands else [name]
        sizes = [" × ".join(f"{value:,} {key}" for key, value in shape.items()) for shape in experiment.shapes]
        rows += [(variant, size) for size in sizes for variant in variants]
    return rows


def test_page_has_the_command_s_columns_devices_and_operators() -> None:
    text = PAGE.read_text()
    assert text.startswith(operators.HEAD)
    tables = tables_of(text)
    assert tuple(tables) == operators.DEVICES
    for heading, _, *rows in tables.values():
        assert tuple(heading) == operators.COLUMNS
        assert [(row[0], row[1]) for row in rows] == expected_rows()
        assert {len(row) for row in rows} == {len(operators.COLUMNS)}
    found = operators.remarks({device: rows for device, (_, _, *rows) in tables.items()})
    assert text.removeprefix(operators.HEAD).startswith("\n" + "\n".join(found) + "\n\n## mi300x")
    assert not [line for line in found if "not explained" in line]


def test_remarks_name_what_is_not_as_it_should_be() -> None:
    row = dict.fromkeys(operators.COLUMNS, "–") | {"operator": "tensorwise", "shape": "8 n"}
    good = row | {"× minimum": "1.05", "baseline µs": "9.9 old, 1.05×", "spill B": "0"}
    bad = row | {"× minimum": "1.41", "baseline µs": "9.9 old, 0.913×", "spill B": "92"}
    found = operators.remarks({"mi300x": [list(good.values()), list(bad.values()), list(row.values())]})
    assert [line.partition(" on mi300x: ")[2].partition(":")[0] for line in found] == [
        "1.41 times the minimum bytes",
        "slower than 9.9 old, 0.913×.",
        "92 bytes a lane are spilled.",
    ]
    assert operators.remarks({"mi300x": [list(good.values())]})[0].startswith("Nothing spills")


def test_entries_say_who_is_compared(fake_simulator: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operators", "colwise-per-group", "scaled-gemm", "--jobs", "1", "--markdown"]) == 0
    tables = tables_of(capsys.readouterr().out)
    cells = dict(zip(operators.COLUMNS, tables["mi300x"][2], strict=True))
    assert cells["shape"] == "32,768 tokens × 2,048 n × 32 groups"
    assert (cells["µs"], cells["baseline µs"]) == ("100", "800 byte-stores, 8.00×")
    assert cells["published µs"] == "785 byte-stores, 136 fused-single-pass"
    assert (cells["HBM MB"], cells["× minimum"]) == ("3.000", "0.01")
    assert (cells["VGPR"], cells["spill B"], cells["loads"]) == ("64", "–", "–")
    scaled = dict(zip(operators.COLUMNS, tables["mi300x"][4], strict=True))
    assert (scaled["operator"], scaled["baseline µs"]) == ("scaled-gemm", "–")
    assert scaled["published µs"] == "558 FBGEMM, CK row-wise"
    # Published times are of one device.
    assert {row[5] for row in tables["mi355x"][2:]} == {"–"}


def test_an_operator_on_several_types_has_a_line_for_each(
    fake_simulator: list[str], times_us: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    times_us |= {"bf16": 50.0, "fp8": 25.0}
    assert run(["operators", "grouped-gemm", "--jobs", "1", "--json", "--device", "mi300x"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "wavecast.operators/1"
    first, second = document["operators"][:2]
    assert (first["operator"], first["baseline_us"]) == ("grouped-gemm bf16", None)
    assert (second["operator"], second["baseline_us"], second["baseline"]) == ("grouped-gemm fp8", 50.0, "bf16")
    assert second["row"]["predicted_us"] == 25.0
    assert second["floor_us"] < first["floor_us"]


def test_what_fails_is_said_and_the_others_are_shown(
    fake_simulator: list[str], times_us: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    del times_us["wavecast"]
    arguments = ["operators", "rowwise", "colwise-per-group", "--jobs", "1", "--device", "mi300x", "--markdown"]
    assert run(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error: colwise-per-group: wavecast does not run\n\nhint: 4 of 4 failed")
    assert "| fails: wavecast does not run |" in captured.out


@pytest.mark.parametrize(
    ("words", "message"),
    [(["fnuz"], "no operator is called 'fnuz'"), (["--device", "h100"], "no device is called 'h100'")],
)
def test_misuse(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["operators", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_floor_is_a_launch_and_the_longest_of_bytes_operations_and_links() -> None:
    moving = simulate.floor_us("mi300x", minimum_bytes=4_110_000_000, flop=0, dtype="bf16")
    launch = moving - 1000  # mi300x copies 4.11 TB/s
    assert 1 < launch < 10
    fp8_flop = 4096 * 304 * 1_140_000  # a millisecond at the clock that FP8 sustains
    assert simulate.floor_us("mi300x", minimum_bytes=1, flop=fp8_flop, dtype="fp8") == pytest.approx(launch + 1000)
    bf16_flop = 2048 * 304 * 1_207_000
    assert simulate.floor_us("mi300x", minimum_bytes=1, flop=bf16_flop, dtype="bf16") == pytest.approx(launch + 1000)
    # What a launch costs alone beside its work is all there is of one that does next to nothing.
    assert simulate.floor_us("mi300x", minimum_bytes=1, flop=0, dtype="bf16") == load_device("mi300x").launch.alone_us
    # Seven links lead to seven other GPUs, one to one.
    for ranks in (8, 2):
        linked = simulate.floor_us(
            "mi300x", minimum_bytes=1, flop=0, dtype="bf16", linked_bytes=46_150_000 * (ranks - 1), ranks=ranks
        )
        assert linked == pytest.approx(launch + 1000, rel=0.02)
    # gfx950 multiplies FP8 fastest with the instructions for mixed formats.
    assert simulate.floor_us("mi355x", minimum_bytes=1, flop=fp8_flop, dtype="fp8") < launch + 1000


def test_the_floor_of_a_product_over_a_group_is_that_of_its_product_and_links() -> None:
    shape = {"m": 8192, "n": 7168, "k": 8192, "ranks": 2}
    for name, linked in (
        ("async-tp", 8192 * 8192),
        ("async-tp-fp8", 8192 * 8192 // 2),
        ("matmul-reduce-scatter", 8192 * 7168),
    ):
        experiment = EXPERIMENTS[name]
        assert experiment.flop is not None
        assert experiment.linked_bytes is not None
        assert experiment.flop(shape) == 2 * 8192 * 7168 * 8192
        assert experiment.linked_bytes(shape) == linked


@pytest.mark.execute
def test_widths_are_those_of_the_executed_accesses() -> None:
    experiment = EXPERIMENTS["blockwise"]
    inputs = experiment.make_inputs({"tokens": 128, "n": 256})
    found = simulate.predict_run(lambda: experiment.run("wavecast", inputs), device="mi300x", whole=True)
    assert sum(found.load_widths.values()) == pytest.approx(1)
    assert found.load_widths[16] > 0.95
    assert found.store_widths[8] > 0.95  # eight bf16 values are eight bytes of FP8
