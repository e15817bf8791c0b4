"""Times of the overlapped products on one GPU, with the other ranks as buffers of it: what no link takes part in.

``python tests/benchmarks/gpu_async_tp.py [alone|host|calls|progress]``, on a machine with a GPU:

* ``alone``: time of the waiting kernels when everything is there, beside torch's own product in the same run;
* ``host``: what it costs the host to put a call on the streams;
* ``calls``: what a call of the operators costs the host, over torch's symmetric memory of two processes that share the
  GPU, beside PyTorch's own operators;
* ``progress``: which stream work a GPU carries out while a waiting kernel fills it.

Whether results are right, tests/kernels/gpu/test_overlapped_on_gpu.py says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from overlapped_calls import FP8, Case, Scatter, captured
from small_kernel import scale_kernel

from wavecast.cli.measuring.group_calls import GatherCase, ScatterCase
from wavecast.cli.measuring.ranks import Rank, RankGroup
from wavecast.kernels.all_gather_matmul import all_gather_matmul
from wavecast.kernels.async_tp.workspace import SignalTimeoutError
from wavecast.kernels.kept_launch import KeptLaunch
from wavecast.kernels.matmul_reduce_scatter import matmul_reduce_scatter

SHAPES = (
    (4096, 14336, 8192),
    (8192, 8192, 8192),
    (8192, 3584, 8192),
    (2048, 3584, 8192),
    (16384, 4096, 4096),
    (4096, 1024, 512),
)
"""Gathered rows, columns and summed length."""


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


def calls() -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    group = RankGroup(["cuda:0"] * 2, step_s=60)
    try:
        for name, taken_us in group.run(host_of_calls)[0].items():
            print(f"  {name}: {taken_us:.0f} us a call", flush=True)
    finally:
        group.close()


def host_of_calls(me: Rank) -> dict[str, float]:
    """Host time of a call, the least of rounds that take turns; the GPU's work is waited for between rounds only."""
    m, n, k = 512, 512, 512
    group = dist.group.WORLD
    contestants: dict[str, Callable[[], object]] = {}

    def gathering(case: GatherCase) -> Callable[[], object]:
        scales = {} if case.a_inverse is None else {"a_inverse": case.a_inverse, "b_inverses": [case.b_inverse]}
        return lambda: all_gather_matmul(case.a, [case.b], group, setting="1", **scales)

    def scattering(case: ScatterCase) -> Callable[[], object]:
        scales = {} if case.a_inverse is None else {"a_inverse": case.a_inverse, "b_inverse": case.b_inverse}
        return lambda: matmul_reduce_scatter(case.a, case.b, group, setting="1", **scales)

    for kind in ("bf16", "fp8"):
        gather, scatter = (make(me, {"m": m, "n": n, "k": k}, kind) for make in (GatherCase, ScatterCase))
        contestants[f"gather {kind}"] = gathering(gather)
        contestants[f"scatter {kind}"] = scattering(scatter)
        contestants[f"torch gather {kind}"] = gather.calls["decomposed"]
        contestants[f"torch scatter {kind}"] = scatter.calls["decomposed"]
    contestants["gather bf16, chunks by copy engines"] = gathering(
        GatherCase(me, {"m": 2048, "n": 2048, "k": 4096}, "bf16")
    )
    source, target = torch.zeros(2, 512, 512, device="cuda").unbind()
    contestants["one copy of torch within the GPU"] = lambda: target.copy_(source)
    words = torch.zeros(4, dtype=torch.int32, device="cuda")
    launch = KeptLaunch(scale_kernel, 1, stay=(words, words), sizes=(4,), constants={"BLOCK": 128})
    contestants["one launch of a kernel with three arguments"] = lambda: launch((), ())
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call()
    for _ in range(15):
        for name, call in contestants.items():
            torch.cuda.synchronize()
            dist.barrier()
            started = perf_counter()
            for _ in range(10):
                call()
            times[name].append(1e6 * (perf_counter() - started) / 10)
    torch.cuda.synchronize()
    return {name: min(found) for name, found in times.items()}


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
    for part in sys.argv[1:] or ("alone", "host", "calls", "progress"):
        print(part, flush=True)
        {"alone": alone, "host": host, "calls": calls, "progress": progress}[part]()
