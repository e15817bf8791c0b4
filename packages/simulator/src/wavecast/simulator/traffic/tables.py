"""A kernel's memory instructions as plain arrays, for the compiled loops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from wavecast.simulator.program.kept import OfKernels
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


class Column(IntEnum):
    """Columns of what the compiled loops know about a static instruction."""

    SPACE = 0  # UNTRACED, GLOBAL or LDS
    EVENT_KIND = 1  # READ, WRITE or ATOMIC
    WIDTH = 2  # bytes of a piece
    PIECES = 3  # 1 or 2
    OFFSET_0 = 4  # bytes to add to the address for each piece, LDS only
    OFFSET_1 = 5
    BANKS = 6  # LDS
    SERIAL = 7  # LDS: whether lanes on one dword queue


@dataclass(frozen=True, slots=True)
class InstructionTables:
    """One row a static instruction.

    Attributes:
        accesses: What it does, or None.
        columns: int64 (instructions, columns), see ``Column``.
        phase_of_lane: int64 (instructions, 64), for LDS.
    """

    accesses: tuple[MemoryAccess | None, ...]
    columns: np.ndarray
    phase_of_lane: np.ndarray

    @property
    def loads(self) -> np.ndarray:
        """Instructions that load from memory through L1, int64."""
        return np.flatnonzero((self.columns[:, Column.SPACE] == GLOBAL) & (self.columns[:, Column.EVENT_KIND] == READ))


def instruction_tables(kernel: Kernel) -> InstructionTables:
    """Classify every instruction of a kernel; kept for the next launch, so nobody may change the arrays."""
    return _tables(kernel)


def _classified(kernel: Kernel) -> InstructionTables:
    accesses = tuple(classify(instruction) for instruction in kernel.instructions)
    columns = np.zeros((len(accesses), len(Column)), dtype=np.int64)
    phase_of_lane = np.zeros((len(accesses), LANES), dtype=np.int64)
    for access, column, phase in zip(accesses, columns, phase_of_lane, strict=True):
        if access is None:
            continue
        column[Column.WIDTH], column[Column.PIECES] = access.piece_bytes, 1
        if access.kind.is_global:
            column[Column.SPACE], column[Column.EVENT_KIND] = GLOBAL, _EVENT_KIND[access.kind]
        elif access.kind.is_lds:
            phases = lds_phases(kernel.arch, access)
            column[Column.SPACE], column[Column.PIECES] = LDS, len(access.offsets)
            column[Column.OFFSET_0 : Column.OFFSET_0 + len(access.offsets)] = access.offsets
            column[Column.BANKS], column[Column.SERIAL] = phases.banks, access.kind is AccessKind.LDS_ATOMIC
            phase[:] = phases.phase_of_lane
    return InstructionTables(accesses, columns, phase_of_lane)


_tables = OfKernels(_classified)
