"""Files: one kernel as source, text and machine code is one prediction, and errors say what is wanted."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wavecast.cli.app import run
from wavecast.cli.launch_arguments import Parameter, bind
from wavecast.cli.rows import document_from_json
from wavecast.simulator.compile.disassembler import find_disassemblers

HIP = Path(__file__).parent.parent / "simulator" / "compile" / "hip"
ADD = str(HIP / "vector_add.hip")
LAUNCH = ["--grid", "8", "--block", "256"]
ARGUMENTS = ["--arg", "buf:2000:f32:random", "--arg", "buf:2000:f32:ones", "--arg", "buf:8000B", "--arg", "2000"]
HAS_COMPILER = shutil.which("hipcc") is not None or importlib.util.find_spec("ziglang") is not None
HAS_DISASSEMBLER = any(int(tool.version.partition(".")[0]) >= 17 for tool in find_disassemblers())
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="neither hipcc nor ziglang is installed")

A_BUFFER = Parameter("data", True, 8, "float*")
AN_INT = Parameter("n", False, 4, "int")


@pytest.fixture(scope="session")
def same_kernel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One kernel as source, as the compiler's text, and as the machine code that is assembled from it."""
    from wavecast.simulator.compile.hip import compile_hip

    text = tmp_path_factory.mktemp("same") / "vector_add.s"
    text.write_text(compile_hip(Path(ADD), arch="gfx942")[0].assembly)
    zig = [sys.executable, "-m", "ziglang"]
    target = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx942"]
    machine, linked = text.with_suffix(".o"), text.with_suffix(".hsaco")
    subprocess.run([*zig, "clang", "-x", "assembler", *target, "-c", text, "-o", machine], check=True)
    subprocess.run([*zig, "ld.lld", "-shared", machine, "-o", linked], check=True)
    return {"hip": Path(ADD), "assembly": text, "code-object": linked}


def row_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["predict", *arguments, "--json"]) == 0, capsys.readouterr().err
    document = json.loads(capsys.readouterr().out)
    document_from_json(document)
    (row,) = document["rows"]
    return row


