"""What stands behind each picture is exact."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace

import pytest

from wavecast.cli import simulate
from wavecast.cli.launches import LaunchFacts
from wavecast.cli.plots import intervals, roofline, traffic, waterfall
from wavecast.cli.plots.comparison import Comparison, compare
from wavecast.cli.plots.mechanisms import MECHANISMS
from wavecast.cli.plots.picture import Table, amount, count

COMBINE = simulate.combined_us("mi300x")


def test_the_waterfall_leads_from_the_baseline_to_the_best(three_variants: Comparison) -> None:
    found = waterfall.waterfall(three_variants, COMBINE)
    assert isinstance(found, waterfall.Waterfall)
    assert (found.baseline.key, found.best.key) == ("A", "C")
    assert found.steps[0].start_us == found.baseline.time_us
    assert [step.start_us for step in found.steps[1:]] == [step.end_us for step in found.steps[:-1]]
    assert found.steps[-1].end_us == pytest.approx(found.best.time_us, abs=1e-9)
    assert sum(step.change_us for step in found.steps) == pytest.approx(
        found.best.time_us - found.baseline.time_us, abs=1e-9
    )


def test_a_waterfall_names_the_mechanism_and_what_was_counted(three_variants: Comparison) -> None:
    found = waterfall.waterfall(three_variants, COMBINE)
    assert isinstance(found, waterfall.Waterfall)
    first = found.steps[0]
    assert (first.label, first.terms, first.unit) == ("L2 requests", ("l2",), "requests")
    assert (first.before, first.after) == (7.1e7, 2e6)
    # 400 µs of requests become 12, beside 110 µs of other work that they hid.
    assert -400 < first.change_us < -250


def test_a_removed_launch_gains_its_launch_and_its_bytes(
    launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison]
) -> None:
    first, second = launch(launch=5.2, hbm=50.0), launch(launch=1.7, hbm=40.0)
    found = waterfall.waterfall(comparison({"two": (first, second), "one": (first,)}), COMBINE)
    assert isinstance(found, waterfall.Waterfall)
    steps = {step.label: step for step in found.steps}
    assert steps["HBM bytes"].change_us == pytest.approx(-40.0)
    assert (steps["HBM bytes"].before, steps["HBM bytes"].after) == (440e6, 220e6)
    assert steps["launches"].change_us == pytest.approx(-1.7)
    assert (steps["launches"].before, steps["launches"].after) == (2, 1)


def test_what_becomes_slower_is_a_cost(
    launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison]
) -> None:
    cases = {"before": (launch(launch=5.0, l2=100.0),), "after": (launch(launch=9.0, l2=10.0),)}
    found = waterfall.waterfall(comparison(cases), COMBINE)
    assert isinstance(found, waterfall.Waterfall)
    assert [(step.label, step.change_us) for step in found.steps] == [
        ("L2 requests", pytest.approx(-90)),
        ("launches", pytest.approx(4.0)),
    ]


def test_small_steps_are_one(launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison]) -> None:
    cases = {
        "before": (launch(l2=100.0, launch=1.0, overlap=0.5, write_back=0.5),),
        "after": (launch(l2=10.0, launch=0.5),),
    }
    found = waterfall.waterfall(comparison(cases), COMBINE)
    assert isinstance(found, waterfall.Waterfall)
    assert [step.label for step in found.steps] == ["L2 requests", "3 others, each below 1 %"]
    assert set(found.steps[1].terms) == {"launch", "overlap", "write-back"}


def test_why_there_is_no_waterfall(
    launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison], three_variants: Comparison
) -> None:
    one = launch(hbm=50.0)
    assert waterfall.waterfall(comparison({"a": (one,)}), COMBINE) == "there is one variant only"
    assert waterfall.waterfall(comparison({"a": (one,), "b": (one,)}), COMBINE) == "the terms of a and b are the same"
    without = replace(three_variants, variants=three_variants.variants[1:])
    assert waterfall.waterfall(without, COMBINE) == "the baseline was not predicted"
    unknown = comparison({"a": (one,), "b": (one,)})
    variants = tuple(replace(item, prediction=replace(item.prediction, launches=())) for item in unknown.variants)
    assert waterfall.waterfall(replace(unknown, variants=variants), COMBINE) == "the terms of the times are not known"


def test_every_term_has_a_name_for_readers() -> None:
    from wavecast.simulator.timing import Bound

    assert set(MECHANISMS) == {str(name) for name in Bound}


def test_a_term_without_a_name_for_readers_goes_by_its_own(
    launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison]
) -> None:
    def with_term(value: float) -> tuple[LaunchFacts]:
        return (replace(launch(), terms={"translation": value}, predicted_us=value),)

    cases = comparison({"a": with_term(30.0), "b": with_term(10.0)})
    found = waterfall.waterfall(cases, lambda terms: sum(terms.values()))
    assert isinstance(found, waterfall.Waterfall)
    assert [(step.label, step.change_us, step.before) for step in found.steps] == [("translation", -20.0, None)]


@pytest.mark.parametrize("device", ["mi300x", "mi325x", "mi355x", "mi300a"])
def test_ceilings_are_those_of_the_device_file(device: str) -> None:
    from wavecast.simulator.devices import load_device

    spec = load_device(device)
    bandwidths, rates = roofline.ceilings(simulate.device_facts(device))
    assert [item.value for item in bandwidths] == [spec.hbm.mixed_tb_s, spec.mall.mixed_tb_s, spec.l2.read_tb_s]
    # Types of one rate share a line.
    by_label = {label: item.value for item in rates for label in item.label.removeprefix("MFMA ").split(", ")}
    assert by_label["16-bit"] == pytest.approx(
        spec.matrix.f16 * spec.compute.num_cu * spec.compute.matrix_clock_ghz / 1e3
    )
    assert by_label["FP8"] == pytest.approx(
        spec.matrix.f8 * spec.compute.num_cu * spec.compute.matrix_clock_8bit_ghz / 1e3
    )
    # 304 compute units of 4 SIMDs with 16 lanes at 2.1 GHz are 40.9 · 10¹² lane operations a second on MI300X.
    lanes = spec.compute.num_cu * spec.compute.simd_per_cu * spec.compute.wave_lanes / spec.issue.valu_clk
    assert by_label["vector"] == pytest.approx(lanes * spec.compute.clock_ghz / 1e3)
    known = {item.key for item in simulate.device_facts(device).constants}
    named = {key.removeprefix("1 / ") for item in (*bandwidths, *rates) for key in item.constants}
    assert named <= known
    assert [item.value for item in rates] == sorted(item.value for item in rates)


def test_a_device_without_a_memory_side_cache_has_no_ceiling_for_it() -> None:
    facts = simulate.device_facts("mi300x")
    constants = tuple(item for item in facts.constants if not item.key.startswith("mall."))
    bandwidths, _ = roofline.ceilings(replace(facts, constants=constants))
    assert [item.level for item in bandwidths] == ["hbm", "l2"]


def test_types_of_one_rate_share_a_line() -> None:
    facts = simulate.device_facts("mi355x")
    same = {
        "matrix.f16": 4096,
        "matrix.f8": 4096,
        "compute.matrix_clock_ghz": 1.5,
        "compute.matrix_clock_8bit_ghz": 1.5,
    }
    constants = tuple(replace(item, value=same.get(item.key, item.value)) for item in facts.constants)
    _, rates = roofline.ceilings(replace(facts, constants=constants))
    assert [item.label for item in rates] == ["vector", "MFMA 16-bit, FP8", "MFMA MXFP8", "MFMA MXFP6/4"]


def test_a_point_is_operations_over_bytes_and_time(three_variants: Comparison) -> None:
    variant = three_variants.variants[1]
    points = {point.level: point for point in roofline.points(variant)}
    # Two launches of 1.5 · 10⁹ operations and 220, 400 and 600 MB at the three levels.
    assert {level: point.intensity for level, point in points.items()} == pytest.approx(
        {"hbm": 3e9 / 440e6, "mall": 3e9 / 800e6, "l2": 3e9 / 1200e6}
    )
    assert points["hbm"].rate == pytest.approx(3e9 / (variant.time_us * 1e-6) / 1e12)


def test_a_kernel_that_computes_nothing_has_no_point(
    launch: Callable[..., LaunchFacts], comparison: Callable[..., Comparison]
) -> None:
    idle = comparison({"a": (launch(hbm=5.0, counts={"vector_ops": 0.0}),)})
    assert roofline.roofline(idle) == "no variant moves bytes and computes"


def test_traffic_is_that_of_all_launches(three_variants: Comparison) -> None:
    asked, l2, mall, hbm = traffic.bars(three_variants.variants[1])
    assert (asked.read, asked.write, asked.atomic) == (520e6, 140e6, 20e6)
    assert (l2.read, l2.write, mall.read, mall.write, hbm.read, hbm.write) == (1e9, 2e8, 6e8, 2e8, 3e8, 1.4e8)
    assert hbm.times_minimum == pytest.approx(440 / 200)


def test_intervals_have_what_others_reported(three_variants: Comparison) -> None:
    found = intervals.intervals(replace(three_variants, elsewhere=(("FBGEMM", 558.0),)))
    first, *_, last = found.lines
    row = three_variants.variants[0].row
    assert (first.low, first.predicted, first.high) == (row.predicted_low_us, row.predicted_us, row.predicted_high_us)
    assert (first.name, first.measured, first.published) == ("A byte-stores", None, 500.0)
    assert (last.name, last.predicted, last.published) == ("FBGEMM", None, 558.0)


def test_names_of_files_tell_the_case(three_variants: Comparison) -> None:
    assert three_variants.stem == "rowwise-mi300x-tokens32768-n2048"
    assert three_variants.title == "rowwise on AMD Instinct MI300X: tokens 32,768, n 2,048"


def test_rows_without_a_time_are_left_out(three_variants: Comparison) -> None:
    rows = [item.row for item in three_variants.variants]
    predictions = [item.prediction for item in three_variants.variants]
    nothing = {"predicted_us": None, "predicted_low_us": None, "predicted_high_us": None, "error_percent": None}
    unknown = [replace(row, **nothing) for row in rows]
    assert compare(unknown, predictions, device=three_variants.device) is None
    found = compare([unknown[0], *rows[1:]], predictions, device=three_variants.device)
    assert found is not None
    assert [item.label for item in found.variants] == ["A two-kernels", "B wavecast"]


def test_a_table_survives_csv() -> None:
    table = Table.of(("name", "us"), [{"name": 'MFMA "8", 4', "us": 0.1 + 0.2}, {"name": "none"}])
    assert list(csv.reader(io.StringIO(table.csv()))) == [
        ["name", "us"],
        ['MFMA "8", 4', repr(0.1 + 0.2)],
        ["none", ""],
    ]


def test_counts_for_a_reader() -> None:
    assert [count(value) for value in (0, 7, 655_360, 999_600, 67_112_960, 2.41e11)] == [
        "0",
        "7",
        "655 k",
        "1 M",
        "67.1 M",
        "241 G",
    ]
    assert (amount(2.02e8, "B"), amount(0, "B"), amount(2e6, "requests")) == ("202 MB", "0 B", "2 M requests")
