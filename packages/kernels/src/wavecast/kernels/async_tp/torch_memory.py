"""Symmetric memory over torch.distributed: windows of GPUs that reach each other, streams of CUDA or HIP."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from wavecast.kernels.async_tp.kernel_wait import wait_kernel
from wavecast.kernels.async_tp.symmetric import COMPUTE

SIGNALS = 256
"""Words of a signal pad."""

WAIT_POLLS = 2**31 - 1


class TorchSymmetricMemory:
    """A rank's view of a buffer that every rank of a group has allocated; made on all ranks at once.

    Args:
        group: of GPUs that reach each other's memory.
        window_bytes: of every rank's window; the same on all ranks.
    """

    def __init__(self, group: dist.ProcessGroup, window_bytes: int) -> None:
        self.rank, self.ranks = group.rank(), group.size()
        self.window_bytes, self.signal_count = window_bytes, SIGNALS
        device = torch.device("cuda", torch.cuda.current_device())
        # The pad is part of the buffer: the group's own one belongs to torch's barriers.
        self._pad_bytes = SIGNALS * torch.int32.itemsize
        buffer = symm_mem.empty(self._pad_bytes + window_bytes, dtype=torch.uint8, device=device)
        buffer.zero_()
        self._handle = symm_mem.rendezvous(buffer, group=group.group_name)
        self._buffers = [
            self._handle.get_buffer(rank, (self._pad_bytes + window_bytes,), torch.uint8) for rank in range(self.ranks)
        ]
        self._pads = [buffer[: self._pad_bytes].view(torch.int32) for buffer in self._buffers]
        self._pad_addresses = torch.tensor(self._handle.buffer_ptrs, dtype=torch.int64, device=device)
        self._window_addresses = self._pad_addresses + self._pad_bytes
        self._streams: dict[str, torch.cuda.Stream] = {}
        torch.cuda.synchronize(device)
        dist.barrier(group)

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        """See `SymmetricMemory.window`."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if offset_bytes % dtype.itemsize or offset_bytes + size > self.window_bytes:
            raise ValueError(
                f"{size} bytes from {offset_bytes} on are no part of a window of {self.window_bytes} bytes, or begin "
                f"at no multiple of {dtype.itemsize}; make the memory anew with a larger window"
            )
        start = self._pad_bytes + offset_bytes
        return self._buffers[rank][start : start + size].view(dtype).view(shape)

    def window_addresses(self) -> torch.Tensor:
        """See `SymmetricMemory.window_addresses`."""
        return self._window_addresses

    def signal_addresses(self) -> torch.Tensor:
        """See `SymmetricMemory.signal_addresses`."""
        return self._pad_addresses

    def signals(self, rank: int) -> torch.Tensor:
        """See `SymmetricMemory.signals`."""
        return self._pads[rank]

    def stream(self, name: str) -> torch.cuda.Stream:
        """See `SymmetricMemory.stream`; those of the memory go before others."""
        if name == COMPUTE:
            return torch.cuda.current_stream()
        if name not in self._streams:
            self._streams[name] = torch.cuda.Stream(priority=-1)
        return self._streams[name]

    def launching(self, stream: torch.cuda.Stream) -> AbstractContextManager[Any]:
        """See `SymmetricMemory.launching`."""
        return torch.cuda.stream(stream)

    def wait_stream(self, stream: torch.cuda.Stream, other: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.wait_stream`."""
        stream.wait_stream(other)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.copy`."""
        with torch.cuda.stream(stream):  # which the caller's stream waits for before a call ends: tensors live on
            target.copy_(source, non_blocking=True)

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.write_signal`: a copy of 4 bytes, behind the copies that it tells of."""
        word = self._pads[rank][index : index + 1]
        with torch.cuda.stream(stream):
            if isinstance(value, int):
                word.fill_(value)
            else:
                word.copy_(value, non_blocking=True)

    def wait_signal(self, index: int, value: int | torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.wait_signal`: a kernel of one program."""
        with torch.cuda.stream(stream):
            expected = value if isinstance(value, torch.Tensor) else torch.full_like(self._pads[self.rank][:1], value)
            wait_kernel[(1,)](self._pads[self.rank][index:], expected, WAIT_POLLS, ON_GFX=torch.version.hip is not None)

    def barrier(self, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.barrier`."""
        with torch.cuda.stream(stream):
            self._handle.barrier(channel=0)
