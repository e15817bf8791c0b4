"""``inspect`` of what is launched: lines, their time and bytes, and two versions beside each other."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from wavecast.cli.app import run
from wavecast.cli.facts import InstructionCount, KernelFacts
from wavecast.cli.line_diff import DiffDocument, KernelDiff, diff_from_json
from wavecast.cli.line_times import (
    Costs,
    InspectDocument,
    Inspection,
    InstructionTime,
    KernelTimes,
    Line,
    Rest,
    document_from_json,
)
from wavecast.cli.schema import RowError

pytestmark = [pytest.mark.compile, pytest.mark.execute]

SCRIPT = """
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def spread(x_ptr, y_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + places)
    for time in tl.static_range(16):
        total += tl.load(y_ptr + (time * SIZE + places) * 16)  # slow
    tl.store(out_ptr + places, total)


x, y = torch.ones(16384, device="cuda"), torch.ones(16 * 16 * 16384, device="cuda")
out = torch.empty_like(x)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    spread[(64,)](x, y, out, 16384, BLOCK=256)
print("right" if (out == 17).all() else "wrong")
"""
LOAD, SLOW, STORE = 12, 14, 15
BYTES = 4 * 16384


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "spread.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def faster(script: Path) -> Path:
    path = script.with_name("faster.py")
    path.write_text("# one line more\n" + SCRIPT.replace("(time * SIZE + places) * 16", "time * SIZE + places"))
    return path


def document_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> InspectDocument:
    assert run(["inspect", "--json", *arguments]) == 0
    return document_from_json(json.loads(capsys.readouterr().out))


@pytest.fixture(scope="module")
def answer(script: Path) -> Any:
    """What is printed for the script, as JSON; made once."""
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["inspect", str(script), "--json"]) == 0
    return json.loads(printed.getvalue())


def line_at(document: InspectDocument, number: int) -> Line:
    times = document.kernels[0].times
    assert times is not None
    return next(line for line in times.lines if line.line == number)


def test_planted_slow_line_is_the_top_line(answer: Any) -> None:
    document = document_from_json(answer)
    times = document.kernels[0].times
    assert times is not None
    top = max(times.lines, key=lambda line: line.share_percent)
    assert (top.line, top.file, top.text) == (SLOW, "spread.py", SCRIPT.splitlines()[SLOW - 1])
    assert top.coalescing_efficiency == 4 / 64
    assert top.costs.asked_bytes == 16 * BYTES
    # A line of 128 bytes for every two lanes.
    assert top.costs.moved_bytes == 16 * 16 * BYTES
    load = line_at(document, LOAD)
    assert load.coalescing_efficiency == 1
    assert load.costs.asked_bytes == load.costs.moved_bytes == BYTES


def test_lines_and_rest_are_the_whole_time_and_lines_all_their_instructions(answer: Any) -> None:
    times = document_from_json(answer).kernels[0].times
    assert times is not None
    parts = [*(line.costs.time_us for line in times.lines), *(item.time_us for item in times.rest)]
    assert math.isclose(sum(parts), times.predicted_us)
    shares = [*(line.share_percent for line in times.lines), *(item.share_percent for item in times.rest)]
    assert math.isclose(sum(shares), 100)
    assert times.costs.asked_bytes == (1 + 16 + 1) * BYTES
    assert {"launch cost", "start of the waves"} <= {item.name for item in times.rest}
    instructions = [item for line in times.lines for item in line.instructions]
    assert sum(item.executed for item in instructions) == sum(times.executed.values())
    for name in (item.name for item in fields(Costs)):
        assert math.isclose(sum(getattr(item.costs, name) for item in instructions), getattr(times.costs, name))


def test_time_is_that_of_a_run(answer: Any, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(script), "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    times = answer["kernels"][0]["times"]
    assert times["predicted_us"] == pytest.approx(kernel["predicted_us"])
    assert times["hbm_read_bytes"] == kernel["hbm_read_bytes"]
    assert times["coalescing_efficiency"] == pytest.approx(kernel["coalescing_efficiency"])


def test_launches_of_a_script_are_summed(answer: Any, script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once, times = document_from_json(answer), document_of(capsys, str(script), "--", "3").kernels[0].times
    assert times is not None
    assert times.launches == 3
    assert times.costs.asked_bytes == 3 * (1 + 16 + 1) * BYTES
    assert line_at(once, SLOW).costs.asked_bytes * 3 == sum(
        line.costs.asked_bytes for line in times.lines if line.line == SLOW
    )


def changed(answer: Any, path: str, value: Any) -> Any:
    document = copy.deepcopy(answer)
    *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = document
    for key in keys:
        place = place[key]
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", "wavecast.inspect/1", "is not known"),
        ("kernels.0.facts.vgpr", "12", "KernelFacts.vgpr is '12'"),
        ("kernels.0.times.predicted_us", 1.0, "lines and rest take"),
        ("kernels.0.times.lines.0.costs.asked_bytes", 1, "the costs are not those of its instructions"),
        ("kernels.0.times.lines.0.share_percent", 50.0, "the shares add up to"),
        ("kernels.0.times.more", 1, "missing or unknown keys: more"),
    ],
)
def test_document_that_does_not_follow_its_schema(answer: Any, path: str, value: Any, message: str) -> None:
    with pytest.raises(RowError, match=message):
        document_from_json(changed(answer, path, value))


def test_every_key_is_documented(root: Path) -> None:
    page = (root / "docs/reference/inspect.md").read_text()
    inspected = (InspectDocument, Inspection, KernelFacts, InstructionCount, KernelTimes, Line, InstructionTime, Costs)
    schemas = (*inspected, Rest, DiffDocument, KernelDiff)
    missing = [item.name for schema in schemas for item in fields(schema) if f"| `{item.name}` |" not in page]
    assert not missing


def test_table_is_readable_at_80_columns(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(script), "--top", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "right\n"
    lines = [line.rstrip() for line in captured.out.splitlines()]
    assert max(map(len, lines)) <= 80
    shown = next(line for line in lines if "# slow" in line or "y_ptr" in line)
    assert f" {SLOW} " in shown
    assert not any("tl.store" in line for line in lines)
    assert any(line.endswith("other lines)") for line in lines)
    assert any(line.startswith("100.0") for line in lines)


def test_one_line_with_its_instructions(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(script), "--line", f"spread.py:{STORE}", "--wide"]) == 0
    out = capsys.readouterr().out
    assert "_store_" in out
    assert "  buffer_load_" not in out
    assert "  global_load_" not in out
    assert SCRIPT.splitlines()[STORE - 1].strip() in out


def test_unknown_line_names_those_that_are(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(script), "--line", "2"]) == 2
    error = capsys.readouterr().err
    assert "error: no executed instruction is of line 2\n\nhint: lines with some: spread.py:" in error
    assert f"spread.py:{STORE}" in error


def test_diff_pairs_lines_by_their_text(
    script: Path, faster: Path, answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(script), "--diff", str(faster), "--json"]) == 0
    document = diff_from_json(json.loads(capsys.readouterr().out))
    (kernel,) = document.kernels
    assert kernel.before is not None
    assert kernel.after is not None
    before, after = kernel.before.times, kernel.after.times
    assert before is not None
    assert after is not None
    assert before.predicted_us == pytest.approx(answer["kernels"][0]["times"]["predicted_us"])
    numbers = {
        (one if one is None else before.lines[one].line, other if other is None else after.lines[other].line)
        for one, other in kernel.lines
    }
    assert {(LOAD, LOAD + 1), (SLOW, SLOW + 1), (STORE, STORE + 1)} <= numbers
    assert after.coalescing_efficiency == 1
    assert after.predicted_us < before.predicted_us


def test_diff_shows_what_changed(script: Path, faster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(script), "--diff", str(faster)]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    slow = next(line for line in lines if "total +=" in line)
    assert f" {SLOW} " in slow
    assert f" {SLOW + 1} ~" in slow
    assert any(line.endswith("µs predicted") for line in lines)
    assert any(line.endswith("% coalescing efficiency") for line in lines)


def test_variants_of_an_experiment_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["weight-transpose", "--shape", "experts=1,k=256,n=256", "--variant", "atomic-acq-rel"]
    assert run(["inspect", *arguments, "--diff", "atomic-relaxed", "--json"]) == 0
    document = diff_from_json(json.loads(capsys.readouterr().out))
    assert (document.before, document.after) == ("atomic-acq-rel", "atomic-relaxed")
    fences = [
        [side.times.costs.fence_release for item in document.kernels if (side := getattr(item, name)) and side.times]
        for name in ("before", "after")
    ]
    assert sum(fences[0]) > 0
    assert sum(fences[1]) == 0


def test_longest_kernels_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["weight-transpose", "--shape", "experts=1,k=256,n=256", "--variant", "atomic-relaxed"]
    assert run(["inspect", *arguments, "--diff", "wavecast"]) == 0
    assert "\nall kernels: atomic-relaxed " in capsys.readouterr().out
    assert run(["inspect", *arguments, "--diff", "wavecast", "--json"]) == 0
    kernels = diff_from_json(json.loads(capsys.readouterr().out)).kernels
    times = [item.before.times for item in kernels if item.before]
    (paired,) = (item for item in kernels if item.before and item.after)
    assert len(times) == len(kernels) > 1
    assert paired.before is not None
    assert paired.before.times is max((time for time in times if time), key=lambda time: time.predicted_us)


@pytest.fixture
def bare(tmp_path: Path) -> list[str]:
    """Arguments that launch a kernel whose code names no line."""
    from wavecast.simulator.compile.triton import compile_kernel

    from .test_inspect import keep_smallest

    code = compile_kernel(
        keep_smallest,
        signature={"x_ptr": "*fp32", "smallest_ptr": "*fp32", "n": "i32"},
        arch="gfx942",
        constexprs={"SEM": "relaxed", "BLOCK": 256},
    )
    path = tmp_path / "bare.s"
    path.write_text("\n".join(line for line in code.assembly.splitlines() if not line.strip().startswith(".loc")))
    launch = ["--grid", "4", "--block", "256", *(f"--arg=buf:{size}" for size in ("4KiB:f32", "4KiB:f32"))]
    return [str(path), *launch, "--arg=i32:1024", "--arg=null", "--arg=null"]


def test_kernel_without_line_table(bare: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", *bare]) == 0
    captured = capsys.readouterr()
    assert "(no line)" in captured.out
    assert captured.err.endswith("keep_smallest has no line table: --instructions shows where its time goes\n")
    assert run(["inspect", *bare, "--instructions"]) == 0
    assert "global_atomic_" in capsys.readouterr().out
    assert run(["inspect", *bare, "--line", "3"]) == 1
    assert "error: keep_smallest has no line table, so no line 3\n\nhint: " in capsys.readouterr().err


def test_script_that_fails_shows_what_it_launched(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = script.with_name("fails.py")
    path.write_text(SCRIPT + "\nraise ValueError('too bad')\n")
    assert run(["inspect", str(path)]) == 1
    captured = capsys.readouterr()
    assert "tl.store" in captured.out
    assert captured.err.rstrip().endswith("fails.py failed: ValueError: too bad")


def test_script_that_launches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("import triton\n")
    assert run(["inspect", str(path)]) == 1
    assert "nothing.py launched no kernel" in capsys.readouterr().err
