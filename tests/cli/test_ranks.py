"""``run --ranks``: a script that torchrun would start, on a virtual node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from wavecast.cli.errors import CliError
from wavecast.cli.rank_script import RanksRun, run_ranks_script
from wavecast.cli.simulate import script_node

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.compile, pytest.mark.execute]

HEAD = """
import os, sys
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
device = torch.device("cuda", rank)
"""


def run(tmp_path: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``run`` in a process of its own: it changes what torch and Triton are."""
    file = tmp_path / "script.py"
    file.write_text(HEAD + textwrap.dedent(script))
    command = [sys.executable, "-m", "wavecast.cli", "run", str(file), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def run_here(tmp_path: Path, script: str, ranks: int, *arguments: str, **options: Any) -> RanksRun:
    """The same in this process, which is as it was when the script is over."""
    file = tmp_path / "script.py"
    file.write_text(HEAD + textwrap.dedent(script))
    return run_ranks_script(str(file), arguments, device="mi300x", ranks=ranks, **{"seed": 0, **options})


def test_the_example_is_right_on_four_ranks(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_ranks_script(str(root / "docs/examples/ranks.py"), [], device="mi300x", ranks=4, seed=0)
    assert done.failure is None
    assert set(capsys.readouterr().out.splitlines()) == {f"rank {rank} of 4: right" for rank in range(4)}
    kernels = {item.name.split()[1]: item for item in done.activities if item.kind == "kernel"}
    assert (kernels["all_gather_matmul_kernel"].ranks, kernels["all_gather_matmul_kernel"].count) == (4, 4)
    assert not torch.cuda.is_available()
    assert "RANK" not in os.environ


def test_each_rank_has_its_gpu_environment_random_numbers_streams_and_collectives(tmp_path: Path) -> None:
    script = """
    assert (os.environ["RANK"], os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"]) == (str(rank), str(rank), "3")
    assert (torch.cuda.device_count(), torch.cuda.current_device(), torch.cuda.is_available()) == (3, rank, True)
    torch.manual_seed(rank)
    mine = torch.randn(8, device=device)
    assert mine.device == device and torch.empty(1, device="cuda").get_device() == rank
    dist.barrier()  # others draw theirs meanwhile
    again = torch.randn(8)
    torch.manual_seed(rank)
    assert torch.equal(mine.cpu(), torch.randn(8)) and torch.equal(again, torch.randn(8))

    total = torch.full((4,), float(rank), device=device)
    dist.all_reduce(total)
    assert total.tolist() == [3.0] * 4
    parts = torch.empty(6, device=device)
    dist.all_gather_into_tensor(parts, torch.full((2,), float(rank), device=device))
    assert parts.tolist() == [0, 0, 1, 1, 2, 2]

    window = symm_mem.empty(16, dtype=torch.int32, device=device)
    handle = symm_mem.rendezvous(window, dist.group.WORLD)
    other = torch.zeros(16, dtype=torch.int32, device=device)
    side, done = torch.cuda.Stream(priority=-1), torch.cuda.Event()
    window.fill_(rank + 1)
    handle.barrier()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        other.copy_(handle.get_buffer((rank + 1) % 3, (16,), torch.int32))
        done.record()
    assert not done.query()
    torch.cuda.current_stream().wait_event(done)
    assert other.tolist() == [(rank + 1) % 3 + 1] * 16 and done.query() and side.query()
    print("right", sys.argv[1:])
    """
    done = run(tmp_path, script, "--ranks", "3", "--seed", "2", "--json", "--", "--size", "7")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("right ['--size', '7']") == 3
    document = json.loads(done.stdout)
    assert (document["schema"], document["ranks"], document["seed"]) == ("wavecast.ranks/1", 3, 2)
    assert document["failure"] is None
    activities = {item["kind"]: item for item in document["activities"]}
    assert activities["barrier"]["count"] == 3
    assert activities["copy"]["bytes"] >= 3 * 64


def test_torchs_own_pipelines_run_on_the_node(tmp_path: Path) -> None:
    """What torch's decomposed AsyncTP is made of: copies on two streams, between barriers, products in between."""
    script = """
    def part(of, rows=8):
        return torch.arange(rows * 4, dtype=torch.float32, device=device).view(rows, 4) + 100 * of

    b = torch.arange(12, dtype=torch.float32, device=device).view(4, 3)
    for call in range(3):
        gathered, out = torch.empty(8 * ranks, 4, device=device), torch.empty(ranks, 8, 3, device=device)
        symm_mem._pipelined_multi_all_gather_and_consume(
            [part(rank + call)], lambda shard, source: torch.mm(shard[0], b, out=out[source]), [gathered], "wavecast"
        )
        whole = torch.cat([part(other + call) for other in range(ranks)])
        assert torch.equal(gathered, whole) and torch.equal(out.view(-1, 3), whole @ b)

        received = torch.empty(ranks * 2, 4, device=device)
        symm_mem._pipelined_produce_and_all2all(
            lambda target, chunk: chunk.copy_(part(rank * 10 + target + call, 2)), received, "wavecast"
        )
        wanted = [part(other * 10 + rank + call, 2) for other in range(ranks)]
        assert torch.equal(received, torch.cat(wanted))
    """
    for ranks, seed in ((2, 0), (4, 1)):
        done = run_here(tmp_path, script, ranks, seed=seed)
        assert done.failure is None, done.failure


def test_a_program_that_hangs_ends_with_who_waits_for_what(tmp_path: Path) -> None:
    script = """
    handle = symm_mem.rendezvous(symm_mem.empty(16, device=device), dist.group.WORLD)
    if rank != 1:
        handle.barrier()
    torch.cuda.synchronize()
    """
    failure = run_here(tmp_path, script, 3).failure
    assert failure is not None
    assert "rank 0: the program waits for its streams 'compute'" in failure
    assert "rank 1: the program has ended" in failure
    assert "waits at a barrier that 2 of 3 ranks have reached" in failure


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("torch.zeros(1, device='cuda:1' if rank == 0 else 'cuda')", "the program of rank 0 asks for GPU 1"),
        ("raise LookupError(f'rank {rank} fails')", "LookupError: rank"),
        ("dist.new_group([0])", "a part of torch.distributed that a node does not have"),
        ("torch.cuda.Event().elapsed_time(None)", "predicts no time"),
    ],
)
def test_a_rank_that_fails_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, message: str
) -> None:
    done = run_here(tmp_path, script, 2)
    assert done.failure is not None
    assert message in done.failure
    assert "script.py" in capsys.readouterr().err


