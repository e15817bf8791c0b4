"""torch, for programs of several ranks that ask for a GPU each and for ``torch.distributed``: for ``run`` alone.

Each rank's program sees the GPU of its own number, as it would in a process of its own. Copies and fills of tensors are
put on the current stream; any other torch operation waits until that stream is empty, and runs on the host.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from wavecast.cli.errors import CliError
from wavecast.cli.virtual_torch.distributed import RankDistributed
from wavecast.cli.virtual_torch.node import only_looks, strided_tensors
from wavecast.cli.virtual_torch.patch import patched_torch
from wavecast.cli.virtual_torch.sides import Gpu, HostForDevice, known_side
from wavecast.cli.virtual_torch.streams import RankEvent, RankStream

if TYPE_CHECKING:
    from wavecast.simulator.virtual.node import NodeRank, VirtualNode

_FILLS = frozenset({torch.Tensor.fill_, torch.Tensor.zero_})


class HostForRank(HostForDevice):
    """``HostForDevice`` for one rank of a node, whose work runs later.

    Args:
        rank: The rank.
    """

    def __init__(self, rank: NodeRank) -> None:
        super().__init__(rank.device, Gpu(rank.index, rank.node.ranks))
        self._rank = rank

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch function, or put it on the current stream; the mode is off inside."""
        kwargs = kwargs or {}
        if (func is torch.Tensor.copy_ or func in _FILLS) and self._is_put_on_stream(func, args, kwargs):
            return args[0]
        if not only_looks(func, args):
            given = strided_tensors((args, tuple(kwargs.values())))
            if any(known_side(tensor) is not False for tensor in given):
                self._rank.synchronize(self._rank.current_stream)
        return super().__torch_function__(func, types, args, kwargs)

    def _is_put_on_stream(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
        """Put what only writes a tensor of the device on the current stream; False if it has to run now."""
        target, *values = args
        tensors = [target, *strided_tensors(values)]
        if known_side(target) is False or (torch.is_grad_enabled() and any(item.requires_grad for item in tensors)):
            return False
        if func in _FILLS:
            self._rank.call(lambda: func(*args), tensors, func.__name__.strip("_"))
            return True
        source = values[0] if values else kwargs["src"]
        if known_side(source) is False:
            # What the host does with it afterwards does not matter: pageable memory is read at once.
            source = source.clone()
            self._rank.call(lambda: target.copy_(source), [target], "copy from the host")
        elif source.dtype == target.dtype and source.shape == target.shape:
            self._rank.copy(target, source)
        else:
            self._rank.call(lambda: target.copy_(source), [target, source], "copy")
        return True


class RankTorch:
    """What torch is to the programs of a node's ranks.

    Args:
        node: The node.
    """

    def __init__(self, node: VirtualNode) -> None:
        self._node = node
        self.modes = [HostForRank(node.rank(index)) for index in range(node.ranks)]
        self._distributed = RankDistributed(node, self._index)
        self._numbers = itertools.count()
        self._random = [torch.get_rng_state() for _ in range(node.ranks)]

    def switched(self, rank: int, runs: bool) -> None:
        """Give the program of a rank its environment and its random numbers, or keep them for it."""
        if not runs:
            self._random[rank] = torch.get_rng_state()
            return
        torch.set_rng_state(self._random[rank])
        ranks = str(self._node.ranks)
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=ranks, LOCAL_WORLD_SIZE=ranks)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let torch be that inside the block; each program enters its mode besides."""
        environment = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
        devices = [self._node.rank(index).device for index in range(self._node.ranks)]
        with ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, environment))
            with self._node.rank(0).active():
                stack.enter_context(patched_torch(devices, self._mode, self._cuda_names()))
            stack.enter_context(self._distributed.patched())
            yield

    def _index(self) -> int:
        index = self._node.current_rank
        if index is None:
            raise CliError(
                "torch is asked for its GPU outside of the program of a rank",
                hint="threads that a program starts have no GPU",
            )
        return index

    def _mode(self) -> HostForRank:
        return self.modes[self._index()]

    def _rank(self) -> NodeRank:
        return self._node.rank(self._index())

    def _cuda_names(self) -> dict[str, Any]:
        """Replacements in ``torch.cuda``, where several ranks need others than one device."""

        def new_stream(device: Any = None, priority: int = 0, **_: Any) -> RankStream:
            rank = self._rank()
            self._mode().gpu.check(device)
            return RankStream(rank, rank.stream(f"stream {next(self._numbers)}", priority))

        def current(device: Any = None) -> RankStream:
            self._mode().gpu.check(device)
            return RankStream(self._rank(), self._rank().current_stream)

        def default(device: Any = None) -> RankStream:
            self._mode().gpu.check(device)
            return RankStream(self._rank(), self._rank().stream())

        def on_stream(stream: RankStream | None) -> AbstractContextManager[Any]:
            return self._rank().active(None if stream is None else stream.node_stream)

        class Stream:
            """``torch.cuda.Stream``."""

            def __new__(cls, device: Any = None, priority: int = 0, **options: Any) -> Any:
                return new_stream(device, priority, **options)

        def new_event(*_: Any, **__: Any) -> RankEvent:
            return RankEvent(self._rank())

        class Event:
            """``torch.cuda.Event``."""

            def __new__(cls, *_: Any, **__: Any) -> Any:
                return new_event()

        return {
            "Stream": Stream,
            "Event": Event,
            "stream": on_stream,
            "current_stream": current,
            "default_stream": default,
            "synchronize": lambda *_: self._rank().synchronize(),
            "can_device_access_peer": lambda *_: True,
            "is_current_stream_capturing": lambda: False,
            "_sleep": lambda *_: None,
        }


def run_program(torch_of_ranks: RankTorch, node: VirtualNode, program: Callable[[int], None]) -> None:
    """Call ``program(rank)`` for every rank under its torch.

    Raises:
        DeadlockError: Programs and devices wait for each other.
        Exception: What a program raised first.
    """

    def with_mode(rank: int) -> None:
        with torch_of_ranks.modes[rank]:
            program(rank)

    with torch_of_ranks.patched():
        node.run_ranks(with_mode, switched=torch_of_ranks.switched)
