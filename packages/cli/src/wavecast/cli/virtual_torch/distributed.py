"""``torch.distributed`` and its symmetric memory, for programs whose ranks are the devices of a virtual node."""

# ruff: noqa: A002 - arguments have the names that programs give them.
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.distributed import distributed_c10d

from wavecast.cli.errors import CliError
from wavecast.cli.virtual_torch.node import Board, NodeGroup
from wavecast.cli.virtual_torch.streams import RankStream

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node import VirtualNode

_PAD_WORDS = 512


class SymmetricHandle:
    """What ``rendezvous`` returns: every rank's buffer, and barriers.

    Args:
        group: The rank's view of the ranks.
        buffers: uint8, of every rank.
        pads: int32 signal pads likewise.
    """

    def __init__(self, group: NodeGroup, buffers: Sequence[torch.Tensor], pads: Sequence[torch.Tensor]) -> None:
        self.rank, self.world_size = group.rank(), group.size()
        self.buffer_size, self.signal_pad_size = buffers[0].numel(), 4 * _PAD_WORDS
        self._node_rank, self._buffers, self._pads = group.node.rank(group.rank()), buffers, pads

    @property
    def buffer_ptrs(self) -> list[int]:
        """Where each rank's buffer begins for kernels of this rank."""
        return [self._node_rank.device.address_of(buffer) for buffer in self._buffers]

    @property
    def signal_pad_ptrs(self) -> list[int]:
        """Where each rank's signal pad begins, likewise."""
        return [self._node_rank.device.address_of(pad) for pad in self._pads]

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int = 0) -> torch.Tensor:
        """A tensor over a rank's buffer; the offset counts elements."""
        return _window(self._buffers[rank], sizes, dtype, storage_offset)

    def get_signal_pad(
        self, rank: int, sizes: Sequence[int] = (), dtype: torch.dtype = torch.int32, storage_offset: int = 0
    ) -> torch.Tensor:
        """A tensor over a rank's signal pad."""
        return _window(self._pads[rank].view(torch.uint8), sizes or (_PAD_WORDS,), dtype, storage_offset)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Hold the current stream until every rank's has come here."""
        self._node_rank.barrier()


def _window(buffer: torch.Tensor, sizes: Sequence[int], dtype: torch.dtype, offset: int) -> torch.Tensor:
    start, nbytes = offset * dtype.itemsize, torch.Size(sizes).numel() * dtype.itemsize
    return buffer[start : start + nbytes].view(dtype).view(tuple(sizes))


