"""Ranks whose copy agents gather chunks while a kernel waits for them compute the same in every order of delivery."""

from __future__ import annotations

import math

import pytest
from signal_kernels import consume_kernel, produce_kernel, sum_chunks_kernel

from wavecast.simulator.errors import LaunchError
from wavecast.simulator.virtual.node import NodeOptions, NodeRank, Policy, VirtualNode, every_order, virtual_node

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]
ELEMENTS = 64


class Gathering:
    """Every rank gets the others' chunks; a kernel adds to each chunk its number when the chunk's signal is there.

    Chunks are pulled from the rank that they are of, or, in a ring, from the neighbour when its signal says that it has
    them.
    """

    def __init__(
        self,
        ranks: int,
        chunks: int,
        *,
        waits: bool = True,
        copy_streams: int = 1,
        ring: bool = False,
        off: int = 0,
        device: str = "mi300x",
    ) -> None:
        self.ranks, self.chunks, self.waits, self.copy_streams = ranks, chunks, waits, copy_streams
        self.ring, self.off, self.device = ring, off, device

    def run(self, policy: int | Policy) -> tuple[bool, VirtualNode]:
        """Whether the results of all ranks are right."""
        every, size = self.ranks * self.chunks, ELEMENTS
        options = NodeOptions(blit_limit_bytes=0)
        with virtual_node(self.device, self.ranks, policy, options=options) as node:
            shards = [torch.randint(1, 1 << 30, (self.chunks * size,), dtype=torch.int32) for _ in range(self.ranks)]
            gathered, results = (
                [torch.zeros(every * size, dtype=torch.int32) for _ in range(self.ranks)] for _ in range(2)
            )
            signals = [torch.zeros(every, dtype=torch.int32) for _ in range(self.ranks)]
            for index, shard in enumerate(shards):
                node.share(index, gathered[index], "gathered")
                node.share(index, signals[index], "signals")
                own = slice(index * self.chunks, (index + 1) * self.chunks)
                gathered[index].view(every, size)[own] = shard.view(-1, size)
                signals[index][own] = 1
            for index in range(self.ranks):
                rank = node.rank(index)
                with rank.active():
                    sum_chunks_kernel[(every,)](
                        gathered[index],
                        signals[index],
                        results[index],
                        index * self.chunks,
                        CHUNKS=every,
                        SIZE=size,
                        WAITS=self.waits,
                        OFF=self.off,
                    )
                self._fetch(rank, gathered, signals)
            node.synchronize()
        numbers = torch.arange(every, dtype=torch.int32).repeat_interleave(size)
        wanted = torch.cat(shards) + numbers
        return all(torch.equal(result, wanted) for result in results), node

    def _fetch(self, rank: NodeRank, gathered: list[torch.Tensor], signals: list[torch.Tensor]) -> None:
        mine = rank.index
        for step in range(1, self.ranks):
            owner = (mine - step) % self.ranks
            source = (mine - 1) % self.ranks if self.ring else owner
            for chunk in range(self.chunks):
                stream = rank.stream(f"copies {chunk % self.copy_streams}")
                number = owner * self.chunks + chunk
                place, word = slice(number * ELEMENTS, (number + 1) * ELEMENTS), slice(number, number + 1)
                if self.ring:
                    rank.wait_signal(signals[source][word], 1, stream)
                rank.copy(gathered[mine][place], gathered[source][place], stream)
                rank.write_signal(signals[mine][word], 1, stream)


