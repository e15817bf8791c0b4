"""``async-tp`` and ``matmul-reduce-scatter``: predicted from the streams of several GPUs."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from wavecast.cli.errors import CliError
from wavecast.cli.experiments.async_tp import EXPERIMENT, SCATTER, gather_schedule, wavecast_program, wavecast_scatter
from wavecast.cli.output import significant
from wavecast.cli.plots import files
from wavecast.cli.prediction import Case, predict_cases
from wavecast.cli.rows import Row
from wavecast.cli.schedules import fastest_line, predict_schedule
from wavecast.simulator.devices import load_device
from wavecast.simulator.overlap.node import Node
from wavecast.simulator.overlap.practice import Product
from wavecast.simulator.overlap.program import CopyLike, KernelLike, Program, Stream, WriteSignalLike

SMALL = {"m": 4096, "n": 1024, "k": 512, "ranks": 2}
LARGE = {"m": 8192, "n": 8192, "k": 8192, "ranks": 2}


def test_a_row_says_what_is_exposed_and_why() -> None:
    row, prediction = predict_schedule(EXPERIMENT, "decomposed", shape=LARGE, device="h200")
    assert (row.ranks, row.path, row.triton) == (2, "schedule", None)
    assert row.predicted_low_us is not None and row.predicted_us is not None and row.predicted_high_us is not None
    assert row.predicted_low_us < row.predicted_us < row.predicted_high_us
    assert row.exposed_us is not None
    assert 0 < row.exposed_us < row.predicted_us
    assert row.cause is not None
    assert row.cause.startswith("hides")
    assert any(effect.constant.startswith("link.") for effect in prediction.sensitivity)
    assert prediction.timeline is not None
    assert prediction.timeline.total_us == row.predicted_us


@pytest.mark.parametrize(
    ("shape", "device", "says"),
    [
        (LARGE, "h200", "best: decomposed, "),
        (SMALL, "h200", "best: decomposed, but no more than sequence within what runs differ by: about 1.0×"),
        ({**SMALL, "ranks": 4}, "mi300x", "best: sequence; overlapping gains nothing here"),
    ],
)
def test_the_large_product_gains_and_the_small_one_does_not(shape: dict[str, int], device: str, says: str) -> None:
    case = Case(EXPERIMENT, shape, device, ("sequence", "decomposed"))
    (outcome,) = predict_cases([case], jobs=1, done=lambda name: None)
    assert not outcome.errors
    best = fastest_line(outcome.rows, significant)
    assert best is not None
    assert best.startswith(says)
    assert ("times as fast as sequence: hides" in best) == (shape is LARGE)


def test_our_path_fetches_from_all_peers_of_a_mesh_at_once_and_visits_rows_as_they_arrive() -> None:
    node = Node(load_device("mi300x"), 4)
    program = wavecast_program(Product(8192, 3584, 4096), node)
    streams = {stream.name: stream.operations for stream in program.streams if stream.rank == 1}
    fetches = [streams[name] for name in ("fetch", "fetch 2", "fetch 3")]
    for operations, source in zip(fetches, (2, 3, 0), strict=True):
        copies = [entry for entry in operations if isinstance(entry, CopyLike)]
        assert {(copy.source_rank, copy.target_rank, copy.engine) for copy in copies} == {(source, 1, "fetcher")}
        assert [copy.size_bytes for copy in copies] == [512 * 4096 * 2] * 4
        written = [entry.signal for entry in operations if isinstance(entry, WriteSignalLike)]
        assert written == [4 * source + part for part in range(4)]
    (kernel,) = [entry for entry in streams["compute"] if isinstance(entry, KernelLike)]
    awaited = list(dict.fromkeys(kernel.tile_waits))
    assert awaited == [None, 8, 12, 0, 9, 13, 1, 10, 14, 2, 11, 15, 3]
    assert {kernel.tile_waits.count(signal) for signal in awaited[1:]} == {len(kernel.tile_waits) // 16}
    assert kernel.workgroups == 304
    assert kernel.late_workgroups == ((11, 8), (15, 8), (3, 8))  # when the last rows of their peer are there


def test_over_a_switch_our_path_fetches_one_chunk_after_another() -> None:
    program = wavecast_program(Product(8192, 3584, 4096), Node(load_device("h200"), 4))
    streams = {stream.name: stream.operations for stream in program.streams if stream.rank == 1}
    copies = [entry for entry in streams["fetch"] if isinstance(entry, CopyLike)]
    assert [copy.source_rank for copy in copies] == [2, 3, 0]
    (kernel,) = [entry for entry in streams["compute"] if isinstance(entry, KernelLike)]
    assert list(dict.fromkeys(kernel.tile_waits)) == [None, 2, 3, 0]


@pytest.mark.parametrize(("m", "streams"), [(1024, ["compute", "fetch"]), (16384, ["compute", "local", "fetch"])])
def test_our_path_publishes_in_one_launch_and_ends_without_a_barrier(m: int, streams: list[str]) -> None:
    """Few rows are copied to the gathered matrix there too; many beside it, as soon as the caller has them."""
    product = Product(m, 1024, 4096, "bf16", 2)
    program = wavecast_program(product, Node(load_device("h200"), 2), engine="copy-engine")
    mine = [stream for stream in program.streams if stream.rank == 0]
    found = {stream.name: [operation.kind for operation in stream.operations] for stream in mine}
    assert list(found) == streams
    waits = ["wait-event"] * (len(streams) - 1)
    before = ["record"] if "local" in streams else []
    assert found["compute"] == [*before, "barrier", "record", "kernel", *waits]
    if before:
        assert found["local"] == ["wait-event", "copy", "record"]
    (publish,) = [o for o in program.streams[0].operations if o.kind == "barrier"]
    assert getattr(publish, "copied_bytes", 0) == product.gathered_bytes // 2 * (1 if before else 2)
    scatter = wavecast_scatter(product, Node(load_device("h200"), 2))
    assert [operation.kind for operation in scatter.streams[0].operations] == ["barrier", "kernel"]


def test_transports_are_compared() -> None:
    row, _ = predict_schedule(EXPERIMENT, "wavecast", shape={**SMALL, "ranks": 4}, device="mi300x")
    assert row.cause is not None
    ways = row.cause.partition("transports: ")[2]
    for name in ("copy-engine", "blit", "fetcher"):
        assert f"{name} " in ways
    assert "24 workgroups fetch before they multiply" in row.cause
    assert "fetcher with 1 signal a chunk " in ways  # the plan has 4 of 256 rows
    assert "fetcher with 4 signals" not in ways
    assert "fetcher with 8 signals" not in ways


def test_our_reduce_scatter_computes_the_others_parts_first_and_its_own_waits_for_the_last_to_come() -> None:
    node = Node(load_device("h200"), 4)
    program = wavecast_scatter(Product(8192, 4096, 4096), node)
    streams = {stream.name: stream.operations for stream in program.streams if stream.rank == 1}
    kernel = streams["compute"][1]
    assert isinstance(kernel, KernelLike)
    part = len(kernel.tile_waits) // 4
    assert kernel.tile_waits == (None,) * 3 * part + (0,) * part
    targets = [entry.target_rank for entry in streams["stores"] if isinstance(entry, CopyLike)]
    assert list(dict.fromkeys(targets)) == [0, 3, 2]
    sent = sum(entry.size_bytes for entry in streams["stores"] if isinstance(entry, CopyLike))
    assert sent == 3 * 2048 * 4096 * 4
    row, _ = predict_schedule(SCATTER, "wavecast", shape=LARGE, device="h200")
    sequence, _ = predict_schedule(SCATTER, "sequence", shape=LARGE, device="h200")
    assert row.predicted_us is not None and sequence.predicted_us is not None
    assert row.predicted_us < sequence.predicted_us


def test_our_reduce_scatter_writes_to_all_peers_of_a_mesh_in_turns() -> None:
    program = wavecast_scatter(Product(8192, 4096, 4096), Node(load_device("mi300x"), 4))
    streams = {stream.name: stream.operations for stream in program.streams if stream.rank == 1}
    pushes = [streams[name] for name in ("stores", "stores 2", "stores 3")]
    targets = [{entry.target_rank for entry in push if isinstance(entry, CopyLike)} for push in pushes]
    assert targets == [{0}, {3}, {2}]
    kernel = streams["compute"][1]
    assert isinstance(kernel, KernelLike)
    assert kernel.tile_waits.count(0) == len(kernel.tile_waits) // 4
    ready = [tiles for tiles, _ in kernel.tile_signals]
    assert ready[:16] == ready[16:32] == ready[32:]
    assert ready[15] == len(kernel.tile_waits) * 3 // 4


def test_reduce_scatter_is_predicted_too() -> None:
    row, _ = predict_schedule(SCATTER, "decomposed", shape=SMALL, device="mi355x")
    assert row.predicted_us is not None
    assert row.exposed_us is not None


def test_a_schedule_that_never_ends_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    shape = {"m": 4096, "n": 1024, "k": 512, "ranks": 2}
    schedule = gather_schedule("native-upstream", shape, "mi300x")
    alike = [Stream(stream.rank, stream.name, 0, tuple(stream.operations)) for stream in schedule.program.streams]
    program = Program("one queue", 2, tuple(alike))
    stuck = replace(schedule, program=program, node=replace(schedule.node, hardware_queues=1))
    experiment = replace(EXPERIMENT, schedule=lambda *_: stuck)
    with pytest.raises(CliError, match="deadlock after") as refused:
        predict_schedule(experiment, "native-upstream", shape=shape, device="mi300x")
    assert "2 hardware queues instead of 1" in refused.value.hint


def test_what_a_device_or_shape_cannot_is_said() -> None:
    with pytest.raises(CliError, match="nothing of links"):
        predict_schedule(EXPERIMENT, "sequence", shape=SMALL, device="mi300a")
    with pytest.raises(CliError, match="do not divide by 3"):
        predict_schedule(EXPERIMENT, "wavecast", shape={**SMALL, "ranks": 3}, device="mi300x")
    with pytest.raises(CliError, match="calls no operator in one process"):
        EXPERIMENT.operands("sequence").make_inputs(SMALL)


def test_pictures_have_every_operation_and_a_trace_for_each_variant(tmp_path: Path) -> None:
    case = Case(EXPERIMENT, SMALL, "h200", ("sequence", "decomposed"))
    outcomes = list(predict_cases([case], jobs=1, done=lambda name: None))
    written = files.write([case], outcomes, directory=tmp_path)
    names = {path.name for path in written}
    stem = "async-tp-h200-m4096-n1024-k512-ranks2"
    assert {f"{stem}-timeline.{end}" for end in ("png", "svg", "csv")} <= names
    assert f"{stem}-decomposed.trace.json" in names
    assert not any("roofline" in name for name in names)
    with (tmp_path / f"{stem}-timeline.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bars = [prediction.timeline.bars for prediction in outcomes[0].predictions if prediction.timeline]
    assert len(rows) == sum(map(len, bars))
    assert max(float(row["end_us"]) for row in rows if row["variant"] == "B decomposed") == pytest.approx(
        outcomes[0].rows[1].predicted_us
    )
    trace = json.loads((tmp_path / f"{stem}-decomposed.trace.json").read_text(encoding="utf-8"))
    assert trace["otherData"] == {"program": "async-tp decomposed"}


def test_nothing_to_choose_from_is_no_line() -> None:
    row = Row("async-tp", "wavecast", "sequence", "h200", "sm_90", predicted_us=1.0)
    assert fastest_line([row], significant) is None
