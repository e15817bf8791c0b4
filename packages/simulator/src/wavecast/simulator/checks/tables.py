"""What the scan has to know of each instruction, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from wavecast.simulator.checks.cells import MOST_INSTRUCTIONS
from wavecast.simulator.checks.provenance import buffers_of
from wavecast.simulator.errors import LaunchError
from wavecast.simulator.program.instruction import Instruction, Symbol
from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess, classify


class Action(IntEnum):
    """What an access does to memory."""

    NONE = 0
    READ = 1
    WRITE = 2
    ATOMIC = 3


class Scope(IntEnum):
    """Who sees a memory operation, or what a fence is good for."""

    WAVE = 0
    WORKGROUP = 1
    AGENT = 2
    SYSTEM = 3


class Event(IntEnum):
    """What an instruction without addresses does."""

    NONE = 0
    BARRIER = 1
    END = 2
    WRITE_BACK = 3
    INVALIDATE = 4
    WAIT_VM = 5  # all vector-memory operations of the wave are done


class Column(IntEnum):
    """Columns of the table; a row an instruction."""

    ACTION = 0
    IN_LDS = 1
    WIDTH = 2
    PIECES = 3
    OFFSET_0 = 4
    OFFSET_1 = 5
    SCOPE = 6
    EVENT = 7
    ALIGNMENT = 8
    NUMBER = 9  # among the memory instructions
    OWNERS = 10  # buffers that the address may come from, a bit each; -1 for any
    IS_FLAG_WRITE = 11  # atomic, or a store with at least the device's scope
    LDS_ACTION = 12  # of the record of its LDS side


_ACTIONS = {
    AccessKind.LOAD: Action.READ,
    AccessKind.STORE: Action.WRITE,
    AccessKind.ATOMIC: Action.ATOMIC,
    AccessKind.LDS_READ: Action.READ,
    AccessKind.LDS_WRITE: Action.WRITE,
    AccessKind.LDS_ATOMIC: Action.ATOMIC,
    AccessKind.LDS_DIRECT: Action.READ,
    AccessKind.SCALAR_LOAD: Action.READ,
}
_VM_RAW_MASK = 0xF | 0x3 << 14


def instruction_columns(kernel: Kernel) -> np.ndarray:
    """int64 (instructions, columns), all but ``OWNERS``, which depends on the launch.

    Raises:
        LaunchError: More memory instructions than a cell can tell apart.
    """
    columns = np.zeros((len(kernel.instructions), len(Column)), dtype=np.int64)
    number = 0
    for instruction, row in zip(kernel.instructions, columns, strict=True):
        row[Column.EVENT] = _event(instruction)
        row[Column.SCOPE] = scope_of(instruction)
        access = classify(instruction)
        if access is None or access.kind.is_scratch:
            continue
        _fill(row, instruction, access)
        row[Column.NUMBER] = number
        number += 1
    if number > MOST_INSTRUCTIONS:
        raise LaunchError(
            f"kernel {kernel.name} has {number} memory instructions, and checks tell {MOST_INSTRUCTIONS} apart",
            hint="run it without checks, or unroll less",
        )
    return columns


def _fill(row: np.ndarray, instruction: Instruction, access: MemoryAccess) -> None:
    action = _ACTIONS[access.kind]
    is_atomic = action is Action.ATOMIC
    row[Column.ACTION], row[Column.IN_LDS] = action, access.kind.is_lds
    row[Column.WIDTH], row[Column.PIECES] = access.piece_bytes, len(access.offsets)
    row[Column.OFFSET_0 : Column.OFFSET_0 + len(access.offsets)] = access.offsets
    row[Column.ALIGNMENT] = access.piece_bytes if is_atomic else min(4, access.piece_bytes & -access.piece_bytes)
    if is_atomic and not access.kind.is_lds:
        row[Column.SCOPE] = Scope.SYSTEM if instruction.modifiers.get("sc1") else Scope.AGENT
    if not access.kind.is_lds:
        row[Column.IS_FLAG_WRITE] = is_atomic or (action is Action.WRITE and row[Column.SCOPE] >= Scope.AGENT)
    row[Column.LDS_ACTION] = Action.WRITE if access.kind is AccessKind.LDS_DIRECT else action


def scope_of(instruction: Instruction) -> Scope:
    """What ``sc0`` and ``sc1`` say on loads, stores and fences (LLVM AMDGPUUsage, memory model gfx942)."""
    # A fence has no operands, so that its first modifier stands where they would.
    given = {*instruction.modifiers, *(o.value.text for o in instruction.operands if isinstance(o.value, Symbol))}
    near, far = "sc0" in given, "sc1" in given
    if far:
        return Scope.SYSTEM if near else Scope.AGENT
    return Scope.WORKGROUP if near else Scope.WAVE


def _event(instruction: Instruction) -> Event:
    opcode = instruction.opcode
    if opcode == "s_waitcnt":
        raw = instruction.modifiers.get("raw")
        waits = instruction.modifiers.get("vmcnt") == 0 or (isinstance(raw, int) and not raw & _VM_RAW_MASK)
        return Event.WAIT_VM if waits else Event.NONE
    return {
        "s_barrier": Event.BARRIER,
        "s_endpgm": Event.END,
        "buffer_wbl2": Event.WRITE_BACK,
        "buffer_inv": Event.INVALIDATE,
    }.get(opcode, Event.NONE)


def wanted_events(columns: np.ndarray) -> list[int]:
    """Instructions whose execution the scan has to see; waits only where there is a fence that they complete."""
    events = columns[:, Column.EVENT]
    wanted = events != Event.NONE
    if not (events == Event.WRITE_BACK).any() and not columns[:, Column.IS_FLAG_WRITE].any():
        wanted &= events != Event.WAIT_VM
    return [int(index) for index in np.flatnonzero(wanted)]


def set_owners(columns: np.ndarray, owners: dict[int, int], buffer_of_argument: Sequence[int]) -> None:
    """Fill in ``OWNERS`` for a launch.

    Args:
        columns: Of the kernel.
        owners: From ``address_owners``.
        buffer_of_argument: For every explicit argument the number of the buffer it points into, or -1.
    """
    columns[:, Column.OWNERS] = -1
    for index, arguments in owners.items():
        columns[index, Column.OWNERS] = buffers_of(arguments, buffer_of_argument)