@pytest.mark.parametrize(
    ("ranks", "chunks", "streams", "orders"),
    [
        (2, 2, 2, math.factorial(4)),
        (2, 3, 1, math.factorial(6) // math.factorial(3) ** 2),
        (3, 1, 1, math.factorial(6) // math.factorial(2) ** 3),
    ],
)
def test_every_order_of_delivery_gives_the_same_result(ranks: int, chunks: int, streams: int, orders: int) -> None:
    gathering = Gathering(ranks, chunks, copy_streams=streams)
    seen = [(gathering.run(policy)[0], tuple(policy.taken)) for policy in every_order()]
    assert len(seen) == len({order for _, order in seen}) == orders
    assert all(right for right, _ in seen)


@pytest.mark.parametrize(("ranks", "chunks", "streams"), [(2, 4, 1), (3, 1, 1), (2, 2, 2)])
def test_every_order_in_a_ring_gives_the_same_result(ranks: int, chunks: int, streams: int) -> None:
    gathering = Gathering(ranks, chunks, copy_streams=streams, ring=True)
    right = [gathering.run(policy)[0] for policy in every_order()]
    assert len(right) >= math.factorial(4)
    assert all(right)


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_eight_ranks_agree_under_any_seed(seed: int, ring: bool) -> None:
    assert Gathering(8, 4, copy_streams=3, ring=ring).run(seed)[0]


@pytest.mark.parametrize("device", ["mi355x", "h200"])
def test_other_devices_agree_too(device: str) -> None:
    gathering = Gathering(2, 2, ring=True, device=device)
    assert all(gathering.run(policy)[0] for policy in every_order())
    assert gathering.run(7)[0]


def test_a_kernel_that_does_not_wait_is_found() -> None:
    racing = Gathering(2, 2, waits=False, copy_streams=2)
    assert not all(racing.run(policy)[0] for policy in every_order())
    assert not all(racing.run(seed)[0] for seed in range(5))


def test_a_kernel_that_waits_for_one_chunk_and_reads_another_is_found() -> None:
    mistaken = Gathering(2, 2, copy_streams=2, off=1)
    assert not all(mistaken.run(policy)[0] for policy in every_order())
    assert not all(mistaken.run(seed)[0] for seed in range(5))


def test_the_same_seed_gives_the_same_interleaving() -> None:
    gathering = Gathering(3, 2, copy_streams=2)
    histories = [gathering.run(seed)[1].history for seed in (5, 5, 6)]
    assert histories[0] == histories[1] != histories[2]


def exchanged(seed: int, *, early: bool, count: int = 256) -> bool:
    """Whether each of two ranks receives what the other's kernel writes into its window."""
    with virtual_node("mi300x", 2, seed) as node:
        windows = [torch.zeros(count, dtype=torch.int32) for _ in range(2)]
        signals = [torch.zeros(1, dtype=torch.int32) for _ in range(2)]
        results = [torch.zeros(count, dtype=torch.int32) for _ in range(2)]
        for index in range(2):
            node.share(index, windows[index], "window")
            node.share(index, signals[index], "signals")
        for index in range(2):
            rank = node.rank(index)
            with rank.active():
                consume_kernel[(1,)](windows[index], signals[index], results[index], count, BLOCK=count)
            other = 1 - index
            with rank.active(rank.stream("produce")):
                produce_kernel[(1,)](windows[other], signals[other], count, BLOCK=count, EARLY=early)
        node.synchronize()
    wanted = torch.arange(count, dtype=torch.int32) ** 2
    return all(torch.equal(result, wanted) for result in results)


def test_kernels_of_two_ranks_exchange_data_through_windows() -> None:
    assert all(exchanged(seed, early=False) for seed in range(12))


def test_a_signal_before_its_data_is_found() -> None:
    # Signal and data are written in one straight piece of code: only a preemption between the two shows it.
    assert not all(exchanged(seed, early=True) for seed in range(40))


def test_memory_that_is_not_shared_is_not_reached() -> None:
    with virtual_node("mi300x", 2) as node:
        mine, theirs = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
        node.rank(0).copy(mine, mine.clone())
        with pytest.raises(LaunchError, match="rank 1 uses source, which is memory of rank 0"):
            node.rank(1).copy(theirs, mine)


def test_a_strided_copy_moves_what_its_tensors_cover() -> None:
    with virtual_node("mi300x", 1) as node:
        source, target = torch.arange(48, dtype=torch.int32).reshape(6, 8), torch.zeros(12, 4, dtype=torch.int32)
        node.rank(0).copy(target[::2, 1:3], source[:, 5:7])
        node.synchronize()
    assert torch.equal(target[::2, 1:3], source[:, 5:7])
    assert int(target.count_nonzero()) == 12
