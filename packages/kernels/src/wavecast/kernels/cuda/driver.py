"""CUDA's driver through ctypes: what is put on streams costs the host little more than the driver's own function."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from triton.runtime import driver

from wavecast.kernels.device import arch_of

TENSOR_MAP_BYTES = 128
"""Size of a CUtensorMap, which is also a multiple of its alignment."""

# Of cuda.h: the list that tells cuLaunchKernelEx of a buffer of arguments, and how a tensor map is read.
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0
_INTERLEAVE_NONE, _L2_PROMOTION_128_BYTES, _FILL_ZERO = 0, 2, 0
_INVALID_VALUE, _INVALID_CONTEXT = 1, 201


class CudaError(RuntimeError):
    """A function of CUDA's driver failed."""


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class PackedArguments:
    """A buffer of a launch's arguments, and the list that tells the driver of it.

    Args:
        nbytes: of all arguments.
    """

    def __init__(self, nbytes: int) -> None:
        self.buffer, self._size = ctypes.create_string_buffer(nbytes), ctypes.c_size_t(nbytes)
        self.listed = (ctypes.c_void_p * 5)(
            _BUFFER_POINTER, ctypes.addressof(self.buffer), _BUFFER_SIZE, ctypes.addressof(self._size), _END
        )


class CudaDriver:
    """The functions of the driver that are needed here. What it refuses is a `CudaError`.

    Args:
        library: the driver's; by default the one of the machine.

    Attributes:
        launch_function: cuLaunchKernelEx, which a launch calls directly: it copies the arguments before it returns.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = cuda = ctypes.CDLL("libcuda.so.1") if library is None else library
        pointer, size, unsigned = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
        self.launch_function = cuda.cuLaunchKernelEx
        self._copy = _with_types(cuda.cuMemcpyAsync, pointer, pointer, size, pointer)
        self._record = _with_types(cuda.cuEventRecord, pointer, pointer)
        self._wait = _with_types(cuda.cuStreamWaitEvent, pointer, pointer, unsigned)
        self._parameter = getattr(cuda, "cuFuncGetParamInfo", None)  # of CUDA 12.4 on
        self._encode = cuda.cuTensorMapEncodeTiled

    def parameter_places(self, function: int) -> list[tuple[int, int]] | None:
        """Offset and size in bytes of each parameter of a kernel; None where the driver does not tell."""
        if self._parameter is None:
            return None
        found: list[tuple[int, int]] = []
        while True:
            offset, size = ctypes.c_size_t(), ctypes.c_size_t()
            status = self._parameter(
                ctypes.c_void_p(function), ctypes.c_size_t(len(found)), ctypes.byref(offset), ctypes.byref(size)
            )
            if status == _INVALID_VALUE:  # there are no more
                return found
            self._check(status, "cuFuncGetParamInfo")
            found.append((offset.value, size.value))

    def launch_again(self, status: int, config: Any, function: ctypes.c_void_p, arguments: Any) -> None:
        """What follows from `launch_function`'s status, where it is not zero.

        Raises:
            CudaError: the launch is refused.
        """
        self._again(status, self.launch_function, config, function, None, arguments)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Copy between addresses of GPUs when a stream comes to it."""
        status = self._copy(target, source, nbytes, stream)
        if status:
            self._again(status, self._copy, target, source, nbytes, stream)

    def record(self, event: int, stream: int) -> None:
        """Let an event stand for what is on a stream so far."""
        status = self._record(event, stream)
        if status:
            self._again(status, self._record, event, stream)

    def wait(self, stream: int, event: int) -> None:
        """Hold a stream until what an event now stands for is done."""
        status = self._wait(stream, event, 0)
        if status:
            self._again(status, self._wait, stream, event, 0)

    def tensor_map(
        self, address: int, *, data_type: int, element_bytes: int, shape: Sequence[int], strides: Sequence[int],
        block: Sequence[int], swizzle: int,
    ) -> bytes:  # fmt: skip
        """What the tensor memory accelerator needs to know of a tensor, of which what is outside reads as zero.

        Args:
            address: of the first element.
            data_type: a CUtensorMapDataType.
            element_bytes: of an element.
            shape, strides: in elements, the last stride 1.
            block: elements that are copied at a time.
            swizzle: a CUtensorMapSwizzle.
        """
        rank = len(shape)
        # 64 bytes is the alignment that the driver asks for.
        room = ctypes.create_string_buffer(2 * TENSOR_MAP_BYTES)
        at = -ctypes.addressof(room) % TENSOR_MAP_BYTES
        sizes = (ctypes.c_uint64 * rank)(*reversed(shape))
        steps = (ctypes.c_uint64 * rank)(*(stride * element_bytes for stride in reversed(strides[:-1])))
        box = (ctypes.c_uint32 * rank)(*reversed(block))
        every = (ctypes.c_uint32 * rank)(*[1] * rank)
        status = self._encode(
            ctypes.c_void_p(ctypes.addressof(room) + at), data_type, rank, ctypes.c_void_p(address), sizes, steps, box,
            every, _INTERLEAVE_NONE, swizzle, _L2_PROMOTION_128_BYTES, _FILL_ZERO,
        )  # fmt: skip
        self._check(status, "cuTensorMapEncodeTiled")
        return room.raw[at : at + TENSOR_MAP_BYTES]

    def _again(self, status: int, function: Any, *arguments: Any) -> None:
        """Call what has failed once more, if that was for want of a context.

        A thread has the current device's one only after its first call of the runtime, and Triton's and torch's calls
        need not have been any.
        """
        if status == _INVALID_CONTEXT:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            index = driver.active.get_current_device()
            self._check(self._library.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
            self._check(
                self._library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain"
            )
            self._check(self._library.cuCtxSetCurrent(context), "cuCtxSetCurrent")
            status = function(*arguments)
        self._check(status, function.__name__)

    def _check(self, status: int, name: str) -> None:
        """Raise the error of a status that is one."""
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            said = (text.value or b"an unknown error").decode()
            raise CudaError(f"{name} failed with {said} ({status})")


def cuda_driver() -> CudaDriver | None:
    """The driver of the GPU that Triton's active driver is for, or what that has in its place; None without one."""
    active = driver.active
    if getattr(active, "is_virtual", False):
        stand_in: CudaDriver | None = getattr(active, "cuda", None)
        return stand_in
    return _cuda() if arch_of(active.get_current_target()).startswith("sm_") else None


@cache
def _cuda() -> CudaDriver:
    return CudaDriver()


def _with_types(function: Any, *types: Any) -> Any:
    function.argtypes = types
    return function
