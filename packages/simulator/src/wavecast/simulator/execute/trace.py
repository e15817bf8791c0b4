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


class Observer(Protocol):
    """Receives the address trace of a launch."""

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``; the array is reused after the call returns."""
