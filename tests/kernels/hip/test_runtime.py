"""The loader through HIP's module API: what a library gets is what a virtual device executes."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "all_gather_matmul"))
from gather_cases import hip_plans, make_call, memory_of, run_rank

from wavecast.kernels.all_gather_matmul.launch_hip import PARAMETERS, hip_kernel
from wavecast.kernels.async_tp.links import is_full_mesh
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.hip.compiler import compile_hip
from wavecast.kernels.hip.runtime import HipError, RocmRuntime
from wavecast.simulator.compile.binary import read_binary
from wavecast.simulator.errors import MissingToolError
from wavecast.simulator.program.assembly import kernel_names, parse_assembly
from wavecast.simulator.virtual import active_virtual_device, virtual_device
from wavecast.simulator.virtual.hip import VirtualHip

pytest.importorskip("ziglang")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
KERNEL = hip_kernel(torch.bfloat16, torch.float32)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with HIP's functions that keeps what it gets."""
    path = tmp_path_factory.mktemp("stand-in") / "libamdhip64.so"
    source = Path(__file__).with_name("stand_in.c")
    subprocess.run([sys.executable, "-m", "ziglang", "cc", "-shared", "-O1", str(source), "-o", str(path)], check=True)
    return path


class WithDeviceAddresses(RocmRuntime):
    """ROCm's library with a virtual device's addresses and stream."""

    def address_of(self, tensor: torch.Tensor | None) -> int:
        return 0 if tensor is None else active_virtual_device().address_of(tensor)

    def current_stream(self) -> int:
        return 77


def last(library: ctypes.CDLL) -> tuple[str, bytes, list[int]]:
    """Name, argument bytes, and sizes of the library's last launch."""
    library.last_name.restype = ctypes.c_char_p
    library.last_arguments.restype = ctypes.POINTER(ctypes.c_ubyte)
    library.last_size.restype = ctypes.c_size_t
    library.last_sizes.restype = ctypes.POINTER(ctypes.c_uint)
    return (
        library.last_name().decode(),
        bytes(library.last_arguments()[: library.last_size()]),
        library.last_sizes()[:7],
    )


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What virtual devices were given to launch."""
    launches: list[dict[str, Any]] = []
    launch = VirtualHip.launch

    def kept(self: VirtualHip, function: Any, **options: Any) -> None:
        launches.append(options)
        launch(self, function, **options)

    monkeypatch.setattr(VirtualHip, "launch", kept)
    return launches


def test_the_library_gets_the_bytes_that_are_executed(
    virtual_arch: str, library: Path, executed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once on the virtual device, once through the library: name, grid, block and argument bytes are the same."""
    from wavecast.kernels.hip import kernel

    call = make_call(64, [64], 64, 2, torch.bfloat16, biased=True)
    workspace = make_workspace(memory_of(call, 1, address_of=active_virtual_device().address_of))
    run_rank(call, workspace, hip_plans(call, virtual_arch, polls=3))
    (given,) = executed
    runtime = WithDeviceAddresses(str(library), virtual_arch)
    monkeypatch.setattr(kernel, "hip_runtime", lambda: runtime)
    values = struct.unpack("@" + "".join(kind for _, kind in PARAMETERS), given["packed"])
    tensors = {active_virtual_device().address_of(tensor): tensor for tensor in given["tensors"]}
    arguments = {
        name: tensors.get(value) if kind == "P" else value
        for (name, kind), value in zip(PARAMETERS, values, strict=True)
    }
    KERNEL.launch(given["grid"], arguments)
    name, packed, sizes = last(ctypes.CDLL(str(library)))
    assert name == KERNEL.name
    assert packed == given["packed"]
    assert sizes == [*given["grid"], *given["block"], 0]


