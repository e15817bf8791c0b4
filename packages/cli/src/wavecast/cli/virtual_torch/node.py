"""torch for programs whose ranks are the devices of a virtual node: symmetric memory, a process group, and the ranks.

Tensors of a rank are host tensors, as under one virtual device. Kernels, copies and signals are put on streams and run
later; a torch operation on a tensor that they use waits for them first, as it would come after them on a real stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from wavecast.cli.errors import CliError

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node import NodeStream, VirtualNode

T = TypeVar("T")
# Streams whose work is to begin before that of the ordinary ones: each on a hardware queue of its own, if there are.
_PRIORITIES = {"compute": 0}
_OTHER_PRIORITY = -1
# What neither reads nor writes elements: attributes, and views.
_LOOKS = frozenset(
    getattr(torch.Tensor, name)
    for name in (
        *("size", "stride", "dim", "numel", "data_ptr", "untyped_storage", "storage_offset", "element_size"),
        *("is_contiguous", "is_floating_point", "is_complex", "get_device", "requires_grad_", "detach"),
        *("view", "view_as", "t", "transpose", "permute", "movedim", "swapaxes", "expand", "narrow", "select"),
        *("squeeze", "unsqueeze", "as_strided", "split", "chunk", "unbind"),
        *("new_empty", "new_zeros", "new_ones", "new_full"),
    )
) | {torch.empty_like, torch.zeros_like, torch.ones_like, torch.full_like}


class NodeSymmetricMemory:
    """One rank's view of a buffer and a signal pad that every rank of a node has (``SymmetricMemory`` of the kernels).

    Args:
        node: The node.
        rank: Whose view.
        windows: uint8 (window bytes,) of every rank.
        pads: int32 (signals,) of every rank.
    """

    def __init__(
        self, node: VirtualNode, rank: int, windows: Sequence[torch.Tensor], pads: Sequence[torch.Tensor]
    ) -> None:
        self.rank, self.ranks = rank, node.ranks
        self.window_bytes, self.signal_count = windows[0].numel(), pads[0].numel()
        self._rank, self._windows, self._pads = node.rank(rank), windows, pads
        link = node.spec.link
        self.full_mesh = link is not None and link.full_mesh

    def window(self, rank: int, shape: tuple[int, ...], dtype: torch.dtype, offset_bytes: int = 0) -> torch.Tensor:
        """Contiguous tensor over part of a rank's buffer.

        Raises:
            ValueError: It does not fit, or begins at no multiple of its element's size.
        """
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        if offset_bytes < 0 or offset_bytes + nbytes > self.window_bytes or offset_bytes % dtype.itemsize:
            raise ValueError(
                f"a window of {nbytes} bytes of {dtype} from byte {offset_bytes} on, in a buffer of "
                f"{self.window_bytes}; make the buffer larger, or begin at a multiple of {dtype.itemsize}"
            )
        return self._windows[rank][offset_bytes : offset_bytes + nbytes].view(dtype).view(shape)

    def window_addresses(self) -> torch.Tensor:
        """(ranks,) int64: where each rank's buffer begins for kernels of this rank."""
        return torch.tensor([self._rank.device.address_of(window) for window in self._windows])

    def signal_addresses(self) -> torch.Tensor:
        """(ranks,) int64: where each rank's signal pad begins for kernels of this rank."""
        return torch.tensor([self._rank.device.address_of(pad) for pad in self._pads])

    def signals(self, rank: int) -> torch.Tensor:
        """(signal_count,) int32 signal pad of a rank."""
        return self._pads[rank]

    def stream(self, name: str) -> NodeStream:
        """This rank's stream of a name, made when first asked for."""
        return self._rank.stream(name, _PRIORITIES.get(name, _OTHER_PRIORITY))

    def launching(self, stream: NodeStream) -> AbstractContextManager[Any]:
        """Context in which kernels are put on a stream."""
        return self._rank.active(stream)

    def wait_stream(self, stream: NodeStream, other: NodeStream) -> None:
        """What is put on ``stream`` from now on begins after all that is on ``other`` so far."""
        self._rank.wait_stream(stream, other)

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: NodeStream) -> None:
        """Copy between tensors, by a copy engine or a kernel as the runtime does for such a size."""
        if target.shape != source.shape or target.dtype != source.dtype:
            raise ValueError(
                f"a copy of {tuple(source.shape)} {source.dtype} to {tuple(target.shape)} {target.dtype}; the two must "
                "be alike"
            )
        self._rank.copy(target, source, stream)

    def write_signal(self, rank: int, index: int, value: int | torch.Tensor, stream: NodeStream) -> None:
        """Set a word of a rank's signal pad when the stream comes to it; a tensor's value is read then."""
        self._rank.write_signal(self._pads[rank][index : index + 1], value, stream)

    def publish(
        self, publications: Sequence[tuple[torch.Tensor, Sequence[tuple[torch.Tensor, int]]]], stream: NodeStream
    ) -> None:
        """Hold a stream until every rank's has come here, copy rows to places in other tensors, and hold it again.

        Args:
            publications: Source; targets, and which of their rows its first one becomes.
            stream: Of this rank.
        """
        self.barrier(stream)
        for source, targets in publications:
            for target, row in targets:
                self.copy(target.narrow(0, row, source.shape[0]), source, stream)
        self.barrier(stream)

    def barrier(self, stream: NodeStream) -> None:
        """Hold a stream until every rank's has come to the same barrier."""
        self._rank.barrier(stream)