class RankDistributed:
    """What ``torch.distributed`` is to the programs of a node's ranks: the group of all ranks, with the backend NCCL.

    Args:
        node: The node.
        rank_of: Number of the rank whose program calls.
    """

    def __init__(self, node: VirtualNode, rank_of: Callable[[], int]) -> None:
        self._node, self._rank_of = node, rank_of
        board = Board()
        self._groups = [NodeGroup(node, index, board) for index in range(node.ranks)]
        self._is_initialized = [False] * node.ranks
        self._workspaces: dict[int, SymmetricHandle] = {}

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let ``torch.distributed`` be that inside the block."""
        with ExitStack() as stack:
            for name, value in self.names().items():
                for owner in (dist, distributed_c10d):
                    stack.enter_context(mock.patch.object(owner, name, value, create=True))
            for name, value in (
                ("empty", self._empty),
                ("rendezvous", self._rendezvous),
                ("get_symm_mem_workspace", self._workspace),
                ("_get_backend_stream", self._backend_stream),
            ):
                stack.enter_context(mock.patch.object(symm_mem, name, value))
            yield

    def group_of(self, group: Any = None) -> NodeGroup:
        """The calling rank's view of the group of all ranks.

        Args:
            group: What the program names: None, the group itself or its name.

        Raises:
            CliError: Another group, or none was initialized.
        """
        own = self._groups[self._rank_of()]
        if group is not None and group is not own and group != own.group_name:
            raise CliError("a process group that is not that of all ranks", hint="a node has the group of all ranks")
        if not self._is_initialized[own.rank()]:
            raise CliError(
                "torch.distributed is used before it is initialized",
                hint="call torch.distributed.init_process_group() first",
            )
        return own

    def names(self) -> dict[str, Any]:
        """Replacements in ``torch.distributed``."""

        def initialize(*_: Any, **__: Any) -> None:
            self._is_initialized[self._rank_of()] = True

        def destroy(group: Any = None) -> None:
            self._is_initialized[self._rank_of()] = False

        def check_sum(op: Any) -> None:
            if op not in (None, dist.ReduceOp.SUM):
                raise CliError(f"a reduction {op}, and a node's collectives have sums", hint="use ReduceOp.SUM")

        def all_reduce(tensor: torch.Tensor, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
            check_sum(op)
            self.group_of(group).all_reduce(tensor)
            return _Work() if async_op else None

        def all_gather(
            parts: list[torch.Tensor], tensor: torch.Tensor, group: Any = None, async_op: bool = False
        ) -> Any:
            for part, found in zip(parts, self.group_of(group).all_gather(tensor), strict=True):
                part.copy_(found)
            return _Work() if async_op else None

        def all_gather_into(
            output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any = None, async_op: bool = False
        ) -> Any:
            self.group_of(group).all_gather_into_tensor(output_tensor, input_tensor)
            return _Work() if async_op else None

        def reduce_scatter(
            output: torch.Tensor,
            input: torch.Tensor,
            op: Any = None,
            group: Any = None,
            async_op: bool = False,
        ) -> Any:
            check_sum(op)
            self.group_of(group).reduce_scatter_tensor(output, input)
            return _Work() if async_op else None

        def broadcast(tensor: torch.Tensor, src: int = 0, group: Any = None, async_op: bool = False, **_: Any) -> Any:
            self.group_of(group).broadcast(tensor, src)
            return _Work() if async_op else None

        def all_gather_object(objects: list[Any], item: Any, group: Any = None) -> None:
            objects[:] = self.group_of(group).exchange("all_gather_object", item)

        def unavailable(*_: Any, **__: Any) -> Any:
            raise CliError(
                "the program uses a part of torch.distributed that a node does not have",
                hint="the traceback says which; docs/guides/run.md lists what is there",
            )

        def world() -> NodeGroup:
            return self.group_of()

        class Groups:
            """``torch.distributed.group``."""

            @property
            def WORLD(self) -> NodeGroup:  # noqa: N802
                return world()

        names = "send recv isend irecv reduce gather scatter all_to_all all_to_all_single new_group batch_isend_irecv"
        return {
            **dict.fromkeys(names.split(), unavailable),
            "is_available": lambda: True,
            "is_initialized": lambda: self._is_initialized[self._rank_of()],
            "init_process_group": initialize,
            "destroy_process_group": destroy,
            "get_rank": lambda group=None: self.group_of(group).rank(),
            "get_world_size": lambda group=None: self.group_of(group).size(),
            "get_backend": lambda group=None: "nccl",
            "_get_group_size_by_name": lambda name: self.group_of(name).size(),
            "barrier": lambda group=None, **_: self.group_of(group).barrier(),
            "all_reduce": all_reduce,
            "all_gather": all_gather,
            "all_gather_into_tensor": all_gather_into,
            "reduce_scatter_tensor": reduce_scatter,
            "broadcast": broadcast,
            "all_gather_object": all_gather_object,
            "group": Groups(),
            "GroupMember": Groups(),
            "_resolve_process_group": self.group_of,
        }

    def _empty(self, *size: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
        sizes = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
        return torch.empty(tuple(sizes), dtype=dtype, device=device or torch.device("cuda", self._rank_of()))

    def _rendezvous(self, tensor: torch.Tensor, group: Any = None) -> SymmetricHandle:
        own = self.group_of(group)
        pad = torch.zeros(_PAD_WORDS, dtype=torch.int32, device=tensor.device)
        self._node.share(own.rank(), tensor, "symmetric memory", element_bytes=tensor.element_size())
        self._node.share(own.rank(), pad, "signal pad")
        found = own.exchange("rendezvous", (tensor, pad))
        if len({item.numel() * item.element_size() for item, _ in found}) > 1:
            raise CliError("ranks give rendezvous tensors of different sizes", hint="make them alike on every rank")
        return SymmetricHandle(own, [item.view(-1).view(torch.uint8) for item, _ in found], [pad for _, pad in found])

    def _workspace(self, group_name: str, min_size: int) -> SymmetricHandle:
        """The memory that torch's own pipelines share; made anew by all ranks where it is too small."""
        rank = self.group_of(group_name).rank()
        known = self._workspaces.get(rank)
        if known is None or known.buffer_size < min_size:
            self._workspaces[rank] = self._rendezvous(self._empty(min_size, dtype=torch.uint8), group_name)
        return self._workspaces[rank]

    def _backend_stream(self, priority: int = 0) -> RankStream:
        """The stream of a rank beside its current one, on which torch's own pipelines work."""
        rank = self._node.rank(self._rank_of())
        return RankStream(rank, rank.stream(f"backend {priority}", priority))


class _Work:
    """A collective that is over."""

    def wait(self, *_: Any) -> bool:
        """True."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True
