"""The overlapped products on one real GPU, whose buffers the other ranks are: late chunks, graphs, missing ranks.

With several GPUs, ``torchrun`` a program of one's own: nothing here needs more than one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from overlapped_calls import FP8, Case, Scatter, captured, normal

from wavecast.kernels.async_tp.transport import Engine
from wavecast.kernels.async_tp.workspace import SignalTimeoutError

pytestmark = pytest.mark.gpu
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, FP8], ids=["bf16", "fp8"])
KERNELS = pytest.mark.parametrize("tma", [True, False], ids=["tma", "triton"])
LATE_CYCLES = 500_000


@pytest.fixture(autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


@DTYPES
@KERNELS
@pytest.mark.parametrize(("m", "n", "k", "ranks", "rank"), [(1024, 1024, 512, 4, 1), (1200, 520, 336, 4, 3)])
def test_late_chunks_and_replays_with_changing_inputs(
    dtype: torch.dtype, tma: bool, m: int, n: int, k: int, ranks: int, rank: int
) -> None:
    """Copies begin half a millisecond apart; scales of rows are gathered too."""
    case = Case(m, n, k, dtype, ranks=ranks, rank=rank, tma=tma, scaled_rows=dtype == FP8, delay_cycles=LATE_CYCLES)
    case.call()
    case.assert_right("first call")
    graph = captured(case.call)
    for replay in range(20):
        case.a.copy_(normal(m, k, dtype, seed=10 + replay))
        case.fill()
        case.gathered.view(torch.uint8).zero_()
        case.out.fill_(float("nan"))
        graph.replay()
        case.assert_right(f"replay {replay}")


@DTYPES
@pytest.mark.parametrize("engine", ["fetcher", "copy-engine"])
def test_chunks_of_all_ranks_at_once_in_parts(dtype: torch.dtype, engine: Engine) -> None:
    """Three signals a chunk by programs of the kernel that fetch, one by streams; 200 replays."""
    case = Case(2400, 520, 336, dtype, ranks=4, rank=3, tma=False, scaled_rows=dtype == FP8, engine=engine,
                full_mesh=True)  # fmt: skip
    assert case.plan.transport.peers == 3
    case.call()
    case.assert_right("first call")
    graph = captured(case.call)
    for replay in range(200):
        graph.replay()
        if replay % 20 == 0:
            case.assert_right(f"replay {replay}")
    graph.replay()
    case.assert_right("last replay")


@KERNELS
def test_a_thread_that_has_called_nothing_else(tma: bool) -> None:
    """It has no context of the driver's yet, as a thread of autograd's may not."""
    case = Case(1024, 512, 256, torch.bfloat16, tma=tma)
    case.call()
    case.assert_right("first call")
    case.call()  # what is kept of a first call launches directly from the second on
    case.assert_right("second call")
    other = threading.Thread(target=case.call)
    other.start()
    other.join()
    case.assert_right("call of another thread")


@KERNELS
def test_e5_a_thousand_calls_back_to_back(tma: bool) -> None:
    """Chunks of 4 MB; every result is looked at on the device, none is waited for."""
    case = Case(4096, 256, 2048, torch.bfloat16, ranks=4, rank=2, tma=tma)
    case.call()
    case.assert_right("first call")
    case.call()
    first = case.out.clone()
    differing = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(1000):
        case.out.fill_(float("nan"))
        case.gathered.zero_()
        case.call()
        differing += (case.out != first).sum()
    case.assert_right("last call")
    assert differing.item() == 0


@KERNELS
def test_a_rank_that_does_not_come_is_a_time_out(tma: bool) -> None:
    case = Case(1024, 512, 256, torch.bfloat16, ranks=4, rank=1, tma=tma, withheld={3})
    case.plan = replace(case.plan, polls=10_000)
    case.call()
    torch.cuda.synchronize()
    with pytest.raises(SignalTimeoutError, match="rank 1 gave up waiting for chunk 3: its signal was to be 1 and is 0"):
        case.workspace.check()


@DTYPES
@KERNELS
@pytest.mark.parametrize(("m", "n", "k"), [(1024, 1024, 512), (1180, 520, 336)])
def test_two_ranks_scatter_at_a_time(dtype: torch.dtype, tma: bool, m: int, n: int, k: int) -> None:
    """Each on half of the GPU, waiting for the other; then from a graph."""
    case = Scatter(m, n, k, dtype, tma=tma)
    case.call()
    case.assert_right("first call")
    graph = captured(case.call)
    for _ in range(100):
        graph.replay()
    case.assert_right("last replay")


def test_two_processes_over_symmetric_memory_of_torch(tmp_path: Path) -> None:
    """They share the GPU and take turns on it; torch has a setting for that, for tests."""
    script = Path(__file__).parent.parent / "async_tp" / "symmetric_script.py"
    environment = {**os.environ, "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1", "GLOO_SOCKET_IFNAME": "lo"}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=100)[0] for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
    for process, text in zip(running, said, strict=True):
        assert process.returncode == 0, text[-2000:]