def symmetric_memory(node: VirtualNode, window_bytes: int, signal_count: int = 64) -> list[NodeSymmetricMemory]:
    """A buffer and a signal pad on every rank, zero; each rank's view of them.

    Args:
        node: The node.
        window_bytes: Bytes of each buffer.
        signal_count: Words of each pad.
    """
    windows = [torch.zeros(window_bytes, dtype=torch.uint8) for _ in range(node.ranks)]
    pads = [torch.zeros(signal_count, dtype=torch.int32) for _ in range(node.ranks)]
    for rank in range(node.ranks):
        node.share(rank, windows[rank], "window", element_bytes=1)
        node.share(rank, pads[rank], "signals")
    return [NodeSymmetricMemory(node, rank, windows, pads) for rank in range(node.ranks)]


class NodeGroup:
    """The ranks of a node as one process of them sees its group: the calls of ``torch.distributed`` that programs need.

    Collectives wait until every rank has called them; they are for setting up and for comparing with, and take no
    device's time.

    Args:
        node: The node.
        rank: Whose view.
        board: Where the ranks put what they exchange; one for all of them.
    """

    group_name = "wavecast"

    def __init__(self, node: VirtualNode, rank: int, board: Board) -> None:
        self.node, self._rank, self._board = node, rank, board
        self._calls = 0

    def rank(self) -> int:
        """Number of this rank."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return self.node.ranks

    def barrier(self) -> None:
        """Wait until every rank has come here and its streams are empty."""
        self.node.rank(self._rank).synchronize()
        self.exchange("barrier", None)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Every rank's tensor, copied."""
        return self._exchange("all_gather", tensor)

    def all_gather_into_tensor(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        """Every rank's tensor one behind the other."""
        output.copy_(torch.cat(self._exchange("all_gather_into_tensor", tensor)).view(output.shape))

    def reduce_scatter_tensor(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        """This rank's part of the sum over all ranks, in the tensors' type."""
        parts = [whole.chunk(self.size())[self._rank] for whole in self._exchange("reduce_scatter_tensor", tensor)]
        output.copy_(torch.stack(parts).sum(0).view(output.shape))

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """The sum over all ranks, in place."""
        tensor.copy_(torch.stack(self._exchange("all_reduce", tensor)).sum(0))

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """One rank's tensor, in place."""
        tensor.copy_(self._exchange("broadcast", tensor)[source])

    def symmetric_memory(self, window_bytes: int, signal_count: int = 64) -> NodeSymmetricMemory:
        """This rank's view of memory that every rank has; every rank calls this with the same sizes."""
        self.exchange("symmetric_memory", None)
        key = "memory", self._calls
        if key not in self._board.shared:
            self._board.shared[key] = symmetric_memory(self.node, window_bytes, signal_count)
        memories: list[NodeSymmetricMemory] = self._board.shared[key]
        return memories[self._rank]

    def exchange(self, name: str, item: Any) -> list[Any]:
        """What each rank gives in its call of this number, by rank; the objects themselves.

        Args:
            name: What the call is; the same on every rank.
            item: What this rank gives.

        Raises:
            CliError: Ranks call different collectives.
        """
        self._calls += 1
        posts = self._board.posts.setdefault(self._calls, {})
        posts[self._rank] = name, item
        self.node.wait(lambda: len(posts) == self.size(), f"the other ranks in {name}")
        names = sorted({called for called, _ in posts.values()})
        if len(names) > 1:
            raise CliError(f"ranks call different collectives at once: {', '.join(names)}")
        given = [posts[rank][1] for rank in range(self.size())]
        self._board.read[self._calls] += 1
        if self._board.read[self._calls] == self.size():
            del self._board.posts[self._calls], self._board.read[self._calls]
        return given

    def _exchange(self, name: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        # What is received is this rank's own.
        return [given.clone() for given in self.exchange(name, tensor.clone())]


class Board:
    """What the ranks of a group exchange.

    Attributes:
        posts: By the number of a call: what each rank that has made it calls, and with what; until all have read it.
        read: By the number of a call: how many ranks have.
        shared: Objects that the ranks have in common.
    """

    def __init__(self) -> None:
        self.posts: dict[int, dict[int, tuple[str, Any]]] = {}
        self.read: Counter[int] = Counter()
        self.shared: dict[tuple[str, int], Any] = {}


class _InOrder(TorchFunctionMode):
    """Lets a torch operation on a rank's tensors wait for what is on streams and uses them."""

    def __init__(self, node: VirtualNode, rank: int) -> None:
        super().__init__()
        self._node, self._rank = node, rank

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch function; the mode is off inside."""
        kwargs = kwargs or {}
        if not only_looks(func, args):
            storages = [tensor.untyped_storage() for tensor in strided_tensors((args, tuple(kwargs.values())))]
            self._node.wait(
                lambda: not any(self._node.is_pending(self._rank, storage) for storage in storages),
                f"what is on its streams, to run torch's {getattr(func, '__name__', func)}",
            )
        return func(*args, **kwargs)


def only_looks(func: Any, args: Any) -> bool:
    """Whether a torch function neither reads nor writes elements of its tensors."""
    if func in _LOOKS or getattr(func, "__name__", "") == "__get__":
        return True
    if func is torch.Tensor.__getitem__:
        places = args[1] if type(args[1]) is tuple else args[1:]
        return not any(isinstance(item, torch.Tensor | list) for item in places)
    if func in (torch.Tensor.contiguous, torch.Tensor.reshape, torch.Tensor.flatten):
        return bool(args[0].is_contiguous())
    return False


def strided_tensors(items: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """Tensors with memory, in arguments of a torch function."""
    for item in items:
        if isinstance(item, torch.Tensor) and item.layout is torch.strided and not item.is_meta:
            yield item
        elif depth and isinstance(item, tuple | list):
            yield from strided_tensors(item, depth - 1)


def run_on_ranks(node: VirtualNode, function: Callable[[NodeGroup], T]) -> list[T]:
    """Call ``function(group)`` for every rank, as so many processes would; Triton's device is the rank's.

    Args:
        node: The node.
        function: The program of one rank.

    Returns:
        What it returned, by rank.

    Raises:
        DeadlockError: Programs and devices wait for each other.
    """
    board = Board()

    def program(rank: int) -> T:
        with _InOrder(node, rank):
            return function(NodeGroup(node, rank, board))

    return node.run_ranks(program)