@needs_compiler
@pytest.mark.execute
def test_source_text_and_machine_code_are_predicted_alike(
    same_kernel: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {
        path: row_of([str(file), *LAUNCH, *ARGUMENTS], capsys)
        for path, file in same_kernel.items()
        if path != "code-object" or HAS_DISASSEMBLER
    }
    source = rows["hip"]
    assert (source["variant"], source["device"], source["launches"]) == ("vector_add", "mi300x", 1)
    assert source["shape"] == {"workgroups": 8, "work_items": 256}
    assert source["predicted_us"] > 0
    for path, row in rows.items():
        assert row["path"] == path
        # What the text says is equal; the rest is what the file is called, and which content it has.
        same = {key: value for key, value in row.items() if key not in ("experiment", "path", "kernels", "code_object")}
        assert same == {key: source[key] for key in same}
    assert rows["assembly"]["code_object"] == source["code_object"]


@needs_compiler
@pytest.mark.execute
def test_the_traffic_is_that_of_the_launch(capsys: pytest.CaptureFixture[str]) -> None:
    row = row_of([ADD, *LAUNCH, *ARGUMENTS], capsys)
    # 2,000 floats of two inputs and an output, in lines of 128 bytes.
    assert row["minimum_bytes"] == pytest.approx(3 * 8000, rel=0.02)
    assert row["hbm_read_bytes"] == pytest.approx(2 * 8000, rel=0.02)
    assert [row[key] for key in ("published_us", "speedup", "error_percent", "triton", "dtype")] == [None] * 5


@needs_compiler
@pytest.mark.execute
def test_block_device_position_and_state_of_the_caches_count(capsys: pytest.CaptureFixture[str]) -> None:
    big = ["--arg", "buf:64MiB", "--arg", "buf:64MiB", "--arg", "buf:64MiB", "--arg", str(1 << 24)]
    cold = row_of([ADD, "--grid", "65536", "--block", "256", *big], capsys)
    warm = row_of([ADD, "--grid", "65536", "--block", "256", *big, "--warm"], capsys)
    assert warm["predicted_us"] < cold["predicted_us"]
    following = row_of([ADD, *LAUNCH, *ARGUMENTS, "--position", "back-to-back"], capsys)
    alone = row_of([ADD, *LAUNCH, *ARGUMENTS], capsys)
    assert following["predicted_us"] < alone["predicted_us"]
    other = row_of([ADD, *LAUNCH, *ARGUMENTS, "--device", "mi355x", "--whole"], capsys)
    assert (other["device"], other["arch"]) == ("mi355x", "gfx950")


@needs_compiler
@pytest.mark.execute
def test_dynamic_lds_and_two_axes(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(HIP / "workgroup.hip")
    words = ["--kernel", "reverse", *LAUNCH, "--arg", "buf:2048", "--arg", "same:0", "--lds-bytes", "1024"]
    assert row_of([file, *words], capsys)["lds_bytes"] == 1024
    words = ["--kernel", "transpose", "--grid", "2,3", "--block", "16,16", "--arg", "buf:2048", "--arg", "buf:2048"]
    row = row_of([file, *words, "--arg", "40", "--arg", "20"], capsys)
    assert row["kernels"][0]["grid"] == [2, 3, 1]


@needs_compiler
@pytest.mark.execute
def test_the_table_is_narrow_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", ADD, *LAUNCH, *ARGUMENTS]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 80
    assert "vector_add.hip  workgroups=8 work_items=256" in captured.out
    assert "mi300x (gfx942)" in captured.out
    assert "vector_add: " in captured.out


@needs_compiler
@pytest.mark.execute
def test_what_a_kernel_prints_does_not_get_into_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "talk.hip"
    path.write_text('#include <hip/hip_runtime.h>\n__global__ void k(int n) { printf("n is %d\\n", n); }\n')
    assert run(["predict", str(path), "--grid", "1", "--block", "2", "--arg", "7", "--json"]) == 0
    captured = capsys.readouterr()
    document_from_json(json.loads(captured.out))
    assert captured.err == "n is 7\n" * 2


@needs_compiler
@pytest.mark.execute
def test_pictures_and_sensitivity_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [ADD, *LAUNCH, *ARGUMENTS, "--plot", str(tmp_path), "--sensitivity"]
    assert run(["predict", *words]) == 0
    captured = capsys.readouterr()
    assert "what decides it" in captured.out
    names = {path.name for path in tmp_path.iterdir()}
    assert {f"vector_add.hip-mi300x-workgroups8-work_items256-roofline.{end}" for end in ("png", "svg", "csv")} <= names
    assert f"wrote {len(names)} files" in captured.err


@needs_compiler
def test_inspect_shows_every_kernel_of_a_file(same_kernel: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(HIP / "workgroup.hip"), "--json"]) == 0
    kernels = [item["facts"] for item in json.loads(capsys.readouterr().out)["kernels"]]
    assert [kernel["workgroup_size"] for kernel in kernels] == [256, 1024, 1024, 1024, 1024]
    assert {kernel["arch"] for kernel in kernels} == {"gfx942"}
    assert run(["inspect", str(HIP / "workgroup.hip"), "--kernel", "transpose", "--device", "mi355x", "--json"]) == 0
    (kernel,) = (item["facts"] for item in json.loads(capsys.readouterr().out)["kernels"])
    assert (kernel["arch"], kernel["lds_bytes"]) == ("gfx950", 16 * 17 * 4)
    counts = {}
    for path, file in same_kernel.items():
        if path != "code-object" or HAS_DISASSEMBLER:
            assert run(["inspect", str(file), "--json"]) == 0
            (kernel,) = (item["facts"] for item in json.loads(capsys.readouterr().out)["kernels"])
            counts[path] = kernel["instructions"], kernel["vgpr"], kernel["sgpr"]
    assert len({json.dumps(count) for count in counts.values()}) == 1


@needs_compiler
@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        ([ADD, "--block", "256"], 2, "--grid is missing", "--grid X,Y"),
        ([ADD, "--grid", "8"], 2, "--block is missing", "--block X,Y"),
        ([ADD, "--grid", "8x4", "--block", "256"], 2, "--grid 8x4", "--grid 128,4,1"),
        ([ADD, "--grid", "0", "--block", "256"], 2, "at least 1", "--grid"),
        ([ADD, *LAUNCH, "--arg", "null"], 2, "takes 4 arguments, 1 given", "b: float const*, out: float*, n: int"),
        ([ADD, *LAUNCH, *ARGUMENTS[:-1], "0.5"], 2, "--arg 0.5, for n: int: '0.5' is no i32", "buf:SIZE"),
        ([ADD, *LAUNCH, *ARGUMENTS, "--kernel", "sub"], 2, "no kernel is called 'sub'", "vector_add"),
        ([ADD, *LAUNCH, *ARGUMENTS, "--device", "h100"], 2, "'h100'", "mi300x"),
        ([ADD, *LAUNCH, *ARGUMENTS, "--position", "last"], 2, "'last'", "back-to-back"),
        ([ADD, "--grid", "8", "--block", "2048", *ARGUMENTS], 1, "at most 1024", "smaller"),
        ([ADD, *LAUNCH, *ARGUMENTS[:-1], "4000"], 1, "vector_add.hip:5", "line is wrong"),
        ([str(HIP / "workgroup.hip"), *LAUNCH], 2, "5 kernels: block_sum", "--kernel"),
        ([ADD, "rowwise"], 2, "is a file", "one file"),
        ([ADD, "--shape", "n=1"], 2, "is a file", "--shape"),
        (["rowwise", "--grid", "1"], 2, "no file", "predict path/to/kernel.hip"),
        (["nowhere.hip", *LAUNCH], 2, "no file nowhere.hip", "HIP source"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    words: list[str], code: int, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", *words]) == code
    error, _, way_out = capsys.readouterr().err.partition("\n\nhint: ")
    assert error.startswith("error: ")
    assert message in error
    assert hint in way_out


@needs_compiler
def test_a_source_that_does_not_compile_shows_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.hip"
    path.write_text("__global__ void k(float *x) {\n  x[0] = STEP;\n}\n")
    assert run(["predict", str(path), *LAUNCH, "--arg", "buf:1"]) == 1
    assert "wrong.hip:2:10: error: use of undeclared identifier 'STEP'" in capsys.readouterr().err
    assert run(["predict", str(path), *LAUNCH, "--arg", "buf:1", "-D", "STEP=1.0f"]) == 0


def test_without_a_compiler_it_is_not_possible_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wavecast.simulator.compile import clang

    monkeypatch.setattr(clang.shutil, "which", lambda name: None)
    monkeypatch.setattr(clang.importlib.util, "find_spec", lambda name: None)
    assert run(["predict", ADD, *LAUNCH, *ARGUMENTS]) == 3
    assert "hint: pip install 'wavecast-simulator[hip]'" in capsys.readouterr().err


def bound(word: str, parameter: Parameter = A_BUFFER) -> Any:
    return bind("kernel", [parameter], [word])[0]


@pytest.mark.parametrize(
    ("word", "dtype", "content"),
    [
        ("buf:3", "float32", [0, 0, 0]),
        ("buf:3::ones", "float32", [1, 1, 1]),
        ("buf:8B:f32:index", "float32", [0, 1]),
        ("buf:2:f64:-1.5", "float64", [-1.5, -1.5]),
        ("buf:2:i16:0x10", "int16", [16, 16]),
        ("buf:2:f16:0.5", "float16", [0.5, 0.5]),
        ("buf:2:bf16:1", "uint16", [0x3F80, 0x3F80]),
        ("buf:0.5KiB:u64:index", "uint64", list(range(64))),
    ],
)
def test_buffers_have_the_size_type_and_content_that_the_word_says(word: str, dtype: str, content: list[float]) -> None:
    array = bound(word)
    assert array.dtype == dtype
    assert array.tolist() == content


def test_random_content_is_the_same_every_time_and_lies_in_its_range() -> None:
    first, again, other = (bound(f"buf:4096:f32:random={seed}") for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert -1 <= first.min() < -0.9 < 0.9 < first.max() < 1
    indices = bound("buf:4096:i32:random")
    assert indices.min() >= 0 and 2048 < indices.max() < 4096
    assert bound("buf:4096:u8:below=7").max() == 6


def test_buffers_from_files_and_shared_ones(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.arange(6, dtype=np.int8).reshape(2, 3).T)
    word = f"npy:{tmp_path}/data.npy"
    first, second, third = bind("kernel", [A_BUFFER] * 3, [word, "same:0", "null"])
    assert isinstance(first, np.ndarray) and first.flags.c_contiguous and first.sum() == 15
    assert second is first
    assert third == 0


@pytest.mark.parametrize(
    ("kind", "size", "word", "data"),
    [
        ("int", 4, "-5", "fbffffff"),
        ("unsigned int", 4, "0xffffffff", "ffffffff"),
        ("bool", 1, "true", "01"),
        ("float", 4, "1", "0000803f"),
        ("float", 4, "f32:0.5", "0000003f"),
        ("double", 8, "1", "000000000000f03f"),
        ("__hip_bfloat16", 2, "1", "803f"),
        ("unsigned long", 8, "u64:7", "0700000000000000"),
        (None, 4, "5", "05000000"),
        (None, 4, "0.5", "0000003f"),
        (None, 8, "1e0", "000000000000f03f"),
        ("Box<int>", 3, "hex:0a0b0c", "0a0b0c"),
    ],
)
def test_scalars_are_packed_as_their_type_or_the_word_says(kind: str | None, size: int, word: str, data: str) -> None:
    assert bound(word, Parameter("x", False, size, kind)) == bytes.fromhex(data)


@pytest.mark.parametrize(
    ("parameter", "word", "message"),
    [
        (A_BUFFER, "5", "a buffer is wanted"),
        (A_BUFFER, "buf:big", "'big' is no size"),
        (A_BUFFER, "buf:7B:f32", "no whole number of f32"),
        (A_BUFFER, "buf:1.5", "whole number"),
        (A_BUFFER, "buf:4:f8", "no element type is called 'f8'"),
        (A_BUFFER, "buf:4:f32:noise", "'noise' is no fill of f32"),
        (A_BUFFER, "buf:4:i8:0.5", "'0.5' is no fill of i8"),
        (A_BUFFER, "npy:/nowhere.npy", "cannot be read"),
        (A_BUFFER, "same:0", "earlier argument"),
        (AN_INT, "buf:4", "a value of 4 bytes is wanted"),
        (AN_INT, "i64:4", "i64 has 8 bytes, i32 is wanted"),
        (AN_INT, "f32:4", "i32 is wanted"),
        (AN_INT, "many", "'many' is no i32"),
        (AN_INT, "0x1ffffffff", "does not fit i32"),
        (AN_INT, "hex:00", "1 bytes given, 4 wanted"),
        (AN_INT, "hex:zz", "no hexadecimal digits"),
        (Parameter("s", False, 12, "Box"), "5", "hex:DIGITS"),
    ],
)
def test_words_that_do_not_fit(parameter: Parameter, word: str, message: str) -> None:
    from wavecast.cli.errors import CliError, ExitCode

    with pytest.raises(CliError, match=message) as error:
        bound(word, parameter)
    assert error.value.code == ExitCode.MISUSE
    assert str(error.value).startswith(f"--arg {word}, for {parameter}: ")
