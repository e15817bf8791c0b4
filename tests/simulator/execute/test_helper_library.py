"""The helper cache: what other processes, crashes and other versions may do to it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from machine import kernel_of

from wavecast.simulator.execute import helper_library as library_module
from wavecast.simulator.execute.helper_library import HelperLibrary, fingerprint
from wavecast.simulator.execute.layout import Row
from wavecast.simulator.execute.translate import translate
from wavecast.simulator.program.kernel import Kernel

pytestmark = pytest.mark.execute


@pytest.fixture
def kernel() -> Kernel:
    return kernel_of("v_add_u32_e32 v1, v2, v3\n\ts_add_u32 s1, s2, s3")


def build(directory: Path, kernel: Kernel) -> HelperLibrary:
    """A fresh library that has what the kernel needs."""
    library = HelperLibrary(directory)
    assert translate(kernel, library).table[0, Row.HELPER]
    return library


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing was to be compiled")

    monkeypatch.setattr(library_module, "emit_module", refuse)


def test_a_second_library_compiles_nothing(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, kernel)
    forbid_compiling(monkeypatch)
    build(tmp_path, kernel)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty", "gone", "other header", "one byte"])
def test_a_damaged_file_is_compiled_again(
    tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    build(tmp_path, kernel)
    (path,) = files(tmp_path)
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        header, _, code = content.partition(b"\n")
        damaged = {
            "cut": content[: len(content) // 2],
            "garbage": b"\xff" * len(content),
            "empty": b"",
            "other header": b'{"no": ["such", "thing"]}\n' + code,
            "one byte": header + b"\n" + code[:-1] + bytes([code[-1] ^ 1]),
        }
        path.write_bytes(damaged[damage])
    build(tmp_path, kernel)
    forbid_compiling(monkeypatch)
    build(tmp_path, kernel)


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path: Path, kernel: Kernel) -> None:
    place = tmp_path / "file"
    place.write_text("not a directory")
    build(place, kernel)


def test_nothing_but_finished_files_stays(tmp_path: Path, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    build(tmp_path, kernel)
    assert files(tmp_path) == []


def test_processes_that_compile_the_same_at_the_same_time(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from test_helper_library import build, kernel_of\n"
        "build(Path(sys.argv[1]), kernel_of('v_add_u32_e32 v1, v2, v3'))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parent)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert len(files(tmp_path)) == 1


def test_threads_of_one_library(tmp_path: Path) -> None:
    library = HelperLibrary(tmp_path)
    kernels = [kernel_of(f"v_{name}_b32_e32 v1, v2, v3\n\tv_not_b32_e32 v1, v2") for name in ("and", "or", "xor")]
    tables = {}

    def work(number: int) -> None:
        tables[number] = translate(kernels[number], library).table

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({int(tables[number][1, Row.HELPER]) for number in range(3)}) == 1


def test_the_fingerprint_covers_what_the_code_depends_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Emitters and layout, the numbers of the scalar slots, and the compiler."""
    before = fingerprint()
    names = {path.name for path in library_module.emitter_sources()}
    assert {"layout.py", "trace.py", "small_float.py", "instruction.py", "matrix.py"} <= names
    monkeypatch.setattr(library_module.llvmlite, "__version__", "0")
    assert fingerprint() != before
