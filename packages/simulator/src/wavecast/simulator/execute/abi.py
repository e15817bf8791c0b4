"""The launch ABI: kernel-argument segment and the registers a wave starts with.

Facts from LLVM's AMDGPUUsage ("Initial Kernel Execution State", "Kernel Argument preload").
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.execute.float_mode import mode_register
from wavecast.simulator.execute.layout import SCALAR_SLOTS
from wavecast.simulator.program.instruction import EXEC, MODE
from wavecast.simulator.program.kernel import Argument, Kernel

ArgumentValue = int | float | bytes | np.integer[Any] | np.floating[Any]
Grid = tuple[int, int, int]

_HIDDEN_GRID = {"hidden_block_count_x": 0, "hidden_block_count_y": 1, "hidden_block_count_z": 2}
_HIDDEN_BLOCK = {"hidden_group_size_x": 0, "hidden_group_size_y": 1, "hidden_group_size_z": 2}
# User scalar registers in the order in which they are assigned, with their size in registers.
USER_SCALARS = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
# Kernel dispatch (2) with the barrier bit and system-scope acquire and release, as runtimes submit it.
_PACKET_HEADER = 2 | 1 << 8 | 2 << 9 | 2 << 11
PACKET_BYTES = 64


def pack_arguments(kernel: Kernel, values: Sequence[ArgumentValue], grid: Grid, block: Grid) -> np.ndarray:
    """The kernel-argument segment as bytes.

    Args:
        kernel: Whose metadata gives offsets and sizes.
        values: One value per explicit argument: device addresses and integers as int, float scalars as float (packed
            by size), anything else as bytes of the exact size.
        grid: Workgroups, for the hidden arguments.
        block: Work-items a workgroup, likewise.

    Raises:
        LaunchError: Wrong number of values, or one that does not fit its size.
    """
    explicit = [argument for argument in kernel.arguments if not argument.is_hidden]
    if len(values) != len(explicit):
        raise LaunchError(f"kernel {kernel.name} takes {len(explicit)} arguments, {len(values)} were given")
    ends = [argument.offset + argument.size for argument in kernel.arguments]
    segment = np.zeros(max(kernel.kernarg_bytes, 8, *ends), dtype=np.uint8)
    for position, (argument, value) in enumerate(zip(explicit, values, strict=True)):
        _put(segment, argument, _to_bytes(kernel, position, argument, value))
    for argument in kernel.arguments:
        if argument.is_hidden:
            _put(segment, argument, _hidden(kernel, argument, grid, block).to_bytes(argument.size, "little"))
    return segment


def put_service(kernel: Kernel, segment: np.ndarray, kind: str, address: int) -> None:
    """Write the address of a service to the kernel-argument segment.

    Args:
        kernel: Whose metadata gives offsets.
        segment: Kernel-argument segment; changed.
        kind: ``value_kind`` of the argument, ``hidden_hostcall_buffer``.
        address: Device address.

    Raises:
        LaunchError: The kernel has no such argument.
    """
    for argument in kernel.arguments:
        if argument.kind == kind:
            _put(segment, argument, address.to_bytes(argument.size, "little"))
            return
    raise LaunchError(f"kernel {kernel.name} calls the host, and its metadata has no {kind}")


def _put(segment: np.ndarray, argument: Argument, data: bytes) -> None:
    segment[argument.offset : argument.offset + argument.size] = np.frombuffer(data, dtype=np.uint8)


def _to_bytes(kernel: Kernel, position: int, argument: Argument, value: ArgumentValue) -> bytes:
    where = f"kernel {kernel.name}, argument {position} {argument.name!r}"
    if isinstance(value, bytes):
        if len(value) != argument.size:
            raise LaunchError(f"{where}: {len(value)} bytes given, {argument.size} wanted")
        return value
    if isinstance(value, float | np.floating):
        formats = {2: "<e", 4: "<f", 8: "<d"}
        if argument.size not in formats:
            raise LaunchError(f"{where}: a float cannot fill {argument.size} bytes")
        return struct.pack(formats[argument.size], value)
    try:
        number = operator.index(value)
    except TypeError:
        raise LaunchError(
            f"{where}: {value!r} is no argument value", hint="pass an integer, a float or bytes"
        ) from None
    limit = 1 << (8 * argument.size)
    if not -limit // 2 <= number < limit:
        raise LaunchError(f"{where}: {number} does not fit {argument.size} bytes")
    return (number % limit).to_bytes(argument.size, "little")


def _hidden(kernel: Kernel, argument: Argument, grid: Grid, block: Grid) -> int:
    kind = argument.kind
    if kind in _HIDDEN_GRID:
        return grid[_HIDDEN_GRID[kind]]
    if kind in _HIDDEN_BLOCK:
        return block[_HIDDEN_BLOCK[kind]]
    if kind == "hidden_grid_dims":
        return _dimensions(grid, block)
    if kind == "hidden_dynamic_lds_size":
        return kernel.resources.lds_bytes - kernel.descriptor.get("group_segment_fixed_size", 0)
    # Remainders, global offsets and the service pointers (printf, hostcall, heap, queue) are zero in a plain launch.
    return 0


def _dimensions(grid: Grid, block: Grid) -> int:
    return max(axis + 1 for axis in range(3) if axis == 0 or grid[axis] * block[axis] > 1)


def dispatch_packet(kernel: Kernel, grid: Grid, block: Grid, segment_address: int) -> np.ndarray:
    """The queue entry of the launch as bytes (64,), which kernels read for the size of workgroup and grid.

    Fields as in the HSA runtime specification's ``hsa_kernel_dispatch_packet_t``; a grid there counts work-items.
    """
    items = [count * size for count, size in zip(grid, block, strict=True)]
    resources = kernel.resources
    packet = struct.pack(
        "<6H5I4Q",
        *(_PACKET_HEADER, _dimensions(grid, block), *block, 0),
        *(*items, resources.scratch_bytes, resources.lds_bytes),
        *(0, segment_address, 0, 0),
    )
    return np.frombuffer(packet, dtype=np.uint8)


def initial_scalars(
    kernel: Kernel, segment: np.ndarray, segment_address: int, packet_address: int
) -> tuple[np.ndarray, Grid]:
    """Scalar registers at the start of a wave, and the slots that take the workgroup id.

    Args:
        kernel: Whose descriptor says what is set.
        segment: Kernel-argument segment.
        segment_address: Its device address.
        packet_address: Device address of the dispatch packet.

    Returns:
        int32 (SCALAR_SLOTS,), and the slot of workgroup id x, y, z, or -1 where it is not enabled.
    """
    scalars = np.zeros(SCALAR_SLOTS, dtype=np.int32)
    words = scalars.view(np.uint32)
    descriptor = kernel.descriptor
    slot = 0
    for name, size in USER_SCALARS:
        if not descriptor.get(f"user_sgpr_{name}", 0):
            continue
        if name == "kernarg_segment_ptr":
            words[slot : slot + 2] = (segment_address & 0xFFFFFFFF, segment_address >> 32)
        elif name == "dispatch_ptr":
            words[slot : slot + 2] = (packet_address & 0xFFFFFFFF, packet_address >> 32)
        elif name == "private_segment_size":
            words[slot] = kernel.resources.scratch_bytes
        slot += size
    length = descriptor.get("user_sgpr_kernarg_preload_length", 0)
    first = descriptor.get("user_sgpr_kernarg_preload_offset", 0)
    padded = np.zeros((first + length + 1) * 4 + segment.nbytes, dtype=np.uint8)
    padded[: segment.nbytes] = segment
    words[slot : slot + length] = padded.view(np.uint8)[first * 4 : (first + length) * 4].view(np.uint32)
    slot = max(descriptor.get("user_sgpr_count", slot + length), slot + length)
    ids = [-1, -1, -1]
    for axis, letter in enumerate("xyz"):
        if descriptor.get(f"system_sgpr_workgroup_id_{letter}", 1 if letter == "x" else 0):
            ids[axis] = slot
            slot += 1
    words[EXEC] = words[EXEC + 1] = 0xFFFFFFFF
    words[MODE] = mode_register(kernel)
    return scalars, (ids[0], ids[1], ids[2])
