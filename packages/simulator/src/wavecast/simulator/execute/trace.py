"""The address trace: what the engine hands to whoever models memory.

One record is one executed vector-memory, LDS or atomic instruction of one wave. The engine fills a ring of them and
calls ``Observer.consume`` whenever the ring is full and at the end of every workgroup; records of a workgroup come in
the order of execution (waves alternate at barriers), workgroups in dispatch order.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

RECORD = np.dtype(
    [
        ("instruction", np.int32),  # index into Kernel.instructions
        ("wave", np.int32),  # wave in the workgroup
        ("workgroup", np.int64),  # linear workgroup id
        ("exec", np.uint64),  # lanes that took part
        ("address", np.uint64, (64,)),  # byte address of each lane: device address, or LDS offset; garbage if not in exec
    ]
)


class Observer(Protocol):
    """Receives the address trace of a launch."""

    def consume(self, records: np.ndarray) -> None:
        """Take records of dtype ``RECORD``; the array is reused after the call returns."""
