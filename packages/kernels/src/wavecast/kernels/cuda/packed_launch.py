"""Launches of a kernel compiled by Triton from a buffer of packed arguments, in which only addresses change.

Triton's launcher takes a list of Python values apart for every launch, and makes tensor maps anew of the same matrices.
Here arguments lie where the driver copies them from; a launch writes some addresses and calls the driver. A tensor map
follows from the address alone, once sizes stay, so those that were made are kept.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from wavecast.kernels.cuda.driver import TENSOR_MAP_BYTES, CudaDriver, LaunchConfig, PackedArguments

MOST_MAPS = 256
"""Tensor maps that are kept of a matrix."""

_WARP = 32

# Formats of struct for the types of Triton's signatures.
_SCALARS = {
    "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "fp64": "d",
}  # fmt: skip
_ADDRESS, _ADDRESS_BYTES = "Q", 8

# The kinds of elements that a tensor memory accelerator's descriptor of Triton's numbers otherwise than CUDA's.
_DATA_TYPES = {8: 10, 9: 8, 10: 9}


class PackedLaunch:
    """Launches with arguments that stay, but for the addresses of some tensors.

    Args:
        cuda: the driver.
        compiled: by Triton.
        programs: of the grid.
        arguments: all of the kernel's, constants too: descriptors, addresses of tensors that change, and what stays.
        changing: number of tensors that change, None among them.

    Raises:
        UnpackableError: the kernel's parameters are not what its signature says, or need more than a launch.
    """

    def __init__(
        self, cuda: CudaDriver, compiled: Any, programs: int, arguments: Sequence[Any], changing: int
    ) -> None:  # fmt: skip
        metadata = compiled.metadata
        _check_plain(metadata)
        places = cuda.parameter_places(compiled.function)
        if places is None:
            raise UnpackableError("the driver does not tell where parameters are")
        signature = [*compiled.src.signature.values()]
        given = [*_fields(signature, arguments), _Field(_ADDRESS, 0), _Field(_ADDRESS, 0)]  # two pieces of scratch
        sizes = [size for _, size in places]
        if [field.size for field in given] != sizes:
            raise UnpackableError(f"its parameters have sizes {sizes}, its signature {[f.size for f in given]}")
        self._arguments = PackedArguments(max(offset + size for offset, size in places))
        self._buffer = memoryview(self._arguments.buffer).cast("B")
        for field, (offset, _) in zip(given, places, strict=True):
            if field.value is not None:
                struct.pack_into("<" + field.format, self._buffer, offset, field.value)
        descriptors = [argument for argument in arguments if isinstance(argument, TensorDescriptor)]
        kept_maps = [offset for field, (offset, _) in zip(given, places, strict=True) if field.value is None]
        self._maps = [
            _Maps(cuda, descriptor, meta, offset)
            for descriptor, meta, offset in zip(descriptors, metadata.tensordesc_meta or (), kept_maps, strict=True)
        ]
        # Addresses that change are behind the descriptors, each of which is a map, sizes and strides.
        before = sum(1 + 2 * len(descriptor.shape) for descriptor in descriptors)
        present = sum(kind != "constexpr" for kind in signature[len(descriptors) : len(descriptors) + changing])
        at = [offset for offset, _ in places[before : before + present]]
        if any(there - here != _ADDRESS_BYTES for here, there in pairwise(at)):
            raise UnpackableError(f"its addresses are at {at}, not one behind another")
        self._first, self._pack = at[0] if at else 0, struct.Struct(f"<{present}{_ADDRESS}").pack_into
        self._config = LaunchConfig((programs, 1, 1), (_WARP * metadata.num_warps, 1, 1), metadata.shared)
        self._reference, self._function = ctypes.byref(self._config), ctypes.c_void_p(compiled.function)
        self._launch, self._failed = cuda.launch_function, cuda.launch_again
        # The buffer is of one launch at a time, whichever thread it comes from: the driver copies it.
        self._lock = Lock()

    def __call__(self, stream: int, matrices: Iterable[int], addresses: Iterable[int]) -> None:
        """Launch on a stream.

        Args:
            stream: its number.
            matrices: addresses of the descriptors' matrices.
            addresses: of the tensors that change, without those that are None.
        """
        buffer, config, listed = self._buffer, self._reference, self._arguments.listed
        with self._lock:
            for maps, matrix in zip(self._maps, matrices):  # noqa: B905 - as many as at the first launch
                buffer[maps.offset : maps.end] = maps[matrix]
            self._pack(buffer, self._first, *addresses)
            self._config.stream = stream
            status = self._launch(config, self._function, None, listed)
            if status:
                self._failed(status, config, self._function, listed)


class UnpackableError(ValueError):
    """A kernel cannot be launched from a buffer; Triton's launcher can."""


class _Maps(dict[int, bytes]):
    """Tensor maps of a descriptor's matrix by its address, and where in the buffer they are wanted."""

    def __init__(self, cuda: CudaDriver, descriptor: TensorDescriptor, meta: dict[str, Any], offset: int) -> None:
        super().__init__()
        if descriptor.padding != "zero" or getattr(descriptor, "round_f32_to_tf32", False) or meta["fp4_padded"]:
            raise UnpackableError("it has a descriptor of another kind")
        self.offset, self.end, self._encode = offset, offset + TENSOR_MAP_BYTES, cuda.tensor_map
        self._options: dict[str, Any] = {
            "data_type": _DATA_TYPES.get(meta["elem_type"], meta["elem_type"]),
            "element_bytes": meta["elem_size"],
            "shape": tuple(descriptor.shape),
            "strides": tuple(descriptor.strides),
            "block": tuple(meta["block_size"]),
            "swizzle": meta["swizzle"],
        }

    def __missing__(self, address: int) -> bytes:
        if len(self) >= MOST_MAPS:
            self.clear()
        self[address] = made = self._encode(address, **self._options)
        return made


class _Field(NamedTuple):
    """A parameter: its format, and its value; None for a tensor map."""

    format: str
    value: Any

    @property
    def size(self) -> int:
        return struct.calcsize("<" + self.format)


def _fields(signature: Sequence[Any], arguments: Sequence[Any]) -> Iterator[_Field]:
    """Parameters that arguments become; constants become none."""
    for kind, argument in zip(signature, arguments, strict=True):
        if isinstance(kind, tuple):
            yield from _fields(kind, argument)
        elif kind == "constexpr":
            continue
        elif kind.startswith("tensordesc"):
            yield _Field(f"{TENSOR_MAP_BYTES}s", None)
            yield from (_Field("i", size) for size in argument.shape)
            yield from (_Field("q", stride) for stride in argument.strides)
        elif kind[0] == "*":
            yield _Field(_ADDRESS, argument)
        elif kind in _SCALARS:
            yield _Field(_SCALARS[kind], argument)
        else:
            raise UnpackableError(f"it has a parameter of type {kind}")


def _check_plain(metadata: Any) -> None:
    """Check that a kernel needs nothing but a grid and its arguments.

    Raises:
        UnpackableError: it does.
    """
    wanted: dict[str, Hashable] = {
        "num_ctas": 1, "launch_cooperative_grid": False, "launch_pdl": False, "global_scratch_size": 0,
        "profile_scratch_size": 0,
    }  # fmt: skip
    for name, value in wanted.items():
        # What a later Triton does not tell may be needed.
        found = getattr(metadata, name, None)
        if found != value:
            raise UnpackableError(f"its {name} is {found}")
