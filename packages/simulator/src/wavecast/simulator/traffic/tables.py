"""A kernel's memory instructions as plain arrays, for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavecast.simulator.program.kernel import Kernel
from wavecast.simulator.traffic.caches import ATOMIC, READ, WRITE
from wavecast.simulator.traffic.lds_banks import LANES, lds_phases
from wavecast.simulator.traffic.memory_access import AccessKind, MemoryAccess, classify

UNTRACED, GLOBAL, LDS = 0, 1, 2
_EVENT_KIND = {
    AccessKind.LOAD: READ,
    AccessKind.LDS_DIRECT: READ,
    AccessKind.STORE: WRITE,
    AccessKind.ATOMIC: ATOMIC,
}


@dataclass(frozen=True, slots=True)
class InstructionTables:
    """One entry a static instruction.

    Attributes:
        accesses: What it does, or None.
        space: int64: ``UNTRACED``, ``GLOBAL`` or ``LDS``.
        event_kind: int64: ``READ``, ``WRITE`` or ``ATOMIC``.
        width: int64, bytes of a piece.
        offsets: int64 (instructions, 2), offset of each piece.
        pieces: int64, 1 or 2.
        phase_of_lane: int64 (instructions, 64), for LDS.
        banks: int64, for LDS.
        serial: bool, whether lanes on one dword queue.
    """

    accesses: tuple[MemoryAccess | None, ...]
    space: np.ndarray
    event_kind: np.ndarray
    width: np.ndarray
    offsets: np.ndarray
    pieces: np.ndarray
    phase_of_lane: np.ndarray
    banks: np.ndarray
    serial: np.ndarray


def instruction_tables(kernel: Kernel) -> InstructionTables:
    """Classify every instruction of a kernel."""
    count = len(kernel.instructions)
    accesses = tuple(classify(instruction) for instruction in kernel.instructions)
    tables = InstructionTables(
        accesses=accesses,
        space=np.zeros(count, dtype=np.int64),
        event_kind=np.zeros(count, dtype=np.int64),
        width=np.zeros(count, dtype=np.int64),
        offsets=np.zeros((count, 2), dtype=np.int64),
        pieces=np.ones(count, dtype=np.int64),
        phase_of_lane=np.zeros((count, LANES), dtype=np.int64),
        banks=np.ones(count, dtype=np.int64),
        serial=np.zeros(count, dtype=np.bool_),
    )
    for index, access in enumerate(accesses):
        if access is None:
            continue
        tables.width[index] = access.piece_bytes
        if access.kind.is_global:
            tables.space[index] = GLOBAL
            tables.event_kind[index] = _EVENT_KIND[access.kind]
        elif access.kind.is_lds:
            phases = lds_phases(kernel.arch, access)
            tables.space[index] = LDS
            tables.pieces[index] = len(access.offsets)
            tables.offsets[index, : len(access.offsets)] = access.offsets
            tables.phase_of_lane[index] = phases.phase_of_lane
            tables.banks[index] = phases.banks
            tables.serial[index] = access.kind is AccessKind.LDS_ATOMIC
    return tables
