"""The address trace: what the engine hands to whoever models memory.

One record is one executed vector-memory, LDS or atomic instruction of one wave. The engine fills a ring of them and
calls ``Observer.consume`` whenever the ring is full and at the end of the launch; records of a workgroup come in
the order of execution (waves alternate at barriers), workgroups in dispatch order.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

import numpy as np

_LINE_BYTES = 64


class RecordKind(IntEnum):
    """What a record is. All but the first are made only in launches that are checked."""

    ACCESS = 0  # addresses as they concern caches and LDS banks
    LDS_SIDE = 1  # LDS offsets that an instruction touches besides, or instead of, global memory
    SCALAR = 2  # a scalar load: one address, in lane 0
    EVENT = 3  # an instruction without addresses: a barrier, the end of a wave, a wait, a fence


# ``instruction`` indexes Kernel.instructions, ``wave`` counts in the workgroup, ``workgroup`` is the linear id and
# ``exec`` has the lanes that took part. ``address`` is each lane's byte address (device address, or LDS offset) and
# garbage in lanes that are not in ``exec``; it starts a cache line, since writing it is most of what a trace costs.
# ``kind`` is a ``RecordKind``. ``end`` is the first address that the range check of a buffer descriptor cuts off, or
# 2^64 - 1. In a checked launch, lanes whose store changed memory are in ``changed``, and those after whose store memory
# does not hold what they wrote, since another lane wrote to the same place, in ``lost``.
RECORD = np.dtype(
    {
        "names": ["instruction", "wave", "workgroup", "exec", "kind", "end", "changed", "lost", "address"],
        "formats": [*(np.int32, np.int32, np.int64, np.uint64), *(np.int64, *(np.uint64,) * 3), (np.uint64, (64,))],
        "offsets": [0, 4, 8, 16, 24, 32, 40, 48, _LINE_BYTES],
        "itemsize": _LINE_BYTES + 64 * 8,
    }
)


def record_ring(count: int) -> np.ndarray:
    """Zeroed records of dtype ``RECORD`` that start at cache lines."""
    backing = np.zeros(count * RECORD.itemsize + _LINE_BYTES, dtype=np.uint8)
    skip = -backing.ctypes.data % _LINE_BYTES
    return backing[skip : skip + count * RECORD.itemsize].view(RECORD)


# Rings of launches before: to map the memory anew takes longer than a small launch.
_spare: list[np.ndarray] = []


def spare_ring(count: int) -> np.ndarray:
    """As ``record_ring``, for a launch that is not checked: perhaps one of such a launch before.

    Those write the same fields of every record, so that the others are still zero.
    """
    try:
        ring = _spare.pop()
    except IndexError:
        return record_ring(count)
    return ring if len(ring) == count else record_ring(count)


def release_ring(ring: np.ndarray) -> None:
    """Let another launch have a ring of ``spare_ring``; it must not be used any more."""
    _spare[:] = [ring]


class Observer(Protocol):
    """Receives the address trace of a launch."""

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``; the array is reused after the call returns."""
