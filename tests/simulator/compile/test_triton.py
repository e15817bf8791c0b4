"""Compiling Triton kernels for an absent GPU: content, cache and errors."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import triton
import triton.language as tl

from wavecast.simulator.compile.toolchain import pinned_toolchain, toolchain_name, triton_cache_directory
from wavecast.simulator.compile.triton import code_object, compile_kernel
from wavecast.simulator.errors import CompileError, UnknownDeviceError

pytestmark = pytest.mark.compile


@triton.jit
def copy_kernel(source, target, count, BLOCK: tl.constexpr, SHIFT: tl.constexpr = 0):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + index, mask=index < count)
    tl.store(target + index, value + SHIFT, mask=index < count)


@triton.jit
def multiply_add_kernel(source, target, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    value = tl.load(source + index)
    tl.store(target + index, value * value + 1.0)


@triton.jit
def wrong_kernel(source, BLOCK: tl.constexpr):
    tl.store(source + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


SIGNATURE = {"source": "*fp32", "target": "*fp32", "count": "i32"}


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_code_object_says_what_it_is(arch: str) -> None:
    code = compile_kernel(
        copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 256}, arch=arch, options={"num_warps": 2}
    )
    assert (code.name, code.arch, code.num_warps, code.lds_bytes) == ("copy_kernel", arch, 2, 0)
    assert code.toolchain == f"triton {triton.__version__}" == toolchain_name()
    assert re.search(rf'\.amdgcn_target "amd.*-amdhsa-.*-{arch}"', code.assembly)


def test_architectures_differ_and_equal_input_gives_equal_digest() -> None:
    def digest(arch: str) -> str:
        return compile_kernel(copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 256}, arch=arch).digest

    assert digest("gfx942") == digest("gfx942")
    assert digest("gfx942") != digest("gfx950")


def test_alignment_decides_the_width_of_the_access() -> None:
    def text(**attrs: str) -> str:
        return compile_kernel(
            copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 1024}, arch="gfx942", attrs=attrs
        ).assembly

    assert "global_load_dwordx4" not in text()
    assert "global_load_dwordx4" in text(source="D", target="D", count="D")
    assert "buffer_load_dwordx4" in text(source="DS", target="DS", count="D")


def test_options_and_defaults_of_constexprs_reach_the_compiler() -> None:
    def text(**constexprs: float) -> str:
        return compile_kernel(
            copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 64, **constexprs}, arch="gfx942"
        ).assembly

    assert "0x3fc00000" not in text()
    assert "0x3fc00000" in text(SHIFT=1.5)


def test_fused_multiply_add_does_not_depend_on_the_compilers_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(**options: bool) -> str:
        signature = {"source": "*fp32", "target": "*fp32"}
        return compile_kernel(
            multiply_add_kernel, signature=signature, constexprs={"BLOCK": 64}, arch="gfx942", options=options
        ).assembly

    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION", raising=False)
    assert "v_fma" in text()
    assert "v_fma" not in text(enable_fp_fusion=False)
    assert "TRITON_DEFAULT_FP_FUSION" not in os.environ
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert "v_fma" not in text()


def test_second_compilation_reads_the_cache(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits: list[bool] = []
    monkeypatch.setattr(
        triton.knobs.compilation, "listener", lambda **event: hits.append(event["cache_hit"]), raising=False
    )
    first, second = (
        compile_kernel(copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 128}, arch="gfx942") for _ in range(2)
    )
    assert hits == [False, True]
    assert first == second
    assert list(fresh_cache.rglob("copy_kernel.amdgcn"))


def test_cache_lies_in_the_users_cache_directory_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name, **_: str(tmp_path / name))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.delenv("TRITON_HOME", raising=False)
    before = triton.knobs.cache.dir
    with pinned_toolchain():
        assert triton.knobs.cache.dir == str(tmp_path / "wavecast" / "triton")
    assert triton.knobs.cache.dir == before
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))
    assert triton_cache_directory() is None


def test_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(UnknownDeviceError, match="'gfx90a'") as error:
        compile_kernel(copy_kernel, signature=SIGNATURE, constexprs={"BLOCK": 64}, arch="gfx90a")
    assert "gfx942" in error.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signature": {"source": "*fp32", "target": "*fp32"}}, "no type for argument count"),
        ({"signature": {**SIGNATURE, "sauce": "i32"}}, "no such argument sauce"),
        ({"constexprs": {}}, "constexpr BLOCK"),
        ({"constexprs": {"BLOCK": 64, "BLOK": 1}}, "no argument BLOK"),
        ({"options": {"num_warps": 3}}, "copy_kernel does not compile for gfx942 with triton .*power of 2"),
        ({"attrs": {"sauce": "D"}}, "sauce"),
        ({"signature": {**SIGNATURE, "source": "*fp31"}}, "copy_kernel does not compile for gfx942"),
    ],
)
def test_bad_arguments_name_kernel_and_reason(change: dict, message: str) -> None:
    arguments = {"signature": SIGNATURE, "constexprs": {"BLOCK": 64}, **change}
    with pytest.raises(CompileError, match=message) as error:
        compile_kernel(copy_kernel, arch="gfx942", **arguments)
    assert "copy_kernel" in str(error.value)
    assert error.value.hint


def test_the_compilers_own_error_is_the_cause() -> None:
    with pytest.raises(CompileError, match=r"(?s)wrong_kernel.*gfx950.*no_such_name") as error:
        compile_kernel(wrong_kernel, signature={"source": "*fp32"}, constexprs={"BLOCK": 64}, arch="gfx950")
    assert error.value.__cause__ is not None


def test_plain_function_is_refused() -> None:
    with pytest.raises(CompileError, match=r"<lambda> is not a Triton kernel"):
        compile_kernel(lambda: None, signature={}, arch="gfx942")


def test_code_object_needs_a_text_that_is_executed() -> None:
    class Compiled:
        asm = {"spv": ""}  # noqa: RUF012
        name = "copy_kernel"

    with pytest.raises(CompileError, match="only spv"):
        code_object(Compiled())
