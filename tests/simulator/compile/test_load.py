"""Any file with kernels becomes code objects, and what it is called or for says what goes wrong."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.compile.load import kernel_named, load_code_objects
from wavecast.simulator.compile.symbol import argument_types, source_name
from wavecast.simulator.errors import AssemblyError, LaunchError

HIP = Path(__file__).parent / "hip"
HAS_COMPILER = shutil.which("hipcc") is not None or importlib.util.find_spec("ziglang") is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="neither hipcc nor ziglang is installed")
pytestmark = pytest.mark.compile


@pytest.mark.usefixtures("needs_disassembler")
def test_source_assembly_and_machine_code_are_the_same_kernels(assembled: Callable[..., Path], tmp_path: Path) -> None:
    from_source = load_code_objects(HIP / "workgroup.hip", arch="gfx942")
    text = tmp_path / "workgroup.s"
    text.write_text(from_source[0].assembly)
    from_text = load_code_objects(text, arch="gfx942")
    assert [code.digest for code in from_text] == [code.digest for code in from_source]
    assert from_text[0].toolchain.startswith("clang ")
    from_machine = load_code_objects(assembled(from_source[0].assembly, "gfx942"), arch="gfx942")
    assert [code.name for code in from_machine] == [code.name for code in from_source]


@needs_compiler
def test_kernels_are_found_by_their_name_in_the_source_and_by_their_symbol() -> None:
    codes = compile_hip(HIP / "program.hip", arch="gfx942")
    assert kernel_named(codes, "_Z5scaleIdEvPKT_PS0_S0_m") is codes[1]
    with pytest.raises(LaunchError, match="2 kernels are called 'scale'") as error:
        kernel_named(codes, "scale")
    assert "_Z5scaleIfEvPKT_PS0_S0_m" in error.value.hint
    assert kernel_named(codes[:1], "scale") is codes[0]
    assert kernel_named(codes[:1], None) is codes[0]
    with pytest.raises(LaunchError, match="there are 2 kernels: scale"):
        kernel_named(codes, None)
    with pytest.raises(LaunchError, match="'add'") as error:
        kernel_named(codes, "add")
    assert "scale" in error.value.hint


@pytest.mark.parametrize(
    ("symbol", "name", "types"),
    [
        ("_Z10vector_addPKfS0_Pfi", "vector_add", ("float const*", "float const*", "float*", "int")),
        ("_ZN4math5scaleIfLi4EEEvPT_S1_bd", "math::scale", ("float*", "float", "bool", "double")),
        ("_Z1kv", "k", ()),
        ("plain", "plain", None),
        ("_Z1kIDF16_EvPT_", "_Z1kIDF16_EvPT_", None),
    ],
)
def test_symbols_say_names_and_types(symbol: str, name: str, types: tuple[str, ...] | None) -> None:
    assert source_name(symbol) == name
    assert argument_types(symbol) == types


def test_files_that_are_nothing_of_this_are_errors(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match="there is no file"):
        load_code_objects(tmp_path / "k.hip", arch="gfx942")
    cuda = tmp_path / "k.cu"
    cuda.write_text("__global__ void k() {}")
    with pytest.raises(AssemblyError, match=r"k\.cu is neither") as error:
        load_code_objects(cuda, arch="gfx942")
    assert "hipify" in error.value.hint
    binary = tmp_path / "k.s"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AssemblyError, match="not assembly text"):
        load_code_objects(binary, arch="gfx942")
    binary.write_text("hello")
    with pytest.raises(AssemblyError, match="architecture"):
        load_code_objects(binary, arch="gfx942")


@needs_compiler
def test_what_is_compiled_already_fits_the_architecture_or_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "k.s"
    path.write_text(compile_hip(HIP / "vector_add.hip", arch="gfx942")[0].assembly)
    with pytest.raises(AssemblyError, match="is for gfx942, and gfx950 is wanted"):
        load_code_objects(path, arch="gfx950")
    with pytest.raises(AssemblyError, match="compiled already"):
        load_code_objects(path, arch="gfx942", defines={"N": 1})
