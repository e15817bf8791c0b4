"""A program of several ranks, as torchrun starts it: all-gather+matmul, and a pull through symmetric memory."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
import triton
import triton.language as tl

from wavecast.kernels.all_gather_matmul import all_gather_matmul


@triton.jit
def pull(windows, out, rank, ranks, SIZE: tl.constexpr):
    """Sum what every rank has in its window."""
    place = tl.arange(0, SIZE)
    total = tl.zeros((SIZE,), tl.float32)
    for other in range(ranks):
        window = tl.load(windows + other).to(tl.pointer_type(tl.float32))
        total += tl.load(window + place)
    tl.store(out + place, total)


def main() -> None:
    """What every rank does."""
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)

    window = symm_mem.empty(256, dtype=torch.float32, device=device)
    handle = symm_mem.rendezvous(window, dist.group.WORLD)
    window.fill_(rank + 1.0)
    handle.barrier()
    out = torch.empty(256, device=device)
    pull[(1,)](torch.tensor(handle.buffer_ptrs, device=device), out, rank, ranks, SIZE=256)
    assert out.unique().tolist() == [ranks * (ranks + 1) / 2]

    torch.manual_seed(rank)
    shard = torch.randint(-3, 4, (48, 64), device=device).to(torch.bfloat16)
    b = torch.randint(-3, 4, (64, 32), device=device).to(torch.bfloat16)
    gathered, [product] = all_gather_matmul(shard, [b], dist.group.WORLD, out_dtypes=[torch.float32], setting="1")
    shards = [torch.empty_like(shard) for _ in range(ranks)]
    dist.all_gather(shards, shard)
    assert torch.equal(gathered, torch.cat(shards))
    assert torch.equal(product, torch.cat(shards).float() @ b.float())
    print(f"rank {rank} of {ranks}: right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
