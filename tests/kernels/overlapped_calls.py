"""Calls of the overlapped products on one GPU, with the other ranks as buffers of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from gemms import SM_90_FP8_NORM, exact_and_size, scales
from symmetric import StreamedMemory

from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, GatherLaunch, product_launch
from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.transport import Engine
from wavecast.kernels.async_tp.workspace import make_workspace
from wavecast.kernels.device import active_arch
from wavecast.kernels.matmul_reduce_scatter.launch import ScatterLaunch
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter, window_bytes

FP8 = torch.float8_e4m3fn


def normal(rows: int, columns: int, dtype: torch.dtype, *, seed: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, device="cuda").to(dtype)


class Case:
    """One call of one rank, with everything that it needs on the GPU."""

    def __init__(self, m: int, n: int, k: int, dtype: torch.dtype, *, ranks: int = 2, rank: int = 0, tma: bool = True,
                 scaled_rows: bool = False, engine: Engine = "copy-engine", full_mesh: bool = False,
                 **memory: int) -> None:  # fmt: skip
        rows = m // ranks
        fp8 = dtype == FP8
        self.a = normal(m, k, dtype, seed=0)
        self.b = normal(n, k, dtype, seed=1).t()
        self.a_inverse = scales(*([m, 1] if scaled_rows else []), exact=False, seed=2).cuda() if fp8 else None
        self.b_inverse = scales(*([1, n] if scaled_rows else []), exact=False, seed=3).cuda() if fp8 else None
        self.out = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda")
        size = self.a.element_size()
        tma_bytes = (2, self.b.stride(1) * size) if tma and k * size % 16 == 0 and n % 8 == 0 else None
        self.plan = plan_all_gather_matmul(
            shard_rows=rows, columns=n, length=k, ranks=ranks, element_bytes=size, arch=active_arch(),
            tma_bytes=tma_bytes, engine=engine, full_mesh=full_mesh,
        )  # fmt: skip
        self.per_row = scaled_rows and fp8
        self.shard = self.a[rank * rows : (rank + 1) * rows].clone()
        self.gathered = torch.zeros_like(self.a)
        self.memory = StreamedMemory(rank, ranks, rows * k * size + 4 * rows + 512, **memory)
        self.workspace = make_workspace(self.memory)
        self._launches: dict[tuple[str, int], Any] = {}
        self.fill()

    def fill(self) -> None:
        rows = self.shard.shape[0]
        for source in range(self.memory.ranks):
            part = slice(source * rows, (source + 1) * rows)
            self.memory.window(source, tuple(self.shard.shape), self.shard.dtype).copy_(self.a[part])
            if self.per_row:
                at = -(-self.shard.numel() * self.shard.element_size() // 256) * 256
                self.memory.window(source, (rows,), torch.float32, at).copy_(self.a_inverse[part, 0])
            if source == self.memory.rank:
                self.shard.copy_(self.a[part])

    @property
    def factor(self) -> Factor:
        return Factor(self.b, self.b_inverse, None, self.out, self.plan)

    def call(self) -> None:
        rows, rank = self.shard.shape[0], self.memory.rank
        own = self.a_inverse[rank * rows : (rank + 1) * rows] if self.per_row else None
        a_inverse = torch.full_like(self.a_inverse, float("nan")) if self.per_row else self.a_inverse
        where, factors = Gathered(self.gathered, a_inverse, self.per_row, True), [self.factor]
        key = "call", id(self.plan)
        if key not in self._launches:
            self._launches[key] = GatherLaunch(self.workspace, self.shard, where, factors)
        self._launches[key](self.shard, own, where, factors)

    def alone(self) -> None:
        """The waiting kernel with all chunks there."""
        gathered = Gathered(self.a, self.a_inverse, False, False)
        key = "alone", id(self.plan)
        if key not in self._launches:
            self._launches[key] = product_launch(
                self.workspace, self.shard, gathered, self.factor, 0, first=False, last=True
            )
        self._launches[key](self.shard, gathered, self.factor)

    def assert_right(self, what: str) -> None:
        torch.cuda.synchronize()
        self.workspace.check()
        exact, _ = exact_and_size(self.a, self.b, self.a_inverse, self.b_inverse)
        error = ((self.out.double() - exact).norm() / exact.norm()).item()
        # Of the rounding to bf16, 2^-9 at most a value; of Hopper's FP8 sums, see `gemms`.
        assert error < (SM_90_FP8_NORM if self.a.dtype == FP8 else 2.0**-9), (what, error)
        assert torch.equal(self.gathered.view(torch.uint8), self.a.view(torch.uint8)), what
        self.out.fill_(float("nan"))
        self.gathered.view(torch.uint8).zero_()


def captured(function: Callable[[], object]) -> torch.cuda.CUDAGraph:
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


class Scatter:
    """Matmul+reduce-scatter of two ranks on one GPU, each with its own stream and half of the programs."""

    def __init__(self, m: int, n: int, k: int, dtype: torch.dtype, *, halved: bool = True, tma: bool = True) -> None:
        self.m, self.n, self.k, self.dtype = m, n, k, dtype
        fp8 = dtype == FP8
        self.plan = plan_matmul_reduce_scatter(
            rows=m // 2, columns=n, length=k, ranks=2, element_bytes=dtype.itemsize, arch=active_arch(),
            tma_stride_bytes=k * dtype.itemsize if tma else None,
        )  # fmt: skip
        if halved:
            programs = min(self.plan.gemm.programs, 64)
            self.plan = replace(self.plan, gemm=replace(self.plan.gemm, programs=programs))
            if self.plan.tma is not None:
                self.plan = replace(self.plan, tma=replace(self.plan.tma, programs=min(self.plan.tma.programs, 64)))
        self.bs = [normal(n, k, dtype, seed=r).t() for r in range(2)]
        size = window_bytes(m // 2, n, 2)
        memories = [StreamedMemory(r, 2, size) for r in range(2)]
        memories[1].buffers, memories[1].pads = memories[0].buffers, memories[0].pads
        self.workspaces = [make_workspace(memory) for memory in memories]
        self.outs = [torch.full((m // 2, n), float("nan"), dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        inverses = [
            (scales(m, 1, exact=False, seed=r).cuda(), scales(1, n, exact=False, seed=r).cuda())
            if fp8
            else (None, None)
            for r in range(2)
        ]
        self.inverses = inverses
        self.parts = [as_parts(normal(m, k, dtype, seed=5 + r), self.bs[r], 2, 0, *inverses[r]) for r in range(2)]
        self.streams = [torch.cuda.Stream() for _ in range(2)]
        self._launches: dict[int, ScatterLaunch] = {}

    def launch(self, rank: int) -> None:
        parts, b, out = self.parts[rank], self.bs[rank], self.outs[rank]
        if rank not in self._launches:
            self._launches[rank] = ScatterLaunch(self.workspaces[rank], parts, b, out, self.plan, average=False)
        self._launches[rank](parts, b, out)

    def call(self) -> None:
        """Both ranks at a time, and a barrier behind."""
        current = torch.cuda.current_stream()
        for rank, stream in enumerate(self.streams):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                self.launch(rank)
        for stream in self.streams:
            current.wait_stream(stream)

    def assert_right(self, what: str) -> None:
        torch.cuda.synchronize()
        for workspace in self.workspaces:
            workspace.check()
        exact = sum(
            exact_and_size(part.a, b, *inverse)[0]
            for part, b, inverse in zip(self.parts, self.bs, self.inverses, strict=True)
        )
        for rank, out in enumerate(self.outs):
            wanted = exact.chunk(2)[rank]
            error = ((out.double() - wanted).norm() / wanted.norm()).item()
            assert error < (SM_90_FP8_NORM if self.dtype == FP8 else 2.0**-9), (what, rank, error)
            out.fill_(float("nan"))