def test_a_checked_script_has_its_missing_acquires_listed(tmp_path: Path) -> None:
    script = """
    import triton, triton.language as tl

    @triton.jit
    def exchange(pads, windows, out, rank, SIZE: tl.constexpr, SEM: tl.constexpr):
        place = tl.arange(0, SIZE)
        other = tl.load(windows + 1 - rank).to(tl.pointer_type(tl.float32))
        tl.store(other + place, place + 1.0 + rank)
        tl.debug_barrier()
        tl.atomic_xchg(tl.load(pads + 1 - rank).to(tl.pointer_type(tl.int32)), 1, sem="release", scope="sys")
        own = tl.load(pads + rank).to(tl.pointer_type(tl.int32))
        while tl.atomic_add(own, 0, sem=SEM, scope="sys") == 0:
            pass
        tl.store(out + place, tl.load(tl.load(windows + rank).to(tl.pointer_type(tl.float32)) + place))

    handle = symm_mem.rendezvous(symm_mem.empty(64, dtype=torch.float32, device=device), dist.group.WORLD)
    pads, windows = (torch.tensor(given, device=device) for given in (handle.signal_pad_ptrs, handle.buffer_ptrs))
    handle.barrier()
    out = torch.empty(64, device=device)
    exchange[(1,)](pads, windows, out, rank, SIZE=64, SEM=sys.argv[1])
    assert out.tolist() == [index + 2.0 - rank for index in range(64)]
    """
    for sem, found in (("acquire", set()), ("relaxed", {"missing-acquire"})):
        done = run_here(tmp_path, script, 2, sem, check=True)
        assert done.failure is None
        assert {finding.check for finding in done.findings} == found


def test_what_a_node_cannot_do_is_misuse(tmp_path: Path) -> None:
    done = run(tmp_path, "", "--ranks", "2", "--wide")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--ranks with --sample, -m or --wide" in done.stderr
    with pytest.raises(CliError, match="mi300a are joined"), script_node("mi300a", 2, 0):
        pass
