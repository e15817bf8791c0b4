"""The address trace: what the engine hands to whoever models memory.

One record is one executed vector-memory, LDS or atomic instruction of one wave. The engine fills a ring of them and
calls ``Observer.consume`` whenever the ring is full and at the end of the launch; records of a workgroup come in
the order of execution (waves alternate at barriers), workgroups in dispatch order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

_LINE_BYTES = 64

# ``instruction`` indexes Kernel.instructions, ``wave`` counts in the workgroup, ``workgroup`` is the linear id and
# ``exec`` has the lanes that took part. ``address`` is each lane's byte address (device address, or LDS offset) and
# garbage in lanes that are not in ``exec``; it starts a cache line, since writing it is most of what a trace costs.
RECORD = np.dtype(
    {
        "names": ["instruction", "wave", "workgroup", "exec", "address"],
        "formats": [np.int32, np.int32, np.int64, np.uint64, (np.uint64, (64,))],
        "offsets": [0, 4, 8, 16, _LINE_BYTES],
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
