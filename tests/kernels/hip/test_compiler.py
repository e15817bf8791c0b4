"""Which compiler is taken, and what is said where there is none or where it rejects the source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wavecast.kernels.hip import compiler
from wavecast.kernels.hip.compiler import compile_hip, find_compiler

pytest.importorskip("ziglang")
pytestmark = pytest.mark.compile
SOURCE = """
extern "C" __attribute__((global)) void twice(float *x) { x[__builtin_amdgcn_workitem_id_x()] *= 2; }
"""


@pytest.fixture(autouse=True)
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known from before, in the process or on disk."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for function in (find_compiler, compile_hip):
        function.cache_clear()
    yield
    for function in (find_compiler, compile_hip):
        function.cache_clear()


def source(folder: Path, text: str = SOURCE) -> Path:
    path = folder / "twice.hip"
    path.write_text(text)
    return path


def test_hipcc_is_taken_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of this name that is the wheel's clang: it makes the same text, and is asked for machine code."""
    wanted = compile_hip(source(tmp_path), "gfx942").assembly
    compile_hip.cache_clear()
    find_compiler.cache_clear()
    hipcc = tmp_path / "hipcc"
    hipcc.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/words\ncase "$*" in\n*--no-gpu-bundle-output*)\n'
        f'  for last; do :; done; printf code > "$last" ;;\n*) exec {sys.executable} -m ziglang clang "$@" ;;\nesac\n'
    )
    hipcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    compiled = compile_hip(source(tmp_path), "gfx942")
    assert compiled.compiler.is_hipcc
    assert compiled.toolchain.startswith("hipcc clang version")
    assert compiled.assembly == wanted
    assert compiled.code_object == b"code"
    *_, asked = (tmp_path / "words").read_text().splitlines()
    assert "--cuda-device-only" in asked and "--offload-arch=gfx942" in asked


def test_a_second_process_takes_what_the_first_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_hip(source(tmp_path), "gfx950")
    code = first.code_object
    compile_hip.cache_clear()
    monkeypatch.setattr(compiler, "_run", lambda *_: pytest.fail("compiled again"))
    again = compile_hip(source(tmp_path), "gfx950")
    assert again.assembly == first.assembly
    assert again.code_object == code


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="pip install 'wavecast-kernels\\[hip\\]', put ROCm's bin directory"):
        compile_hip(source(tmp_path), "gfx942")


def test_a_source_that_does_not_compile_shows_what_the_compiler_says(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="twice.hip does not compile for gfx942 with clang.*\n.*unknown type name"):
        compile_hip(source(tmp_path, "extern strange x;"), "gfx942")
