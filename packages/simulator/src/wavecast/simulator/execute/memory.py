"""The device's address space: host buffers mapped at reproducible device addresses with unmapped space between them.

Device addresses do not depend on where the host allocator put a buffer, so cache simulation is the same in every run.
A kernel can only reach mapped bytes; everything else is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.layout import PRIVATE_BASE, SHARED_BASE

# Buffers start at multiples of 2 MiB, as a GPU driver's large-page allocations do.
_ALIGNMENT = 1 << 21
_GUARD = 1 << 21
_FIRST = 1 << 40


@dataclass(frozen=True, slots=True)
class Buffer:
    """One mapped range.

    Attributes:
        name: For messages.
        host: Host address of its first byte.
        device: Device address of its first byte.
        size: Bytes.
    """

    name: str
    host: int
    device: int
    size: int


class AddressSpace:
    """Buffers of one device."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, int], Buffer] = {}
        self._next = _FIRST
        self._arrays: dict[tuple[int, int], np.ndarray] = {}

    @property
    def buffers(self) -> list[Buffer]:
        """Mapped buffers, ascending by device address."""
        return sorted(self._buffers.values(), key=lambda buffer: buffer.device)

    def map(self, host_pointer: int, nbytes: int, name: str) -> int:
        """Make host memory reachable; the same range again gives the same address.

        Args:
            host_pointer: Address of the first byte; the memory must outlive its use by kernels.
            nbytes: Size of the range.
            name: Shown when a kernel strays near it.

        Returns:
            Device address of the first byte.
        """
        if nbytes < 0 or (nbytes and not host_pointer):
            raise LaunchError(f"cannot map {name!r}: host address {host_pointer:#x}, {nbytes} bytes")
        key = (host_pointer, nbytes)
        known = self._buffers.get(key)
        if known is None:
            known = Buffer(name, host_pointer, self._next, nbytes)
            self._buffers[key] = known
            end = self._next + nbytes + _GUARD
            self._next = (end + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        return known.device

    def map_array(self, array: np.ndarray, name: str) -> int:
        """Map a contiguous numpy array and keep it alive until it is unmapped."""
        if not array.flags.c_contiguous:
            raise LaunchError(f"array {name!r} is not contiguous", hint="pass numpy.ascontiguousarray(array)")
        self._arrays[array.ctypes.data, array.nbytes] = array
        return self.map(array.ctypes.data, array.nbytes, name)

    def unmap(self, host_pointer: int, nbytes: int) -> None:
        """Forget a range; its device address is not used again."""
        self._buffers.pop((host_pointer, nbytes), None)
        self._arrays.pop((host_pointer, nbytes), None)

    def device_pointer(self, host_pointer: int) -> int:
        """Device address of a host address inside a mapped buffer."""
        for buffer in self._buffers.values():
            if buffer.host <= host_pointer < buffer.host + max(buffer.size, 1):
                return buffer.device + host_pointer - buffer.host
        raise LaunchError(f"host address {host_pointer:#x} is in no mapped buffer", hint="map the buffer first")

    def table(self) -> np.ndarray:
        """int64 (buffers, 3): device base, device end, host minus device."""
        rows = [(b.device, b.device + b.size, b.host - b.device) for b in self.buffers]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def describe(self, address: int) -> str:
        """Where an address lies relative to the buffers, for messages."""
        for base, window in ((SHARED_BASE, "the workgroup's LDS"), (PRIVATE_BASE, "the lane's scratch")):
            if base <= address < base + (1 << 32):
                return f"{address - base} bytes into the window onto {window}, which is smaller"
        nearest: tuple[int, str] | None = None
        for buffer in self._buffers.values():
            end = buffer.device + buffer.size
            if buffer.device <= address < end:
                return f"{address - buffer.device} bytes into {buffer.name!r} ({buffer.size} bytes)"
            behind = address >= end
            distance = address - end if behind else buffer.device - address
            if nearest is None or distance < nearest[0]:
                side = "past the end of" if behind else "before"
                nearest = distance, f"{distance} bytes {side} {buffer.name!r} ({buffer.size} bytes)"
        return nearest[1] if nearest else "no buffer is mapped"
