"""What one rank keeps between calls: the number of the call, the failure record, and where things are in a window."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch

from wavecast.kernels.async_tp.device_signals import STATE_WORDS
from wavecast.kernels.async_tp.symmetric import SymmetricMemory

SCALES_ALIGNMENT_BYTES = 256
"""Scales of a chunk begin at the next multiple behind its rows."""


class SignalTimeoutError(RuntimeError):
    """A signal did not come in time: a rank is missing, late beyond the limit, or has failed.

    Attributes:
        rank: that waited.
        chunk: whose signal did not come: that of this rank.
        expected: number of the call that it was to have.
        seen: what it had.
    """

    def __init__(self, rank: int, chunk: int, expected: int, seen: int) -> None:
        super().__init__(
            f"rank {rank} gave up waiting for chunk {chunk}: its signal was to be {expected} and is {seen}; results "
            f"of this call are incomplete; rank {chunk} has not started its call, is late, or has failed; make the "
            "workspace of the group anew on every rank before the next call"
        )
        self.rank, self.chunk, self.expected, self.seen = rank, chunk, expected, seen


MOST_KEPT = 1024
"""Entries of a table, at most: calls, or launches."""


@dataclass(eq=False)
class Workspace:
    """State of one rank over one symmetric memory, made on every rank at once.

    Attributes:
        memory: windows, signals and streams.
        state: int32 words of the kernels, see ``device_signals``: number of the call, and counters.
        failure: int32 (4,) that kernels write when they give up, and the host reads without waiting for the device: in
            host memory where a GPU is used.
        addresses: int64 (2 * ranks,): where every rank's window begins, and behind them where every rank's signal pad
            does. Made with the workspace: what a captured call makes holds nothing until it is replayed.
        lent: whether the caller has this rank's window too, and may write there between calls.
        calls: of the operators, by the way that has been chosen for them: what is planned once for all that are alike.
    """

    memory: SymmetricMemory
    state: torch.Tensor
    failure: torch.Tensor
    addresses: torch.Tensor
    lent: bool = False
    calls: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def call_number(self) -> torch.Tensor:
        """(1,) int32 on the device: what this call's signals are written with."""
        return self.state[:1]

    def check(self) -> None:
        """Raise what a kernel has reported so far. Does not wait for kernels that still run.

        Raises:
            SignalTimeoutError: a kernel has given up.
        """
        failed, chunk, expected, seen = self.failure.tolist()
        if failed:
            raise SignalTimeoutError(self.memory.rank, chunk, expected, seen)


def keep(table: dict[Hashable, Any], key: Hashable, value: Any) -> None:
    """Keep one more, beside not too many others."""
    if len(table) >= MOST_KEPT:
        table.clear()
    table[key] = value


def make_workspace(memory: SymmetricMemory, failure: torch.Tensor | None = None) -> Workspace:
    """A workspace whose first call is number 1; its signals are zero.

    Args:
        memory: of this rank.
        failure: what the memory's own kernels report failures in; None where it has none.
    """
    own = memory.signals(memory.rank)
    state = torch.zeros(STATE_WORDS, dtype=torch.int32, device=own.device)
    state[0] = 1
    addresses = torch.cat([memory.window_addresses(), memory.signal_addresses()])
    return Workspace(memory, state, failure_record(own.device) if failure is None else failure, addresses)


def failure_record(device: torch.device) -> torch.Tensor:
    """int32 (4,) that kernels on a device can report a failure in, and the host reads without waiting for them."""
    return torch.zeros(4, dtype=torch.int32, pin_memory=device.type == "cuda")


def scales_offset(rows_bytes: int) -> int:
    """Byte of a window from which on the scales of a chunk of so many bytes are."""
    return -(-rows_bytes // SCALES_ALIGNMENT_BYTES) * SCALES_ALIGNMENT_BYTES
