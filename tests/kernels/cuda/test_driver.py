"""CUDA's driver through ctypes: a library built with the driver's own header gets what its functions declare."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton.backends.nvidia
from idle_device import idle_group

from wavecast.kernels.cuda.driver import CudaDriver, CudaError, LaunchConfig, PackedArguments

pytest.importorskip("ziglang")
pytestmark = pytest.mark.compile
HEADERS = Path(triton.backends.nvidia.__file__).parent / "include"
TARGET, SOURCE, STREAM, EVENT, FUNCTION = 0x7F00_1234_5678, 0x7F00_8765_4320, 0x5500_0000_0010, 0x5500_0000_0020, 0x66


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("stand-in") / "libcuda.so"
    source = Path(__file__).with_name("stand_in.c")
    command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-O1", f"-I{HEADERS}", str(source), "-o", str(path)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.last_arguments.restype = ctypes.POINTER(ctypes.c_ubyte)
    loaded.last_size.restype = ctypes.c_size_t
    loaded.last_put.restype = ctypes.POINTER(ctypes.c_ulonglong)
    return loaded


def launch(cuda: CudaDriver) -> bytes:
    """Put a launch of three parameters on a stream; their bytes."""
    packed = struct.pack("<128sQi", bytes(range(128)), TARGET, -7)
    arguments = PackedArguments(len(packed))
    arguments.buffer[:] = packed  # type: ignore[misc]
    config, function = LaunchConfig((5, 1, 1), (128, 1, 1), 4096, STREAM), ctypes.c_void_p(FUNCTION)
    status = cuda.launch_function(ctypes.byref(config), function, None, arguments.listed)
    if status:
        cuda.launch_again(status, ctypes.byref(config), function, arguments.listed)
    return packed


def test_a_launch_has_its_grid_stream_and_bytes(library: ctypes.CDLL) -> None:
    packed = launch(CudaDriver(library))
    assert bytes(library.last_arguments()[: library.last_size()]) == packed
    assert library.last_put()[:8] == [5, 1, 1, 128, 101, 4096, STREAM, FUNCTION]


def test_where_parameters_are(library: ctypes.CDLL) -> None:
    assert CudaDriver(library).parameter_places(FUNCTION) == [(0, 128), (128, 8), (136, 4)]


def test_a_map_of_a_matrix(library: ctypes.CDLL) -> None:
    """Dimensions are counted from the innermost one; steps are bytes."""
    made = CudaDriver(library).tensor_map(
        TARGET, data_type=9, element_bytes=2, shape=(300, 200), strides=(256, 1), block=(128, 64), swizzle=3
    )
    assert struct.unpack("<16Q", made)[:13] == (9, TARGET, 200, 300, 512, 64, 128, 1, 1, 0, 3, 2, 0)


PUT: list[tuple[Callable[[CudaDriver], Any], list[int]]] = [
    (lambda cuda: cuda.copy(TARGET, SOURCE, 1 << 33, STREAM), [1, TARGET, SOURCE, 1 << 33, STREAM]),
    (lambda cuda: cuda.record(EVENT, STREAM), [2, EVENT, STREAM, 0, 0]),
    (lambda cuda: cuda.wait(STREAM, EVENT), [3, STREAM, EVENT, 0, 0]),
]


@pytest.mark.parametrize(("put", "wanted"), PUT, ids=["copy", "record", "wait"])
def test_what_is_put_on_streams(library: ctypes.CDLL, put: Callable[[CudaDriver], Any], wanted: list[int]) -> None:
    put(CudaDriver(library))
    assert library.last_put()[:5] == wanted


@pytest.mark.parametrize("put", [launch, *(put for put, _ in PUT)], ids=["launch", "copy", "record", "wait"])
def test_a_thread_without_a_context_gets_that_of_its_device(
    library: ctypes.CDLL, put: Callable[[CudaDriver], Any]
) -> None:
    """The stand-in refuses everything until the context of device 0 is current."""
    with idle_group():
        library.forget_context()
        put(CudaDriver(library))


def test_what_fails_says_what_and_why(library: ctypes.CDLL) -> None:
    with pytest.raises(CudaError, match=r"cuMemcpyAsync failed with CUDA_ERROR_INVALID_VALUE \(1\)"):
        CudaDriver(library).copy(TARGET, SOURCE, 0, STREAM)