def test_arguments_lie_where_the_compiler_expects_them(virtual_arch: str) -> None:
    kernel = parse_assembly(compile_hip(KERNEL.source, virtual_arch).assembly, name=KERNEL.name)
    found = [(item.name, item.offset, item.size) for item in kernel.arguments if not item.is_hidden]
    offsets, at = [], 0
    for name, kind in PARAMETERS:
        size = struct.calcsize(kind)
        at = -(-at // size) * size
        offsets.append((name, at, size))
        at += size
    assert found == offsets


def test_the_machine_code_is_an_elf_file_for_the_architecture(virtual_arch: str) -> None:
    code = compile_hip(KERNEL.source, virtual_arch).code_object
    assert code[:4] == b"\x7fELF"
    assert code[18:20] == b"\xe0\x00"  # EM_AMDGPU
    assert f"amdgcn-amd-amdhsa--{virtual_arch}".encode() in code


def test_the_machine_code_is_what_is_executed(virtual_arch: str, tmp_path: Path) -> None:
    """Taken apart again, the code object has the instructions and resources of the text, in every kernel."""
    compiled = compile_hip(KERNEL.source, virtual_arch)
    path = tmp_path / "kernels.hsaco"
    path.write_bytes(compiled.code_object)
    try:
        codes = read_binary(path)
    except MissingToolError as error:
        pytest.skip(str(error))
    assert tuple(code.name for code in codes) == tuple(kernel_names(compiled.assembly))
    for code in codes:
        text, binary = (parse_assembly(given, name=code.name) for given in (compiled.assembly, code.assembly))
        wanted = [item.opcode for item in text.instructions]
        found = [item.opcode for item in binary.instructions]
        # The disassembler ends with the last instruction that can be reached.
        assert found == wanted[: len(found)]
        assert set(wanted[len(found) :]) <= {"s_endpgm", "s_nop", "s_code_end"}
        assert binary.resources.vgpr == text.resources.vgpr
        assert binary.resources.lds_bytes == text.resources.lds_bytes


def test_a_call_that_fails_says_which_and_why(library: Path) -> None:
    runtime = RocmRuntime(str(library), "gfx942")
    module = runtime.load_module(compile_hip(KERNEL.source, "gfx942"))
    with pytest.raises(HipError, match="hipModuleGetFunction failed with error 500: named symbol not found"):
        runtime.get_function(module, "missing")


def test_a_link_of_their_own_is_one_hop_of_xgmi(library: Path) -> None:
    runtime = RocmRuntime(str(library), "gfx942")
    assert [runtime.has_own_link(0, other) for other in (1, 2, 3)] == [True, False, False]
    with pytest.raises(HipError, match="hipExtGetLinkTypeAndHopCount failed with error 101"):
        runtime.has_own_link(0, 4)


def test_copies_and_waits_on_streams(library: Path) -> None:
    runtime, loaded = RocmRuntime(str(library), "gfx942"), ctypes.CDLL(str(library))
    loaded.last_put.restype = ctypes.POINTER(ctypes.c_ulonglong)
    target, source, stream, event = 0x7F0012345678, 0x7F0087654320, 0x550000000010, 0x550000000020
    runtime.copy(target, source, 1 << 33, stream)
    assert loaded.last_put()[:6] == [1, target, source, 1 << 33, 3, stream]  # hipMemcpyDeviceToDevice
    runtime.record(event, stream)
    assert loaded.last_put()[:3] == [2, event, stream]
    runtime.wait(stream, event)
    assert loaded.last_put()[:4] == [3, stream, event, 0]
    with pytest.raises(HipError, match="hipMemcpyAsync failed with error 1"):
        runtime.copy(target, source, 0, stream)


def test_links_of_virtual_devices_are_those_of_their_specification(virtual_arch: str) -> None:
    assert is_full_mesh.__wrapped__(0, (0, 1, 2, 3, 4, 5, 6, 7))
    with virtual_device("h200"):
        assert not is_full_mesh.__wrapped__(0, (0, 1, 2, 3, 4, 5, 6, 7))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 1 << 31}, "does not fit its type"),
        ({"m": 1.5}, "does not fit its type"),
        ({"extra": 1}, "takes gathered"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(library: Path, change: dict[str, Any], message: str) -> None:
    arguments = {name: None if kind == "P" else 0 for name, kind in PARAMETERS} | change
    with pytest.raises(ValueError, match=message):
        KERNEL.pack(arguments, RocmRuntime(str(library), "gfx942"))


def test_without_a_device_that_it_is_for_it_says_so() -> None:
    with pytest.raises(ValueError, match="is for gfx942 and gfx950, got gfx90a; use the Triton kernel"):
        compile_hip(KERNEL.source, "gfx90a")
