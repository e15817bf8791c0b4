"""Machine code is read back as the text it was made from: instructions, descriptor, arguments, source lines."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from wavecast.simulator.compile import disassembler
from wavecast.simulator.compile.binary import read_binary
from wavecast.simulator.compile.bundle import unbundle
from wavecast.simulator.compile.code_object import CodeObject
from wavecast.simulator.compile.descriptor import read_descriptor
from wavecast.simulator.compile.hip import compile_hip
from wavecast.simulator.errors import AssemblyError, MissingToolError
from wavecast.simulator.launch import parsed_kernel

HIP = Path(__file__).parent / "hip"
Assemble = Callable[..., Path]
pytestmark = pytest.mark.compile


def bundle(*entries: tuple[str, bytes]) -> bytes:
    table, contents = b"", b""
    size = 32 + sum(24 + len(name) for name, _ in entries)
    for name, content in entries:
        table += struct.pack("<QQQ", size + len(contents), len(content), len(name)) + name.encode()
        contents += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + contents


def assert_same_code(read: CodeObject, written: CodeObject) -> None:
    got, want = parsed_kernel(read), parsed_kernel(written)
    assert [entry.opcode for entry in got.instructions] == [entry.opcode for entry in want.instructions]
    assert [entry.target for entry in got.instructions] == [entry.target for entry in want.instructions]
    assert got.blocks == want.blocks
    for one, other in zip(got.instructions, want.instructions, strict=True):
        if one.target is None and "@rel32" not in other.text:
            assert (one.operands, one.modifiers) == (other.operands, other.modifiers), (one.text, other.text)
    assert got.arguments == want.arguments
    # A stripped file does not say where a constant ends.
    for content, wanted in zip(got.constants.values(), want.constants.values(), strict=True):
        assert content.startswith(wanted)
    assert sorted(got.functions.values()) == sorted(want.functions.values())
    assert got.resources == want.resources
    assert (got.arch, got.kernarg_bytes, got.workgroup_size) == (want.arch, want.kernarg_bytes, want.workgroup_size)
    # Not kept by a descriptor: exceptions (off) and whether vcc is one of the scalar registers.
    kept = {key: value for key, value in want.descriptor.items() if not key.startswith(("exception_", "reserve_"))}
    kept["next_free_sgpr"] = got.descriptor["next_free_sgpr"]
    assert kept.items() <= got.descriptor.items()


@pytest.mark.usefixtures("needs_disassembler")
@pytest.mark.parametrize("file", ["workgroup.hip", "mathematics.hip", "program.hip", "linked.hip"])
@pytest.mark.parametrize("stripped", [False, True])
def test_a_code_object_is_read_as_what_it_was_assembled_from(assembled: Assemble, file: str, stripped: bool) -> None:
    written = compile_hip(HIP / file, arch="gfx942")
    read = read_binary(assembled(written[0].assembly, "gfx942", stripped=stripped))
    assert [code.name for code in read] == [code.name for code in written]
    for one, other in zip(read, written, strict=True):
        assert_same_code(one, other)
        assert one.toolchain.startswith("clang 2")


@pytest.mark.usefixtures("needs_disassembler")
def test_source_lines_are_read_from_debug_information(assembled: Assemble) -> None:
    written = compile_hip(HIP / "vector_add.hip", arch="gfx942")[0]
    kernel = parsed_kernel(read_binary(assembled(written.assembly, "gfx942"))[0])
    stores = [entry.source for entry in kernel.instructions if entry.opcode.startswith("global_store")]
    assert [(Path(source.file).name, source.line) for source in stores if source] == [("vector_add.hip", 5)]


@pytest.mark.usefixtures("needs_disassembler")
def test_a_bundle_gives_the_architecture_that_is_wanted(assembled: Assemble, tmp_path: Path) -> None:
    codes = {arch: compile_hip(HIP / "vector_add.hip", arch=arch)[0] for arch in ("gfx942", "gfx950")}
    parts = {arch: assembled(code.assembly, arch).read_bytes() for arch, code in codes.items()}
    path = tmp_path / "two.co"
    names = {"gfx942": "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx950": "hip-amdgcn-amd-amdhsa--gfx950"}
    path.write_bytes(bundle(("host-x86_64-unknown-linux--", b""), *((names[arch], parts[arch]) for arch in parts)))
    assert_same_code(read_binary(path, arch="gfx942")[0], codes["gfx942"])
    with pytest.raises(AssemblyError, match="gfx942, gfx950"):
        read_binary(path)
    with pytest.raises(AssemblyError, match="no code for gfx90a"):
        read_binary(path, arch="gfx90a")


def test_bundles_behind_one_another_are_all_found() -> None:
    first, second = bundle(("hip-amdgcn-amd-amdhsa--gfx942", b"one")), bundle(("hip-amdgcn-amd-amdhsa--gfx950", b"two"))
    padding = bytes(4096 - len(first))
    assert unbundle(first + padding + second) == [("gfx942", b"one"), ("gfx950", b"two")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"CCOB" + zlib.compress(bytes(100)), "compressed"),
        (bundle(("hip-amdgcn-amd-amdhsa--gfx942", b"content"))[:-3], "ends within its entry"),
        (bundle(("hip-amdgcn-amd-amdhsa--gfx942", b"content"))[:40], "ends within its table"),
    ],
)
def test_bundles_that_cannot_be_read(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bundle.co"
    path.write_bytes(data)
    with pytest.raises(AssemblyError, match=message):
        read_binary(path)


@pytest.mark.parametrize(
    "content", [b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(200), b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8)]
)
def test_damaged_and_foreign_files_are_errors(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.hsaco"
    path.write_bytes(content)
    with pytest.raises(AssemblyError, match=r"file\.hsaco"):
        read_binary(path)


def test_a_short_descriptor_is_an_error() -> None:
    with pytest.raises(AssemblyError, match="12 bytes, wanted 64"):
        read_descriptor("k", bytes(12))


@pytest.mark.parametrize("script", [None, "echo 'LLVM version 14.0.6'; echo 'r600 is not a recognized processor' >&2"])
def test_without_a_fitting_disassembler_the_error_says_how_to_get_one(
    assembled: Assemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    path = assembled(compile_hip(HIP / "vector_add.hip", arch="gfx942")[0].assembly, "gfx942")
    if script is not None:
        tool = tmp_path / "llvm-objdump-14"
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    with pytest.raises(
        MissingToolError, match="there is none here" if script is None else "llvm-objdump-14.*14.0.6"
    ) as error:
        read_binary(path)
    assert "/opt/rocm/llvm/bin" in error.value.hint and ".s" in error.value.hint


def test_the_newest_disassembler_is_tried_first_and_rocms_before_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocm = tmp_path / "rocm" / "llvm" / "bin"
    rocm.mkdir(parents=True)
    versions = {
        tmp_path / "llvm-objdump-9": "9.0.1",
        tmp_path / "llvm-objdump": "21.1.8",
        rocm / "llvm-objdump": "19.0.0git",
    }
    for path, version in versions.items():
        path.write_text(f"#!/bin/sh\necho 'LLVM version {version}'\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    assert [tool.version for tool in disassembler.find_disassemblers()] == ["19.0.0git", "21.1.8", "9.0.1"]
