"""Symmetric memory whose ranks are buffers of one device, and whose work is done at once: no copy is ever under way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from gemms import fill_nan

from wavecast.kernels.async_tp.gpu_streams import GpuStreams
from wavecast.kernels.async_tp.symmetric import Publication


class ImmediateMemory:
    """What one rank of several sees, when copies take no time and other ranks have already written their windows.

    Args:
        rank, ranks: of the view.
        window_bytes: of every rank.
        address_of: address of a tensor for the device's kernels.
        withheld: signals that do not come, nor what was copied on their stream before them: it is NaN instead.
        device: of the buffers.
        full_mesh: whether every two ranks have a link of their own.
        synchronize: called at a barrier, where launches do not end at once.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        window_bytes: int,
        *,
        address_of: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr,
        withheld: Collection[int] = (),
        device: str = "cpu",
        full_mesh: bool = False,
        synchronize: Callable[[], object] = lambda: None,
    ) -> None:
        self.rank, self.ranks, self.window_bytes, self.signal_count = rank, ranks, window_bytes, 64
        self.full_mesh, self._synchronize = full_mesh, synchronize
        self.buffers = [torch.zeros(window_bytes, dtype=torch.uint8, device=device) for _ in range(ranks)]
        self.pads = [torch.zeros(64, dtype=torch.int32, device=device) for _ in range(ranks)]
        self.withheld = set(withheld)
        self._untold: dict[str, list[torch.Tensor]] = {}
        self.done: list[tuple[Any, ...]] = []
        self._address_of = address_of
        self._addresses: dict[tuple[int, ...], torch.Tensor] = {}

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        size = torch.Size(shape).numel() * dtype.itemsize
        assert offset_bytes + size <= self.window_bytes
        return self.buffers[rank][offset_bytes : offset_bytes + size].view(dtype).view(shape)

    def window_addresses(self) -> torch.Tensor:
        return self._addresses_of(self.buffers)

    def signal_addresses(self) -> torch.Tensor:
        return self._addresses_of(self.pads)

    def signals(self, rank: int) -> torch.Tensor:
        return self.pads[rank]

    def stream(self, name: str) -> str:
        return name

    def launching(self, stream: str) -> AbstractContextManager[Any]:
        return nullcontext()

    def wait_stream(self, stream: str, other: str) -> None:
        self.done.append(("wait", stream, other))

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: str) -> None:
        self.done.append(("copy", stream, self._owner(source), target.numel() * target.element_size()))
        target.copy_(source)
        self._untold.setdefault(stream, []).append(target)

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: str) -> None:
        self.done.append(("signal", stream, rank, index))
        copied = self._untold.pop(stream, [])
        if index not in self.withheld:
            self.pads[rank][index] = value
        else:
            for target in copied:
                fill_nan(target)

    def publish(self, publications: Sequence[Publication], stream: Any) -> None:
        for source, targets in publications:
            for target, row in targets:
                self.copy(target.narrow(0, row, source.shape[0]), source, stream)
        self.barrier(stream)

    def barrier(self, stream: str) -> None:
        self.done.append(("barrier", stream))
        self._synchronize()

    def _addresses_of(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Made once: while a graph is captured, nothing can be brought to a device."""
        found = tuple(self._address_of(tensor) for tensor in tensors)
        if found not in self._addresses:
            self._addresses[found] = torch.tensor(found, device=tensors[0].device)
        return self._addresses[found]

    def _owner(self, tensor: torch.Tensor) -> int | None:
        """Rank whose window a tensor lies in."""
        at = tensor.data_ptr()
        inside = (b.data_ptr() <= at < b.data_ptr() + self.window_bytes for b in self.buffers)
        return next((rank for rank, found in enumerate(inside) if found), None)


class StreamedMemory(GpuStreams, ImmediateMemory):
    """The same with CUDA's streams: copies and signals are work on them, beside the kernel that waits for them.

    Args:
        delay_cycles: of the GPU's clock, that each copy begins later.
        options: see `ImmediateMemory`.
    """

    def __init__(self, *given: int, delay_cycles: int = 0, **options: Any) -> None:
        GpuStreams.__init__(self)
        ImmediateMemory.__init__(self, *given, device="cuda", **options)
        self._delay_cycles = delay_cycles

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: Any) -> None:
        if self._delay_cycles:
            with self.launching(stream):
                torch.cuda._sleep(self._delay_cycles)
        GpuStreams.copy(self, target, source, stream)

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: Any) -> None:
        if index not in self.withheld:
            self.set_word(self.pads[rank][index : index + 1], value, stream)

    def barrier(self, stream: Any) -> None:
        """Nothing: the other ranks are buffers that are already full."""
