"""The overlapped products on one GPU, with the other ranks as buffers of it: right results, and times without links.

``python tests/benchmarks/gpu_async_tp.py check|scatter|alone|host|processes|progress``, on a machine with a GPU:

* ``check``: all-gather+matmul against float64, both kernels, with late copies, many times, and replayed from a graph;
* ``scatter``: matmul+reduce-scatter of two ranks at a time, each on half of the GPU;
* ``alone``: time of the waiting kernels when everything is there, beside torch's own product in the same run;
* ``host``: what a call costs the host;
* ``processes``: two processes on the one GPU, over torch.distributed's symmetric memory;
* ``progress``: which stream work a GPU carries out while a waiting kernel fills it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from gemms import SM_90_FP8_NORM, exact_and_size, scales
from symmetric import StreamedMemory

from wavecast.kernels.all_gather_matmul.api import overlapped_all_gather_matmul
from wavecast.kernels.all_gather_matmul.launch import Factor, Gathered, launch_all_gather_matmul, launch_factor
from wavecast.kernels.all_gather_matmul.operands import RowScales
from wavecast.kernels.all_gather_matmul.plan import plan_all_gather_matmul
from wavecast.kernels.async_tp.torch_memory import TorchSymmetricMemory
from wavecast.kernels.async_tp.workspace import SignalTimeoutError, make_workspace
from wavecast.kernels.device import active_arch
from wavecast.kernels.matmul_reduce_scatter.api import overlapped_matmul_reduce_scatter
from wavecast.kernels.matmul_reduce_scatter.launch import launch_matmul_reduce_scatter
from wavecast.kernels.matmul_reduce_scatter.operands import as_parts
from wavecast.kernels.matmul_reduce_scatter.plan import plan_matmul_reduce_scatter, window_bytes

SHAPES = (
    (4096, 14336, 8192),
    (8192, 8192, 8192),
    (8192, 3584, 8192),
    (2048, 3584, 8192),
    (16384, 4096, 4096),
    (4096, 1024, 512),
)
"""Gathered rows, columns and summed length."""
FP8 = torch.float8_e4m3fn


def normal(rows: int, columns: int, dtype: torch.dtype, *, seed: int) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, device="cuda").to(dtype)


class Case:
    """One call of one rank, with everything that it needs on the GPU."""

    def __init__(self, m: int, n: int, k: int, dtype: torch.dtype, *, ranks: int = 2, rank: int = 0, tma: bool = True,
                 scaled_rows: bool = False, **memory: int) -> None:  # fmt: skip
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
            tma_bytes=tma_bytes,
        )  # fmt: skip
        self.per_row = scaled_rows and fp8
        self.shard = self.a[rank * rows : (rank + 1) * rows].clone()
        self.gathered = torch.zeros_like(self.a)
        self.memory = StreamedMemory(rank, ranks, rows * k * size + 4 * rows + 512, **memory)
        self.workspace = make_workspace(self.memory)
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
        launch_all_gather_matmul(
            self.workspace, self.shard, own, Gathered(self.gathered, a_inverse, self.per_row, True), [self.factor]
        )

    def alone(self) -> None:
        """The waiting kernel with all chunks there."""
        gathered = Gathered(self.a, self.a_inverse, False, False)
        launch_factor(self.workspace, self.shard, gathered, self.factor, 0, first=False, last=True)

    def assert_right(self, what: str) -> None:
        torch.cuda.synchronize()
        self.workspace.check()
        exact, _ = exact_and_size(self.a, self.b, self.a_inverse, self.b_inverse)
        error = ((self.out.double() - exact).norm() / exact.norm()).item()
        # Of the rounding to bf16, 2^-9 at most a value; of Hopper's FP8 sums, see `gemms`.
        assert error < (SM_90_FP8_NORM if self.a.dtype == FP8 else 2.0**-9), (what, error)
        assert torch.equal(self.gathered.view(torch.uint8), self.a.view(torch.uint8)), what
        print(f"  {what}: relative error {error:.2e}", flush=True)
        self.out.fill_(float("nan"))
        self.gathered.view(torch.uint8).zero_()


def captured(function: Callable[[], object]) -> torch.cuda.CUDAGraph:
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def check() -> None:
    for dtype in (torch.bfloat16, FP8):
        for tma in (True, False):
            for m, n, k, ranks, rank in ((1024, 1024, 512, 4, 1), (1200, 520, 336, 4, 3), (1040, 768, 1024, 2, 1)):
                case = Case(m, n, k, dtype, ranks=ranks, rank=rank, tma=tma, scaled_rows=dtype == FP8,
                            delay_cycles=500_000)  # fmt: skip
                what = f"{m}x{n}x{k} {dtype} rank {rank} of {ranks} {'tma' if case.plan.tma else 'triton'}"
                case.call()
                case.assert_right(what)
                graph = captured(case.call)
                for replay in range(3):
                    case.a.copy_(normal(m, k, dtype, seed=10 + replay))
                    case.fill()
                    case.gathered.view(torch.uint8).zero_()
                    case.out.fill_(float("nan"))
                    graph.replay()
                    torch.cuda.synchronize()
                case.assert_right(what + " replayed")
                for _ in range(50):
                    case.call()
                case.assert_right(what + " 50 times")


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
        self.parts = [
            as_parts(normal(m, k, dtype, seed=5 + r), self.bs[r], 2, 0, *inverses[r], torch.bfloat16) for r in range(2)
        ]
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def launch(self, rank: int) -> None:
        launch_matmul_reduce_scatter(
            self.workspaces[rank], self.parts[rank], self.bs[rank], self.outs[rank], self.plan, average=False
        )

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
        print(f"  {what}: relative error {error:.2e}", flush=True)


def scatter() -> None:
    for dtype in (torch.bfloat16, FP8):
        for m, n, k, tma in ((1024, 1024, 512, True), (1180, 520, 336, True), (1180, 520, 336, False)):
            case = Scatter(m, n, k, dtype, tma=tma)
            what = f"{m}x{n}x{k} {dtype} two ranks {'tma' if case.plan.tma else 'triton'}"
            case.call()
            case.assert_right(what)
            graph = captured(case.call)
            for _ in range(20):
                graph.replay()
            case.assert_right(what + " replayed 20 times")


def timed(graphs: dict[str, torch.cuda.CUDAGraph], rounds: int, replays: int) -> dict[str, float]:
    """Microseconds a replay, the median of rounds that take turns."""
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            start.record()
            for _ in range(replays):
                graph.replay()
            end.record()
            end.synchronize()
            times[name].append(1000 * start.elapsed_time(end) / replays)
    return {name: median(found) for name, found in times.items()}


def alone() -> None:
    print("M x N x K dtype: torch us | gathering, tma us (x torch) | triton us (x torch) | scattering us (x torch)")
    for dtype in (torch.bfloat16, FP8):
        for m, n, k in SHAPES:
            graphs: dict[str, torch.cuda.CUDAGraph] = {}
            one = torch.ones((), device="cuda")
            cases = {"tma": Case(m, n, k, dtype), "triton": Case(m, n, k, dtype, tma=False)}
            a, b = cases["tma"].a, cases["tma"].b
            if dtype == FP8:
                graphs["torch"] = captured(
                    lambda a=a, b=b, one=one: torch._scaled_mm(
                        a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
                    )
                )
            else:
                graphs["torch"] = captured(lambda a=a, b=b: torch.mm(a, b))
            for name, case in cases.items():
                case.memory.signals(0).fill_(1 << 30)
                graphs[name] = captured(case.alone)
            replays = max(5, int(12000 / (m * n * k / 3e8)))
            found = timed(graphs, rounds=7, replays=replays)
            base = found["torch"]
            scattering = Scatter(m, n, k, dtype, halved=False)
            scattering.workspaces[0].memory.signals(0).fill_(1 << 30)
            graphs["scatter"] = captured(lambda case=scattering: case.launch(0))
            found |= timed({"again": graphs["torch"], "scatter": graphs["scatter"]}, rounds=7, replays=replays)
            rest = " | ".join(f"{name} {found[name]:.1f} ({found[name] / base:.3f})" for name in cases)
            rest += f" | scatter {found['scatter']:.1f} ({found['scatter'] / found['again']:.3f})"
            print(f"{m}x{n}x{k} {str(dtype)[6:]}: {base:.1f} | {rest}", flush=True)


def host() -> None:
    """Time that the host takes to put a call on the streams, checks and allocations left out."""
    calls = 200
    gather, scattering = Case(512, 512, 512, torch.bfloat16), Scatter(512, 512, 512, torch.bfloat16, halved=False)
    for memory in (gather.memory, scattering.workspaces[0].memory):
        memory.signals(0).fill_(1 << 30)
    for name, function in (("gather", gather.call), ("scatter", lambda: scattering.launch(0))):
        function()
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(calls):
            function()
        taken = perf_counter() - started
        torch.cuda.synchronize()
        print(f"  {name}: {1e6 * taken / calls:.0f} us a call", flush=True)


def processes() -> None:
    """Two processes that share this GPU, over torch.distributed's symmetric memory; they take turns on it."""
    environment = {**os.environ, "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen([sys.executable, __file__, "process", str(rank), f"{folder}/store"], env=environment)
            for rank in range(2)
        ]
        for process in running:
            try:
                process.wait(timeout=60)
            finally:
                if process.poll() is None:
                    process.kill()


