"""A ring all-gather on virtual GPUs: copies pass chunks on, a kernel sums each chunk when its signal is there."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from wavecast.simulator.errors import DeadlockError
from wavecast.simulator.virtual.node import NodeOptions, every_order, virtual_node

ELEMENTS = 256


@triton.jit
def sum_chunks(gathered, signals, sums, first, CHUNKS: tl.constexpr, SIZE: tl.constexpr):
    """Wait for a chunk, a workgroup each, the own one first, and sum it."""
    chunk = (tl.program_id(0) + first) % CHUNKS
    while tl.atomic_add(signals + chunk, 0, sem="acquire", scope="sys") != 1:
        pass
    values = tl.load(gathered + chunk * SIZE + tl.arange(0, SIZE))
    tl.store(sums + chunk, tl.sum(values, axis=0))


def ring(ranks, policy, *, forgotten=None):
    """The sums that each rank finds; ``forgotten`` is a rank that does not signal the last chunk that it gets."""
    shards = [torch.arange(ELEMENTS, dtype=torch.int32) * (rank + 1) for rank in range(ranks)]
    gathered = [torch.zeros(ranks * ELEMENTS, dtype=torch.int32) for _ in range(ranks)]
    signals = [torch.zeros(ranks, dtype=torch.int32) for _ in range(ranks)]
    sums = [torch.zeros(ranks, dtype=torch.int32) for _ in range(ranks)]
    with virtual_node("mi300x", ranks, policy, options=NodeOptions(blit_limit_bytes=0)) as node:
        for index in range(ranks):
            node.share(index, gathered[index], "gathered")
            node.share(index, signals[index], "signals")
            gathered[index][index * ELEMENTS : (index + 1) * ELEMENTS] = shards[index]
            signals[index][index] = 1
        for index in range(ranks):
            rank, before = node.rank(index), (index - 1) % ranks
            ring_stream = rank.stream("ring")
            with rank.active():
                sum_chunks[(ranks,)](gathered[index], signals[index], sums[index], index, CHUNKS=ranks, SIZE=ELEMENTS)
            for step in range(1, ranks):
                chunk = (index - step) % ranks
                place = slice(chunk * ELEMENTS, (chunk + 1) * ELEMENTS)
                # The neighbour has the chunk when its own signal says so.
                rank.wait_signal(signals[before][chunk : chunk + 1], 1, ring_stream)
                rank.copy(gathered[index][place], gathered[before][place], ring_stream)
                if (index, step) != (forgotten, ranks - 1):
                    rank.write_signal(signals[index][chunk : chunk + 1], 1, ring_stream)
        node.synchronize()
    return sums, [int(shard.sum()) for shard in shards]


def main() -> None:
    """All orders for three ranks, seeds for eight, and a signal that is forgotten."""
    orders = 0
    for policy in every_order():
        sums, wanted = ring(3, policy)
        assert all(found.tolist() == wanted for found in sums)
        orders += 1
    print(f"3 ranks: right in all {orders} orders of delivery")
    for seed in range(5):
        sums, wanted = ring(8, seed)
        assert all(found.tolist() == wanted for found in sums)
    print("8 ranks: right under 5 seeds")
    try:
        ring(2, 0, forgotten=1)
    except DeadlockError as error:
        print(error)


if __name__ == "__main__":
    main()
