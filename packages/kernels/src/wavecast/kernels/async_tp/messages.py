"""Chunks by messages of torch.distributed, one rank at a time, while what has come is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from wavecast.kernels.async_tp.order import fetch_order


def received_chunks(shard: torch.Tensor, chunks: torch.Tensor, group: dist.ProcessGroup) -> Iterator[int]:
    """Gather ``shard`` of every rank into ``chunks``; yields each rank when its chunk is there, the own one first.

    Args:
        shard: of this rank, contiguous.
        chunks: (ranks, *shard.shape), contiguous.
        group: whose ranks call this, each with a shard of this shape.
    """
    rank, ranks = group.rank(), group.size()
    steps = [
        (source, _exchange(chunks[source], shard, source, (rank - step) % ranks, group))
        for step, source in enumerate(fetch_order(rank, ranks), 1)
    ]
    chunks[rank].copy_(shard)
    yield rank
    for source, wait in steps:
        wait()
        yield source


def reduced_chunk(partial: Callable[[int], torch.Tensor], group: dist.ProcessGroup) -> torch.Tensor:
    """Sum of every rank's partial result for this rank.

    The farthest rank's part is computed first, and sent while the next one is.

    Args:
        partial: this rank's contribution to the result of a rank, contiguous, of one shape for all.
        group: whose ranks call this.
    """
    rank, ranks = group.rank(), group.size()
    sent, received = [], []
    for target in reversed(fetch_order(rank, ranks)):
        part = partial(target)
        source = (2 * rank - target) % ranks
        arriving = torch.empty_like(part)
        received.append((arriving, _exchange(arriving, part, source, target, group)))
        sent.append(part)  # must live until it has been sent
    total = partial(rank)
    for arriving, wait in received:
        wait()
        total += arriving
    return total


def _exchange(
    target_tensor: torch.Tensor, source_tensor: torch.Tensor, source: int, target: int, group: dist.ProcessGroup
) -> Callable[[], None]:
    """Begin to receive from one rank of the group and to send to another; what waits for both."""
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.irecv, _bytes(target_tensor), group=group, group_peer=source),
            dist.P2POp(dist.isend, _bytes(source_tensor), group=group, group_peer=target),
        ]
    )

    def wait() -> None:
        for work in works:
            work.wait()

    return wait


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as bytes, which every backend sends."""
    return tensor.view(-1).view(torch.uint8)
