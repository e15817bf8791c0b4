"""Symmetric memory over torch.distributed: windows of GPUs that reach each other, streams of CUDA or HIP."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

from wavecast.kernels.async_tp.gpu_streams import GpuStreams
from wavecast.kernels.async_tp.links import is_full_mesh
from wavecast.kernels.async_tp.meeting import Meetings
from wavecast.kernels.async_tp.members import devices_of
from wavecast.kernels.async_tp.symmetric import Publication
from wavecast.kernels.async_tp.workspace import failure_record

SIGNALS = 256
"""Words of a signal pad."""

KEPT_WINDOWS = 1024
"""Windows that are kept, as tensors: some for each shape and rank."""


class TorchSymmetricMemory(GpuStreams):
    """A rank's view of a buffer that every rank of a group has allocated; made on all ranks at once.

    Args:
        group: of GPUs that reach each other's memory.
        window_bytes: of every rank's window; the same on all ranks.

    Attributes:
        failure: int32 (4,) in host memory, in which a rank that does not come to a meeting is reported.
    """

    def __init__(self, group: dist.ProcessGroup, window_bytes: int) -> None:
        super().__init__()
        self._windows: dict[tuple[object, ...], torch.Tensor] = {}
        self.rank, self.ranks = group.rank(), group.size()
        self.window_bytes, self.signal_count = window_bytes, SIGNALS
        peers = devices_of(group)
        self.full_mesh = peers is not None and is_full_mesh(torch.cuda.current_device(), peers)
        device = torch.device("cuda", torch.cuda.current_device())
        # The pad is part of the buffer: the group's own one belongs to torch's barriers.
        self._pad_bytes = SIGNALS * torch.int32.itemsize
        buffer = symm_mem.empty(self._pad_bytes + window_bytes, dtype=torch.uint8, device=device)
        buffer.zero_()
        self._own = buffer  # which frees the memory with it
        self._handle = symm_mem.rendezvous(buffer, group=group.group_name)
        self._buffers = [
            self._handle.get_buffer(rank, (self._pad_bytes + window_bytes,), torch.uint8) for rank in range(self.ranks)
        ]
        self._pads = [buffer[: self._pad_bytes].view(torch.int32) for buffer in self._buffers]
        self._pad_addresses = torch.tensor(self._handle.buffer_ptrs, dtype=torch.int64, device=device)
        self._window_addresses = self._pad_addresses + self._pad_bytes
        self._words = [pad.split(1) for pad in self._pads]
        self.failure = failure_record(device)
        self._meetings = Meetings(self.rank, self.ranks, self._pad_addresses, self.failure)
        torch.cuda.synchronize(device)
        dist.barrier(group)

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        """See `SymmetricMemory.window`; the last ones are kept."""
        key = (rank, shape, dtype, offset_bytes)
        if key in self._windows:
            return self._windows[key]
        size = torch.Size(shape).numel() * dtype.itemsize
        if offset_bytes % dtype.itemsize or offset_bytes + size > self.window_bytes:
            raise ValueError(
                f"{size} bytes from {offset_bytes} on are no part of a window of {self.window_bytes} bytes, or begin "
                f"at no multiple of {dtype.itemsize}; make the memory anew with a larger window"
            )
        start = self._pad_bytes + offset_bytes
        if len(self._windows) >= KEPT_WINDOWS:
            self._windows.clear()
        self._windows[key] = self._buffers[rank][start : start + size].view(dtype).view(shape)
        return self._windows[key]

    def window_addresses(self) -> torch.Tensor:
        """See `SymmetricMemory.window_addresses`."""
        return self._window_addresses

    def signal_addresses(self) -> torch.Tensor:
        """See `SymmetricMemory.signal_addresses`."""
        return self._pad_addresses

    def signals(self, rank: int) -> torch.Tensor:
        """See `SymmetricMemory.signals`."""
        return self._pads[rank]

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.write_signal`: a copy of 4 bytes, behind the copies that it tells of."""
        self.set_word(self._words[rank][index], value, stream)

    def publish(self, publications: Sequence[Publication], stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.publish`: one launch."""
        with self.launching(stream):
            self._meetings.publish(publications)

    def barrier(self, stream: torch.cuda.Stream) -> None:
        """See `SymmetricMemory.barrier`."""
        with self.launching(stream):
            self._meetings.meet()