def process(rank: int, store: str) -> None:
    """One of the two."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    group = dist.group.WORLD
    workspace = make_workspace(TorchSymmetricMemory(group, 1 << 22))
    for dtype in (torch.bfloat16, FP8):
        m, n, k = 520, 272, 336
        inverse = torch.full((), 0.5, device="cuda") if dtype == FP8 else None
        scaled = RowScales(None, inverse)
        for call in range(3):
            a, b = normal(m, k, dtype, seed=call), normal(n, k, dtype, seed=9).t()
            shard = a.chunk(2)[rank].clone()
            gathered, (out,) = overlapped_all_gather_matmul(
                workspace, shard, [b], scaled, [inverse], [None], [torch.bfloat16]
            )
            parts = as_parts(a, b, 2, 0, inverse, inverse, torch.bfloat16)
            part = overlapped_matmul_reduce_scatter(workspace, parts, b, torch.bfloat16, average=False)
            torch.cuda.synchronize()
            workspace.check()
            exact, _ = exact_and_size(a, b, inverse, inverse)
            assert torch.equal(gathered.view(torch.uint8), a.view(torch.uint8))
            errors = [
                ((found.double() - wanted).norm() / wanted.norm()).item()
                for found, wanted in ((out, exact), (part, 2 * exact.chunk(2)[rank]))
            ]
            assert max(errors) < (SM_90_FP8_NORM if dtype == FP8 else 2.0**-9), (rank, call, errors)
        print(f"  rank {rank} {dtype}: relative errors {errors[0]:.2e} {errors[1]:.2e}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def progress() -> None:
    """Work put on a stream after a waiting kernel: the kernel ends by its limit where the work has to wait for it."""
    ways: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
        "4-byte copy": lambda word, number: word.copy_(number),
        "fill (a kernel)": lambda word, number: word.fill_(1),
        "memset32": lambda word, number: torch.ops.symm_mem.memset32_(word.view(torch.uint32), 0, 1, 1),
        "stream_write_value32": lambda word, number: torch.ops.symm_mem.stream_write_value32_(
            word.view(torch.uint32), 0, 1
        ),
    }
    big = torch.zeros(2, 64 << 20, dtype=torch.uint8, device="cuda")
    for programs in (132, 131):
        for copied in (0, 64 << 20):
            for name, way in ways.items():
                case = Case(8192, 4096, 1024, torch.bfloat16)
                case.plan = replace(case.plan, tma=replace(case.plan.tma, programs=programs), polls=200_000)
                side = torch.cuda.Stream(priority=-1)
                number = case.workspace.call_number.clone()
                torch.cuda.synchronize()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                case.alone()
                end.record()
                with torch.cuda.stream(side):
                    try:
                        if copied:
                            big[0, :copied].copy_(big[1, :copied])
                        way(case.memory.signals(0)[1:2], number)
                        said = "goes on"
                    except Exception as error:  # such as an operator that this torch does not have
                        said = f"{type(error).__name__}: {str(error)[:80]}"
                torch.cuda.synchronize()
                try:
                    case.workspace.check()
                except SignalTimeoutError:
                    said = "held up by the waiting kernel"
                print(f"  {programs} programs, {copied} B copied, then {name}: {said}, "
                      f"{start.elapsed_time(end):.2f} ms", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["process"]:
        process(int(sys.argv[2]), sys.argv[3])
        sys.exit()
    for part in sys.argv[1:] or ("check", "scatter", "alone", "host", "processes", "progress"):
        print(part, flush=True)
        {
            "check": check,
            "scatter": scatter,
            "alone": alone,
            "host": host,
            "processes": processes,
            "progress": progress,
        }[part]()
