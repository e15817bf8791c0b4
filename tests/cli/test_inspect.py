from __future__ import annotations

import json
from pathlib import Path

import pytest
import triton
import triton.language as tl

from wavecast.cli.app import run

pytestmark = pytest.mark.compile


@triton.jit
def keep_smallest(x_ptr, smallest_ptr, n, SEM: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < n
    tl.atomic_min(smallest_ptr + columns, tl.load(x_ptr + columns, mask=mask, other=0.0), mask=mask, sem=SEM)


def assembly_of(semantics: str, arch: str, directory: Path) -> Path:
    from wavecast.simulator.compile.triton import compile_kernel

    code = compile_kernel(
        keep_smallest,
        signature={"x_ptr": "*fp32", "smallest_ptr": "*fp32", "n": "i32"},
        arch=arch,
        constexprs={"SEM": semantics, "BLOCK": 256},
    )
    path = directory / f"{semantics}.s"
    path.write_text(code.assembly)
    return path


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize(("semantics", "fences"), [("acq_rel", 2), ("relaxed", 0)])
def test_counts_of_fences(
    semantics: str, fences: int, arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(assembly_of(semantics, arch, tmp_path)), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "wavecast.inspect/2"
    assert document["kernels"][0]["times"] is None
    (kernel,) = (item["facts"] for item in document["kernels"])
    assert (kernel["name"], kernel["arch"]) == ("keep_smallest", arch)
    counts = {item["opcode"]: item["count"] for item in kernel["instructions"]}
    assert (counts.get("buffer_wbl2", 0), counts.get("buffer_inv", 0)) == (fences, fences)


def test_table_is_readable_without_colour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(assembly_of("relaxed", "gfx942", tmp_path))]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("nothing was executed: --grid")
    assert "\x1b" not in captured.out
    assert max(map(len, captured.out.splitlines())) <= 80
    assert "keep_smallest  gfx942" in captured.out
    assert "global atomic" in captured.out


def test_file_that_is_no_assembly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.s"
    path.write_text("")
    assert run(["inspect", str(path)]) == 1
    assert capsys.readouterr().err.startswith("error: the text has no .amdgcn_target directive")


def test_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.s"
    path.write_bytes(b"\x40\xff\xfe")
    assert run(["inspect", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path} is not assembly text\n\nhint: ")


def test_machine_code_that_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(b"\x7fELF\x02\x01\x01\x40\xff\xfe")
    assert run(["inspect", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path} is a damaged ELF file")


@pytest.mark.parametrize(("variant", "fences"), [("atomic-acq-rel", 2), ("atomic-relaxed", 0)])
def test_kernels_of_an_experiment(variant: str, fences: int, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["weight-transpose", "--variant", variant, "--shape", "experts=1,k=256,n=256", "--json"]
    assert run(["inspect", *arguments, "--static"]) == 0
    kernels = [item["facts"] for item in json.loads(capsys.readouterr().out)["kernels"]]
    assert {kernel["variant"] for kernel in kernels} == {variant}
    assert {kernel["arch"] for kernel in kernels} == {"gfx942"}
    counts = [{item["opcode"]: item["count"] for item in kernel["instructions"]} for kernel in kernels]
    assert sum(item.get("buffer_wbl2", 0) for item in counts) == fences
    assert sum(item.get("buffer_inv", 0) for item in counts) == fences


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rowwise", "--static", "--kernel", "none"], "no kernel of rowwise is called 'none'"),
        (["rowwise", "--device", "h100"], "no device is called 'h100'"),
        (["rowwise", "--variant", "none"], "no variant of rowwise is called 'none'"),
        (["rowwise", "--diff", "none"], "no variant of rowwise is called 'none'"),
        (["nothing", "--diff", "wavecast"], "'nothing' is neither a file nor an experiment"),
        (
            ["rowwise", "--variant", "wavecast", "--variant", "separate-kernels", "--diff", "wavecast"],
            "--variant wavecast and separate-kernels beside --diff wavecast",
        ),
        (["rowwise", "--diff", "wavecast", "--instructions"], "--instructions and --diff"),
        (["rowwise", "--static", "--line", "3"], "--static executes nothing"),
        (["rowwise", "--line", "3", "--top", "2"], "--line 3 and --top 2"),
        (["rowwise", "--grid", "4"], "an option that describes a launch"),
        (["rowwise", "--", "more"], "rowwise is no script"),
        (["script.py", "--static"], "script.py is a script"),
        (["missing.hip", "--line", "3"], "there is no file missing.hip"),
        (["missing.hip", "--diff", "wavecast"], "missing.hip is a file, and --diff wavecast is none"),
    ],
)
def test_misuse(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_groups_are_those_of_the_simulator() -> None:
    from wavecast.cli import facts
    from wavecast.simulator.timing.facts import Group

    assert list(map(str, facts.Group)) == list(map(str, Group))


def test_occupancy_of_an_experiment_s_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "blockwise", "--shape", "tokens=128,n=256", "--static", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert 1 <= kernel["facts"]["waves_per_simd"] <= 8
