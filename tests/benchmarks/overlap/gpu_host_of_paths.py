"""What PyTorch's paths of all-gather+matmul cost the host: ``python tests/benchmarks/overlap/gpu_host_of_paths.py``.

Two and four processes share one NVIDIA GPU, whose work is waited for before every round, so that no queue is full. The
native path is measured as it is for NVIDIA, and as upstream writes it for ROCm: copies in pieces of at most 1 MiB, and
no barrier before the first of them. The rows are 4,096 and the columns 1,024, whose kernel leaves multiprocessors free
for the copies that it waits for. Of a round of calls the mean counts, of the rounds the least.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

from wavecast.cli.measuring.ranks import Rank, RankGroup

ROWS, COLUMNS, DEPTHS = 4096, 1024, (512, 1024, 2048, 4096)
PIECE_BYTES = 2**20
ROUNDS, CALLS = 15, 5


def main() -> None:
    """Measure on all ranks; the first one prints."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # a warning a call, for a shard that is in no symmetric memory
    for ranks in (2, 4):
        print(f"{ranks} ranks:", flush=True)
        group = RankGroup(["cuda:0"] * ranks, step_s=60)
        try:
            group.run(measure)
        finally:
            group.close()


def measure(me: Rank) -> None:
    """Print least and median host time of each call."""
    group = dist.group.WORLD.group_name
    for name, call in operations(group).items():
        _print(me, name, call)
    for depth in DEPTHS:
        for name, call in paths(me, group, depth).items():
            _print(me, f"{name}, K {depth}", call)


def _print(me: Rank, name: str, call: Callable[[], object]) -> None:
    least_us, median_us = _host_us(call)
    if me.rank == 0:
        print(f"{name}: {least_us:.1f} us, median {median_us:.1f}", flush=True)


def operations(group: str) -> dict[str, Callable[[], object]]:
    """Single operations that the paths are made of."""
    memory = symmetric.get_symm_mem_workspace(group, 2**26)
    backend, current = torch.cuda.Stream(priority=-1), torch.cuda.current_stream()
    event = torch.cuda.Event()
    source, target = torch.zeros(2, 512, 1024, device="cuda", dtype=torch.bfloat16).unbind()
    signals = torch.zeros(2, device="cuda", dtype=torch.uint32)
    left, right = torch.zeros(512, 512, device="cuda"), torch.zeros(512, 512, device="cuda")
    out = torch.zeros(512, 512, device="cuda")

    def events() -> None:
        event.record(backend)
        current.wait_event(event)

    return {
        "copy of 1 MiB": lambda: target.copy_(source),
        "product into a tensor": lambda: torch.ops.aten.mm.out(left, right, out=out),
        "zeros": lambda: torch.zeros(2, device="cuda", dtype=torch.uint32),
        "empty": lambda: torch.empty(512, 1024, device="cuda"),
        "barrier": lambda: memory.barrier(),
        "buffer of a rank": lambda: memory.get_buffer(0, (512, 1024), torch.bfloat16),
        "write of a signal": lambda: symmetric._SymmetricMemory.stream_write_value32(signals, 0, 1),
        "stream awaits a stream": lambda: backend.wait_stream(current),
        "event of one's own": events,
    }


def paths(me: Rank, group: str, depth: int) -> dict[str, Callable[[], Any]]:
    """The calls of a depth."""
    shard = torch.zeros(ROWS // me.ranks, depth, device="cuda", dtype=torch.bfloat16)
    shared = symmetric.empty(*shard.shape, device=me.device, dtype=shard.dtype)
    symmetric.rendezvous(shared, group)
    other = torch.zeros(depth, COLUMNS, device="cuda", dtype=torch.bfloat16)
    return {
        "decomposed": lambda: torch.ops.symm_mem.fused_all_gather_matmul(shard, [other], 0, group),
        "native": lambda: symmetric._fused_all_gather_matmul_native(shard, other, group),
        "native, shard in symmetric memory": lambda: symmetric._fused_all_gather_matmul_native(shared, other, group),
        "native in pieces": lambda: native_in_pieces(shard, other, group),
        "native in pieces, shard in symmetric memory": lambda: native_in_pieces(shared, other, group),
    }


def native_in_pieces(shard: torch.Tensor, other: torch.Tensor, group: str) -> torch.Tensor:
    """The calls of the native path for ROCm, in its order."""
    write = symmetric._SymmetricMemory.stream_write_value32
    current, backend = torch.cuda.current_stream(), symmetric._get_backend_stream(priority=-1)
    memory = symmetric.rendezvous(shard, group)
    if memory is None:
        memory = symmetric.get_symm_mem_workspace(group, shard.numel() * shard.element_size())
        event = _event()
        event.record(symmetric._get_backend_stream())
        current.wait_event(event)
        window = memory.get_buffer(memory.rank, shard.shape, shard.dtype)
        _in_pieces(window, shard)
        shard = window
    gathered = shard.new_empty(shard.shape[0] * memory.world_size, shard.shape[1])
    signals = torch.zeros(memory.world_size, dtype=torch.uint32, device=shard.device)
    chunks = gathered.chunk(memory.world_size)
    memory.barrier()
    backend.wait_stream(current)
    _in_pieces(chunks[memory.rank], shard)
    write(signals, memory.rank, 1)
    product = torch.ops.symm_mem._async_input_mm(gathered, other, signals, memory.rank)
    for step in range(1, memory.world_size):
        source = (memory.rank + step) % memory.world_size
        theirs = memory.get_buffer(source, shard.shape, shard.dtype)
        with torch.cuda.stream(backend):
            _in_pieces(chunks[source], theirs)
            write(signals, source, 1)
    current.wait_stream(backend)
    memory.barrier()
    return product


@cache
def _event() -> torch.cuda.Event:
    return torch.cuda.Event()


def _in_pieces(target: torch.Tensor, source: torch.Tensor) -> None:
    rows = max(1, PIECE_BYTES // (target.stride(0) * target.element_size()))
    for into, piece in zip(target.split(rows), source.split(rows), strict=True):
        into.copy_(piece)


def _host_us(call: Callable[[], object]) -> tuple[float, float]:
    times = []
    call()
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        dist.barrier()
        started = perf_counter()
        for _ in range(CALLS):
            call()
        times.append(1e6 * (perf_counter() - started) / CALLS)
    torch.cuda.synchronize()
    return min(times), median(times)


if __name__ == "__main__":
    main()
