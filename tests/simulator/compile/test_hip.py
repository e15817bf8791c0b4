"""HIP source becomes code objects of either architecture, and errors name the source line and the way out."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from wavecast.simulator.compile import clang, hip
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.errors import CompileError, MissingToolError, UnknownDeviceError
from wavecast.simulator.launch import parsed_kernel

HERE = Path(__file__).parent / "hip"
HAS_COMPILER = shutil.which("hipcc") is not None or importlib.util.find_spec("ziglang") is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="neither hipcc nor ziglang is installed")
pytestmark = pytest.mark.compile

ADD_ONE = """
#include <hip/hip_runtime.h>
__global__ void add_one(int *x) { x[threadIdx.x] += STEP; }
"""


@needs_compiler
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_every_kernel_of_a_file_is_a_code_object(arch: str) -> None:
    codes = compile_hip(HERE / "workgroup.hip", arch=arch)
    names = ["block_sum", "reverse", "wave_sum", "histogram", "transpose"]
    assert [name in code.name for name, code in zip(names, codes, strict=True)] == [True] * 5
    assert {code.arch for code in codes} == {arch}
    assert len({code.digest for code in codes}) == 5


@needs_compiler
def test_launch_bounds_limit_the_workgroup_and_its_static_lds_is_counted() -> None:
    codes = compile_hip(HERE / "workgroup.hip", arch="gfx942")
    assert [code.num_warps for code in codes] == [4, 16, 16, 16, 16]
    kernels = [parsed_kernel(code) for code in codes]
    assert [kernel.workgroup_size for kernel in kernels] == [256, 1024, 1024, 1024, 1024]
    assert [kernel.resources.lds_bytes for kernel in kernels] == [256 * 4, 0, 0, 0, 16 * 17 * 4]


@needs_compiler
def test_a_program_with_host_code_gives_the_kernels_that_it_launches() -> None:
    codes = compile_hip(HERE / "program.hip", arch="gfx942")
    assert [code.name for code in codes] == ["_Z5scaleIfEvPKT_PS0_S0_m", "_Z5scaleIdEvPKT_PS0_S0_m"]


@needs_compiler
def test_instructions_know_their_source_line_and_arguments_their_name() -> None:
    kernel = parsed_kernel(compile_hip(HERE / "vector_add.hip", arch="gfx942")[0])
    stores = [entry.source for entry in kernel.instructions if entry.opcode.startswith("global_store")]
    assert [(Path(source.file).name, source.line) for source in stores if source] == [("vector_add.hip", 5)]
    assert [argument.name for argument in kernel.arguments if not argument.is_hidden] == ["a", "b", "out", "n"]


@needs_compiler
def test_text_macros_and_options_are_compiled() -> None:
    three = compile_hip(ADD_ONE, arch="gfx942", defines={"STEP": 3})[0]
    assert " 3, " in next(line for line in three.assembly.splitlines() if "v_add_u32" in line)
    unoptimised = compile_hip(ADD_ONE, arch="gfx942", defines={"STEP": 3}, options=["-O0"])[0]
    assert len(unoptimised.assembly) > len(three.assembly)
    assert unoptimised.digest != three.digest


@needs_compiler
def test_where_the_file_lies_does_not_change_the_code(tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.hip"
    moved.write_text((HERE / "vector_add.hip").read_text())
    assert compile_hip(moved, arch="gfx942")[0].digest == compile_hip(HERE / "vector_add.hip", arch="gfx942")[0].digest


@needs_compiler
def test_headers_are_found_beside_the_file_and_in_given_folders(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near.h").write_text("#define STEP 1 + FAR\n")
    (tmp_path / "far" / "far.h").write_text("#define FAR 4\n")
    source = tmp_path / "kernel.hip"
    source.write_text('#include "near.h"\n#include <far.h>\n' + ADD_ONE)
    assert len(compile_hip(source, arch="gfx950", include_dirs=[tmp_path / "far"])) == 1
    with pytest.raises(CompileError, match="far.h") as error:
        compile_hip(source, arch="gfx950")
    assert "include_dirs" in error.value.hint


@needs_compiler
def test_an_error_shows_the_line_of_the_user(tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text("__global__ void k(float *x) {\n  x[0] = y;\n}\n")
    with pytest.raises(CompileError, match=r"kernel\.hip:2:10: error: use of undeclared identifier 'y'") as error:
        compile_hip(source, arch="gfx942")
    assert "x[0] = y;" in str(error.value)
    assert error.value.hint == "correct the line that the compiler names"


@needs_compiler
def test_a_host_function_called_on_the_device_is_named() -> None:
    text = "int host_only();\n__global__ void k(int *x) { x[0] = host_only(); }\n"
    with pytest.raises(CompileError, match="host_only") as error:
        compile_hip(text, arch="gfx942")
    assert "__device__" in error.value.hint


@needs_compiler
@pytest.mark.parametrize("text", ["int main() {}", "template <class T> __global__ void k(T *x) { *x = 1; }"])
def test_a_file_without_a_kernel_is_an_error(text: str) -> None:
    with pytest.raises(CompileError, match="no kernel") as error:
        compile_hip(text, arch="gfx942")
    assert "__global__" in error.value.hint


def test_a_missing_file_and_an_unknown_architecture_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="nowhere.hip"):
        compile_hip(tmp_path / "nowhere.hip", arch="gfx942")
    with pytest.raises(UnknownDeviceError, match="sm_90") as error:
        compile_hip(ADD_ONE, arch="sm_90")
    assert "gfx950" in error.value.hint


@needs_compiler
def test_what_was_compiled_is_kept_until_something_that_it_was_made_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runs: list[list[str]] = []
    real = hip.subprocess.run

    def counted(words: list[str], **options: object) -> object:
        runs.append(words)
        return real(words, **options)

    monkeypatch.setattr(hip.subprocess, "run", counted)
    source, header = tmp_path / "with blank.hip", tmp_path / "step.h"
    source.write_text(f'#include "step.h"\n{ADD_ONE}')
    header.write_text("#define STEP 7\n")

    def compiled(**options: object) -> str:
        (code,) = compile_hip(source, arch="gfx942", **options)
        return code.assembly

    first = compiled()
    before = len(runs)
    assert (compiled(), len(runs)) == (first, before)
    header.write_text("#define STEP 9\n")
    second = compiled()
    assert (second != first, len(runs)) == (True, before + 1)
    # Damaged entries are made anew.
    for entry in (tmp_path / "cache/wavecast/hip").glob("*.json"):
        entry.write_text(entry.read_text().replace("v_add", "v_sub"))
    assert (compiled(), len(runs)) == (second, before + 2)
    assert (compiled(), len(runs)) == (second, before + 2)


@needs_compiler
def test_a_compilation_is_kept_if_it_is_known_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real, folder, writes = hip.subprocess.run, tmp_path / "a$b #c", list[str]()
    folder.mkdir()
    header = folder / "step.h"

    def beside(words: list[str], **options: object) -> object:
        done = real(words, **options)
        if writes:
            header.write_text(writes.pop())
        return done

    def compiled(option: str) -> str:
        (code,) = compile_hip(f"#include <step.h>\n{ADD_ONE}", arch="gfx942", options=[option, str(folder)])
        return code.assembly

    # A name with signs of make, and a folder that counts as the system's.
    for option in ("-I", "-isystem"):
        header.write_text("#define STEP 7\n")
        first = compiled(option)
        header.write_text("#define STEP 9\n")
        assert compiled(option) != first
    # The header is written anew just after the compiler has read it.
    header.write_text("#define STEP 7\n")
    monkeypatch.setattr(hip.subprocess, "run", beside)
    writes.append("#define STEP 11\n")
    assert compiled("-idirafter") != compiled("-idirafter")


def test_without_a_compiler_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang.shutil, "which", lambda name: None)
    monkeypatch.setattr(clang.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match="neither hipcc") as error:
        compile_hip(ADD_ONE, arch="gfx942")
    assert "wavecast-simulator[hip]" in error.value.hint


def test_hipcc_is_preferred_and_gets_the_users_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "hipcc"
    tool.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --version ]; then echo "AMD clang version 19.0.0git"; exit; fi\necho "$@" > {tmp_path}/words\n'
        "cat <<'END'\n\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n\t.amdhsa_kernel k\n\t.amdgpu_metadata\n---\n"
        "amdhsa.kernels:\n  - .max_flat_workgroup_size: 128\n    .name:           k\n\t.end_amdgpu_metadata\nEND\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (code,) = compile_hip(ADD_ONE, arch="gfx942", include_dirs=["inc"], defines={"STEP": 2, "FAST": None})
    assert (code.name, code.num_warps, code.toolchain) == ("k", 2, "hipcc 19.0.0git")
    words = (tmp_path / "words").read_text().split()
    assert {"--cuda-device-only", "--offload-arch=gfx942", "-Iinc", "-DSTEP=2", "-DFAST"} <= set(words)
